"""Parsers of the role nvme_raid0, on bytes recorded from Debian 12 (mdadm 4.2, xfsprogs 6.1)."""

import base64
import json
import sys
import zlib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "roles/nvme_raid0/module_utils"))

from nvme_raid0 import conf, filesystems, formats, health
from nvme_raid0.facts import Filesystem, Signature, Superblock

# mdadm --create /dev/md/scratch --level=0 --raid-devices=3 --chunk=512 --homehost=any, second member, at 4096
MEMBER = zlib.decompress(
    base64.b64decode(
        "eNr746e9kpEBAXwneqzqzixZ8fOl69xNPlt3JeZVWhUnFyWWJGcwYAOs33myYWxkcxhYGBiYGYgAElD6hT2Y4kCThplpvuVay+KK1GzBwOfr"
        "E+o5QkEqOdDsB4H/ULB76dHdDcTYD7SBCa5r5AGGUTAKRsEoGAWjYBSMglEwCkbBKBgFIwIAACWHH7U="
    )
)
# mkfs.xfs -L scratch -d su=512k,sw=3 on it
XFS = zlib.decompress(
    base64.b64decode(
        "eNqLcAt2YmAQYAAD8e8M6OCE1fH9120d9BdLy/XFlCt8AAsKMHBAZFmgqlgYoTQTkGBkYPoP4kDVODBsXcrEAJTgKE4uSixJzgCL8nByMgsxMEgy"
        "wBRBgC3EHdtOMOAHILMbgFY1QLggirELgsGAF4i5QYypL/WSkBw6CtAAAGbeFpA="
    )
)
# mkfs.ext4 -b 4096 -L scratch -O quota,project -E stride=128,stripe_width=384,quotatype=prjquota (e2fsprogs 1.47.0)
EXT4 = zlib.decompress(
    base64.b64decode(
        "eNpjYBgFo2AUjFjgAMVA8NacgeGLPYTNBMUMDVAMVbNoBm82A8P//8HvGRkY4XwIYITS3FCODZA6BDQkW5WBoeQi77yTq/2VmlwVsh8+dVhfnFyU"
        "WJKcQWXPsGOIcCCxu71X3Qqd6HFjhpx5zJne2OeMjA4MPAwIf3F9ZmZgQVLPBcT8SLQUEEsC8XNmBgYtFlyBiQAKQMgIDT4YaAAKsACx6TBLRtwc"
        "hNXwjOa2QQU4d2Z9AACiACfw"
    )
)
UUID = "4d9148aa8b6974a8f9e9459db24cb5ba"


def test_md_superblock_says_what_mdadm_examine_says() -> None:
    assert formats.md_superblock(MEMBER) == Superblock(
        uuid=UUID, name="any:scratch", level="raid0", chunk_kib=512, devices=3, role=1, data_offset=6144 * 512
    )


@pytest.mark.parametrize("position", [0, 16, 72, 216, 256])
def test_a_damaged_md_superblock_is_none(position: int) -> None:
    damaged = bytearray(MEMBER)
    damaged[position] ^= 0x40
    assert formats.md_superblock(bytes(damaged)) is None


@pytest.mark.parametrize("length", [0, 4, 255, 300])
def test_a_cut_off_superblock_is_none(length: int) -> None:
    assert formats.md_superblock(MEMBER[:length]) is None
    assert filesystems.filesystem(XFS[: min(length, 200)]) is None


def test_xfs_superblock_says_what_xfs_info_says() -> None:
    assert filesystems.filesystem(XFS) == Filesystem(
        uuid="c83ac7bf-d73d-402f-a31b-1e8e5c7720f0", label="scratch", unit_kib=512, width_kib=1536
    )


def cut_off(raw: bytes, *, sealed: bool) -> bytes:
    """The XFS as it is until mkfs has written everything; `sealed` with the right checksum."""
    changed = bytearray(raw[:512].ljust(512, b"\0"))
    changed[126] = 1
    changed[224:228] = bytes(4)
    crc = filesystems.crc32c(bytes(changed)) ^ (0 if sealed else 1)
    changed[224:228] = crc.to_bytes(4, "little")
    return bytes(changed)


def test_a_mkfs_that_was_cut_off_is_seen_only_with_its_checksum() -> None:
    for sealed in (True, False):
        found = filesystems.filesystem(cut_off(XFS, sealed=sealed))
        assert found is not None
        assert found.unfinished is sealed


def test_crc32c_of_the_standards_example() -> None:
    assert filesystems.crc32c(b"123456789") == 0xE3069283
    assert filesystems.crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


def test_health_of_a_drive() -> None:
    page = bytearray(512)
    assert health.parse(bytes(page)).warnings == ()
    page[0], page[5] = 0b1100, 104
    found = health.parse(bytes(page))
    assert found.warnings == (
        "reliability is degraded by media or internal errors",
        "the media has become read-only",
    )
    assert found.used_percent == 104


def test_health_of_what_is_no_nvme_drive_is_unknown() -> None:
    assert health.health("/dev/null") is None
    assert health.health("/dev/nvme99n1") is None


def test_ext4_superblock_says_what_mkfs_was_told() -> None:
    assert filesystems.filesystem(EXT4) == Filesystem(
        uuid="74d10d9e-c9ab-4f22-8245-206be1e540af", label="scratch", unit_kib=512, width_kib=1536, type="ext4"
    )
    older = bytearray(EXT4)
    older[1024 + 96] &= ~0x40  # without extents it is an ext3 or ext2
    assert filesystems.filesystem(bytes(older)) is None
    plain = bytearray(EXT4)
    plain[1024 + 101] &= ~0x20  # without the feature "project"
    found = filesystems.filesystem(bytes(plain))
    assert found is not None
    assert not found.project_quota


def test_uuid_of_blkid_and_mdadm_are_one() -> None:
    assert formats.mdadm_uuid(UUID) == "4d9148aa:8b6974a8:f9e9459d:b24cb5ba"
    assert formats.plain_uuid("4d9148aa-8b69-74a8-f9e9-459db24cb5ba") == UUID
    assert formats.plain_uuid(formats.mdadm_uuid(UUID).upper()) == UUID


def entry(device: str, kind: str, usage: str | None, uuid: str | None = None, label: str | None = None) -> object:
    return {"device": device, "offset": "0x438", "type": kind, "usage": usage, "uuid": uuid, "label": label}


def test_wipefs_merges_the_copies_of_a_gpt_and_takes_its_uuid_from_blkid() -> None:
    text = json.dumps(
        {
            "signatures": [
                entry("nvme0n1", "gpt", "partition-table"),
                entry("nvme0n1", "gpt", "partition-table"),
                entry("nvme0n1", "PMBR", "partition-table"),
                entry("nvme0n1p1", "ext4", "filesystem", "71e02c33-8b2c", "customer"),
            ]
        }
    )
    assert formats.wipefs(text, {"/dev/nvme0n1": "AB-12"}) == (
        Signature("/dev/nvme0n1", "gpt", "partition-table", "AB-12", ""),
        Signature("/dev/nvme0n1p1", "ext4", "filesystem", "71e02c33-8b2c", "customer"),
    )


def test_the_protective_record_of_a_lost_gpt_is_still_a_signature() -> None:
    text = json.dumps({"signatures": [entry("sda", "PMBR", "partition-table")]})
    assert [signature.type for signature in formats.wipefs(text, {})] == ["PMBR"]


@pytest.mark.parametrize("text", ["", "\n", '{"signatures": []}'])
def test_wipefs_without_signatures(text: str) -> None:
    assert formats.wipefs(text, {}) == ()


def test_mountinfo_unescapes_paths() -> None:
    text = "82 24 9:127 / /my\\040data rw,noatime shared:40 - xfs /dev/md127 rw,attr2\n"
    assert formats.mountinfo(text) == (("9:127", "/my data", "/dev/md127"),)


@pytest.mark.parametrize(
    ("link", "serial", "wwid"),
    [
        ("nvme-QEMU_NVMe_Ctrl_LAB0", "LAB0                ", ""),
        ("nvme-QEMU_NVMe_Ctrl_LAB0_1", "LAB0", ""),
        ("nvme-nvme.1b36-4c414230-51454d55-00000001", "LAB0", "nvme.1b36-4c414230-51454d55-00000001"),
        ("nvme-eui.0025385b21404321", "S6XYZ", "eui.0025385b21404321"),
        ("wwn-0x5000c500a1b2c3d4", "ZL2", "naa.5000c500a1b2c3d4"),
        ("scsi-35000c500a1b2c3d4", "ZL2", "naa.5000c500a1b2c3d4"),
        ("ata-ST16000NM001G_ZL2ABCDE", "ZL2ABCDE", ""),
        ("virtio-LABX", "LABX", ""),
        ("nvme-WD_X_AB_12", "AB 12", ""),
    ],
)
def test_links_that_lead_to_their_disk(link: str, serial: str, wwid: str) -> None:
    assert formats.names_disk("/dev/disk/by-id/" + link, serial=serial, wwid=wwid)


@pytest.mark.parametrize(
    ("link", "serial", "wwid"),
    [
        ("nvme-QEMU_NVMe_Ctrl_LAB0", "LAB1", ""),
        ("nvme-QEMU_NVMe_Ctrl_XLAB0", "LAB0", ""),
        ("nvme-QEMU_NVMe_Ctrl_LAB0", "", ""),
        ("nvme-eui.0025385b21404321", "S6XYZ", "eui.0025385b21404322"),
        ("wwn-0x5000c500a1b2c3d4", "ZL2", "naa.5000c500a1b2c3d5"),
        ("nvme-QEMU_NVMe_Ctrl_LAB0", "LA.0", ""),
    ],
)
def test_links_that_lead_to_another_disk(link: str, serial: str, wwid: str) -> None:
    assert not formats.names_disk("/dev/disk/by-id/" + link, serial=serial, wwid=wwid)


DEBIAN = "# mdadm.conf\nHOMEHOST <system>\nMAILADDR root\n"
LINE = "ARRAY /dev/md/scratch metadata=1.2 UUID=4d9148aa:8b6974a8:f9e9459d:b24cb5ba\n"


def test_the_array_line_is_added_once() -> None:
    once = conf.with_array(DEBIAN, name="scratch", uuid=UUID)
    assert once == DEBIAN + LINE
    assert conf.with_array(once, name="scratch", uuid=UUID) == once
    assert conf.with_array(None, name="scratch", uuid=UUID) == LINE
    assert conf.with_array("MAILADDR root", name="scratch", uuid=UUID) == "MAILADDR root\n" + LINE


@pytest.mark.parametrize(
    "stale",
    [
        "ARRAY /dev/md/scratch metadata=1.2 UUID=00000000:11111111:22222222:33333333\n",
        "ARRAY /dev/md127 metadata=1.2 name=any:scratch UUID=00000000:11111111:22222222:33333333\n",
        "array /dev/md9 UUID=4D9148AA:8b6974a8:f9e9459d:b24cb5ba\n",
        "ARRAY /dev/md/scratch metadata=1.2\n   UUID=00000000:11111111:22222222:33333333\n\tspares=1\n",
        "ARRAY scratch UUID=00000000:11111111:22222222:33333333\n",
        LINE + LINE,
    ],
)
def test_stale_lines_of_that_array_are_replaced_where_they_stand(stale: str) -> None:
    after = "ARRAY /dev/md/other UUID=00000000:11111111:22222222:44444444\n"
    assert conf.with_array(DEBIAN + stale + after, name="scratch", uuid=UUID) == DEBIAN + LINE + after


def test_a_comment_that_looks_like_the_line_stays() -> None:
    text = "#ARRAY /dev/md/scratch UUID=x\n  still about the comment\n"
    assert conf.with_array(text, name="scratch", uuid=UUID) == text + LINE


def test_read_ahead_rule() -> None:
    rule = conf.read_ahead_rule([("c83ac7bf-d73d-402f-a31b-1e8e5c7720f0", 4096)])
    assert 'ENV{ID_FS_UUID}=="c83ac7bf-d73d-402f-a31b-1e8e5c7720f0", ATTR{queue/read_ahead_kb}="4096"\n' in rule
    assert conf.read_ahead_rule([]) == ""
