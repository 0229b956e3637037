"""Parsers of disks, arrays, file systems and mounts: recorded answers and odd ones."""

from __future__ import annotations

import json

import pytest

from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.probes import (
    by_id,
    lsblk,
    mdadm,
    mounts,
    signatures,
    xfs,
)
from llmhw_provision.probes.mdadm import ArrayLine
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.signatures import Signature
from tests.unit.recordings import answer, recorded, sample

GOOD = recorded("provisioned")
MIXED = recorded("mixed-disks")


def test_lsblk_samples() -> None:
    found = lsblk.parse(sample("block/lsblk_J_O_b_vm.json"))
    assert all(isinstance(block.size_bytes, int) for block in found)


@pytest.mark.parametrize("name", ["block/lsblk_J_gpud3.json", "block/lsblk_J_gpud4.json", "block/lsblk_J_vm.json"])
def test_lsblk_with_sizes_as_text_is_refused(name: str) -> None:
    with pytest.raises(ProbeError, match="could not read lsblk output"):
        lsblk.parse(sample(name))


def old_lsblk() -> bytes:
    """As util-linux 2.32 prints it: texts instead of numbers and booleans, one `mountpoint`."""
    item = {"name": "sda", "type": "disk", "size": "960197124096", "rota": "0", "rm": "0", "log-sec": "512"}
    return json.dumps({"blockdevices": [{**item, "mountpoint": "/data", "serial": "S1"}]}).encode()


def test_old_lsblk() -> None:
    (found,) = lsblk.parse(old_lsblk())
    assert (found.size_bytes, found.rotational, found.mounts) == (960197124096, False, ("/data",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"960197124096"', '"894.3G"'),
        ('"960197124096"', "-1"),
        ('"rota": "0"', '"rota": "ja"'),
        ('"rota": "0"', '"rota": null'),
        ('"name"', '"Name"'),
    ],
)
def test_lsblk_values_that_are_none_are_refused(old: str, new: str) -> None:
    with pytest.raises(ProbeError, match="could not read lsblk output"):
        lsblk.parse(old_lsblk().replace(old.encode(), new.encode()))


def test_serial_of_a_disk_and_of_its_partition() -> None:
    devices = lsblk.blocks(MIXED)
    assert lsblk.serial_of(devices, "nvme3n1p1") == "LAB3"
    assert lsblk.serial_of(devices, "nvme3n1") == "LAB3"
    assert lsblk.serial_of(devices, "nvme9n1") == ""


def test_signatures_of_partitions_and_whole_disks() -> None:
    found = signatures.signatures(MIXED)
    assert found["nvme0n1"] == ()
    assert [item.type for item in found["nvme2n1"]] == ["xfs"]
    assert [item.type for item in found["nvme3n1"]] == ["gpt"]
    assert (found["nvme3n1p1"][0].type, found["nvme3n1p1"][0].label) == ("ext4", "home")


def test_a_disk_that_wipefs_cannot_read_is_never_empty() -> None:
    assert signatures.parse(b"== sda\n!! 1\n== sdb\n") == {"sda": (Signature("unreadable"),), "sdb": ()}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("nvme-MICRON_7500_S6XY", "nvme-MICRON_7500_S6XY_1", "nvme-eui.000000000000001"), "nvme-MICRON_7500_S6XY"),
        (("nvme-eui.0025385", "nvme-nvme.144d-53"), "nvme-eui.0025385"),
        (("nvme-A_S1_2", "nvme-eui.1"), "nvme-A_S1_2"),
        (("ata-ST_Z1", "wwn-0x5000c500"), "ata-ST_Z1"),
        (("wwn-0x5000c500", "scsi-35000c500", "scsi-SSEAGATE_ST_Z1"), "scsi-SSEAGATE_ST_Z1"),
        (("nvme-A_S1-part1",), ""),
        (("dm-name-vg-root", "md-uuid-1:2:3:4", "lvm-pv-uuid-x"), ""),
        ((), ""),
    ],
)
def test_the_name_a_disk_goes_by(names: tuple[str, ...], chosen: str) -> None:
    assert by_id.canonical(names) == (f"/dev/disk/by-id/{chosen}" if chosen else "")
    assert by_id.canonical(tuple(reversed(names))) == by_id.canonical(names)


def test_mdstat_samples() -> None:
    (whole,) = mdadm.parse_mdstat(sample("mdadm/mdstat_raid0_8nvme.txt"))
    assert (whole.name, whole.active, whole.level, len(whole.members)) == ("md0", True, "raid0", 8)
    assert whole.members[0] == "nvme0n1"
    (part,) = mdadm.parse_mdstat(sample("mdadm/mdstat_raid0_md127_7of8.txt"))
    assert (part.name, len(part.members)) == ("md127", 7)
    (idle,) = mdadm.parse_mdstat(sample("mdadm/mdstat_inactive_raid0.txt"))
    assert (idle.active, idle.level, len(idle.members)) == (False, "", 3)


def test_mdstat_of_a_failed_mirror() -> None:
    text = b"Personalities : [raid1] \nmd0 : active (auto-read-only) raid1 sda1[0](F) sdb1[1]\n      1 blocks\n\n"
    (found,) = mdadm.parse_mdstat(text + b"unused devices: <none>\n")
    assert (found.level, found.members, found.faulty) == ("raid1", ("sda1", "sdb1"), ("sda1",))


def test_no_md_module_means_no_arrays() -> None:
    assert mdadm.parse_mdstat(b"") == ()


def test_arrays_by_name_whatever_their_kernel_name() -> None:
    found = {detail.name: detail for detail in mdadm.details(GOOD).values()}
    assert (found["scratch"].level, found["scratch"].members) == ("raid0", ("nvme0n1", "nvme1n1"))
    assert (found["project"].level, found["project"].raid_devices) == ("raid1", 2)


def test_without_mdadm_and_without_arrays_there_are_none() -> None:
    empty = recorded("empty-disks")
    bare = {**empty.results, "mdadm-detail": Result(127, b"", b"", 0.0, ("sh",)), "mdstat": Result(0, b"", b"", 0.0)}
    assert mdadm.details(Evidence("h", "machine", bare)) == {}
    stays = {**GOOD.results, "mdadm-detail": Result(127, b"", b"", 0.0, ("sh",))}
    with pytest.raises(ProbeError):
        mdadm.details(Evidence("h", "machine", stays))


def test_array_lines_in_every_way_they_are_written() -> None:
    raw = (
        b"== /etc/mdadm/mdadm.conf\n# ARRAY /dev/md/old UUID=1\nHOMEHOST <system>\n"
        b"ARRAY /dev/md/a metadata=1.2 UUID=5ba4af44:c448bf71:608e4c18:4173d90f\n"
        b"array /dev/md/b\n   uuid=5BA4AF44-c448-bf71-608e-4c184173d90e # note\n"
    )
    assert mdadm.parse_conf(raw) == (
        ArrayLine("/etc/mdadm/mdadm.conf", "/dev/md/a", "5ba4af44:c448bf71:608e4c18:4173d90f"),
        ArrayLine("/etc/mdadm/mdadm.conf", "/dev/md/b", "5ba4af44:c448bf71:608e4c18:4173d90e"),
    )


def test_the_mount_that_is_seen_is_the_last_one() -> None:
    entries = mounts.mounted(GOOD)
    scratch = mounts.at(entries, "/scratch")
    assert scratch is not None
    assert (scratch.source, scratch.type, scratch.option("logbsize")) == ("/dev/md127", "xfs", "256k")
    assert scratch.option("noatime") == ""
    assert scratch.option("discard") is None


def test_geometry() -> None:
    found = xfs.geometry(GOOD, "/scratch")
    assert (found.stripe_unit_bytes, found.stripe_disks) == (512 * 1024, 2)


def test_geometry_that_is_no_whole_number_of_disks_is_refused() -> None:
    with pytest.raises(ProbeError, match="not a multiple"):
        xfs.parse(answer(GOOD, "xfs:/scratch").replace(b"swidth=256", b"swidth=300"))
