"""What the shared role modules decide: mount units and initramfs images, without any machine."""

import gzip
import lzma
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "roles/host_modules/module_utils"))

from host_modules import initramfs, mount_unit
from host_modules.mount_unit import Bare, Mount, Mounted, State

SCRATCH = Mount(
    path="/scratch",
    type="xfs",
    source="/dev/disk/by-uuid/c83ac7bf-d73d-402f-a31b-1e8e5c7720f0",
    options=("noatime", "nofail"),
    device_timeout_s=20,
    owner="root",
    group="root",
    mode="1777",
)
HOT = Mount(path="/hot", type="tmpfs", source="tmpfs", options=("size=256M", "mode=1777", "nosuid", "huge=within_size"))
DONE = State(
    files=mount_unit.files(SCRATCH),
    enabled=True,
    mounted=Mounted("9:127", "xfs", "/dev/md127", ("rw", "noatime", "attr2")),
    source_number="9:127",
    bare=Bare(exists=True, immutable=True),
    root=("root", "root", "1777"),
)


def kinds(mount: Mount, state: State) -> list[str]:
    return [kind for kind, _ in mount_unit.actions(mount, state)]


# The names were written by systemd-escape --path (252).
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/scratch", "scratch"),
        ("/srv/my-project", r"srv-my\x2dproject"),
        ("/", "-"),
        ("//srv///x/", "srv-x"),
        ("/.hidden/.inner", r"\x2ehidden-.inner"),
        ("/data 1/ü", r"data\x201-\xc3\xbc"),
        ("/a_b:c.d", "a_b:c.d"),
    ],
)
def test_escape(path: str, name: str) -> None:
    assert mount_unit.escape(path) == name


def test_the_unit_is_wanted_and_its_device_is_waited_for_only_so_long() -> None:
    files = mount_unit.files(SCRATCH)
    unit = files["/etc/systemd/system/scratch.mount"]
    assert "What=/dev/disk/by-uuid/c83ac7bf-d73d-402f-a31b-1e8e5c7720f0\nWhere=/scratch\nType=xfs\n" in unit
    assert unit.endswith("[Install]\nWantedBy=local-fs.target\n")
    drop_in = next(path for path in files if path.endswith("50-llmhw-timeout.conf"))
    assert r"dev-disk-by\x2duuid-c83ac7bf\x2dd73d\x2d402f\x2da31b\x2d1e8e5c7720f0.device.d/" in drop_in
    assert files[drop_in].endswith("[Unit]\nJobRunningTimeoutSec=20\n")


def test_nothing_is_left_to_do() -> None:
    assert mount_unit.actions(SCRATCH, DONE) == []
    assert mount_unit.refusals(SCRATCH, DONE) == []


def test_a_new_mount_takes_every_step_in_order() -> None:
    new = ["folder", "immutable", "unit", "enable", "start", "root"]
    assert kinds(SCRATCH, State()) == new
    assert kinds(replace(SCRATCH, source=None), State()) == new  # check mode, the device is still to be made


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({"mounted": None}, ["start", "root"]),
        ({"enabled": False}, ["enable"]),
        ({"stale": True}, ["reload"]),
        ({"files": {}}, ["unit"]),
        ({"bare": Bare(exists=True, immutable=False)}, ["immutable"]),
        ({"bare": Bare(exists=True, immutable=None)}, []),
        ({"root": ("root", "root", "0755")}, ["root"]),
        ({"mounted": Mounted("9:127", "xfs", "/dev/md127", ("rw", "relatime"))}, ["remount"]),
    ],
)
def test_what_is_missing_is_what_is_done(changed: dict[str, object], left: list[str]) -> None:
    assert kinds(SCRATCH, replace(DONE, **changed)) == left  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"bare": Bare(exists=True, entries=("a", "b"), immutable=True)}, "already holds files (a, b)"),
        ({"bare": Bare(exists=True, folder=False)}, "is not a folder"),
        ({"fstab": True}, "is a mount of /etc/fstab"),
        ({"mounted": Mounted("8:1", "ext4", "/dev/sda1", ())}, "is the mount point of /dev/sda1 (ext4)"),
        ({"mounted": Mounted("9:126", "xfs", "/dev/md126", ())}, "is the mount point of /dev/md126 (xfs)"),
    ],
)
def test_refusals(changed: dict[str, object], words: str) -> None:
    (text,) = mount_unit.refusals(SCRATCH, replace(DONE, **changed))  # type: ignore[arg-type]
    assert words in text


def tmpfs(*options: str) -> State:
    return State(
        files=mount_unit.files(HOT),
        enabled=True,
        mounted=Mounted("0:34", "tmpfs", "tmpfs", ("rw", "nosuid", *options)),
        bare=Bare(exists=True, immutable=True),
        root=("root", "root", "1777"),
    )


def test_project_quotas_are_taken_up_by_mounting_again() -> None:
    wanted = replace(SCRATCH, options=("noatime", "nofail", "prjquota"))
    there = replace(DONE, files=mount_unit.files(wanted))
    assert kinds(wanted, there) == ["again"]
    quotas = Mounted("9:127", "xfs", "/dev/md127", ("rw", "noatime", "prjquota"))
    assert kinds(wanted, replace(there, mounted=quotas)) == []


def test_a_memory_file_system_is_resized_by_remounting() -> None:
    assert kinds(HOT, tmpfs("size=262144k", "huge=within_size")) == []
    assert kinds(HOT, tmpfs("size=131072k", "huge=within_size")) == ["remount"]
    assert kinds(HOT, tmpfs("size=262144k")) == ["remount"]
    assert [sentence for _, sentence in mount_unit.actions(HOT, tmpfs("size=1k", "huge=within_size"))] == [
        "remount /hot with size=256M"
    ]


def test_mountinfo_and_fstab() -> None:
    text = (
        "82 24 8:1 / /scratch rw,relatime shared:40 - ext4 /dev/sda1 rw\n"
        "83 24 9:127 / /scratch rw,noatime shared:41 - xfs /dev/md127 rw,attr2\n"
        "84 24 0:3 / /my\\040data rw - tmpfs tmpfs rw,size=64k\n"
    )
    top = mount_unit.mounted_at(text, "/scratch")
    assert top == Mounted("9:127", "xfs", "/dev/md127", ("rw", "noatime", "attr2"))
    assert mount_unit.mounted_at(text, "/my data") is not None
    assert mount_unit.mounted_at(text, "/") is None
    fstab = "# /scratch\nUUID=1 / ext4 defaults 0 1\n/dev/sdb /scratch/ xfs defaults 0 0\n"
    assert mount_unit.in_fstab(fstab, "/scratch")
    assert not mount_unit.in_fstab(fstab, "/srv")


# Images


def cpio(files: dict[str, bytes]) -> bytes:
    """A newc archive."""
    out = b""
    for name, data in {**files, "TRAILER!!!": b""}.items():
        raw = name.encode() + b"\0"
        numbers = [0, 0o100644, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0]
        out += b"070701" + b"".join(b"%08x" % number for number in numbers) + raw
        out += b"\0" * (-len(out) % 4)
        out += data
        out += b"\0" * (-len(out) % 4)
    return out + b"\0" * (-len(out) % 512)


FILES = {"bin": b"", "etc/mdadm/mdadm.conf": b"ARRAY x\n", "lib/big": bytes(300_000), "zz": b"last"}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gzip", "xz"])
@pytest.mark.parametrize("early", [b"", cpio({"kernel/x86/microcode/AuthenticAMD.bin": b"ucode"})], ids=["one", "two"])
def test_files_are_found_in_every_kind_of_image(tmp_path: Path, pack: object, early: bytes) -> None:
    image = tmp_path / "initrd.img"
    image.write_bytes(early + pack(cpio(FILES)))  # type: ignore[operator]
    assert initramfs.members(str(image), ["/etc/mdadm/mdadm.conf", "/zz", "/none"]) == {
        "/etc/mdadm/mdadm.conf": b"ARRAY x\n",
        "/zz": b"last",
    }


def test_names_may_start_with_a_dot(tmp_path: Path) -> None:
    image = tmp_path / "initrd.img"
    image.write_bytes(cpio({"./etc/x": b"1"}))
    assert initramfs.members(str(image), ["/etc/x"]) == {"/etc/x": b"1"}


def test_a_cut_off_image_is_an_error(tmp_path: Path) -> None:
    image = tmp_path / "initrd.img"
    image.write_bytes(cpio(FILES)[:1000])
    with pytest.raises(ValueError, match="damaged"):
        initramfs.members(str(image), ["/zz"])


def test_only_lines_that_count_are_compared() -> None:
    ours = b"# note\nCREATE owner=root\nARRAY /dev/md/x UUID=1\n\n"
    inside = b"#CREATE owner=root\nARRAY /dev/md/x UUID=1\n"
    assert initramfs.significant(ours) == initramfs.significant(inside)
    assert initramfs.significant(ours) != initramfs.significant(ours + b"MAILADDR root\n")


def test_images_are_those_of_installed_kernels(tmp_path: Path) -> None:
    for release in ("6.1.0-50-amd64", "6.1.0-49-amd64"):
        (tmp_path / "modules" / release).mkdir(parents=True)
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6.1.0-50-amd64").touch()
    found = initramfs.images("all", boot=f"{tmp_path}/boot", modules=f"{tmp_path}/modules")
    assert found == {"6.1.0-50-amd64": f"{tmp_path}/boot/initrd.img-6.1.0-50-amd64"}


def test_a_rebuild_that_dpkg_has_put_off(tmp_path: Path) -> None:
    status = tmp_path / "status"
    stanza = "Package: mdadm\nStatus: install ok installed\n\nPackage: initramfs-tools\nStatus: install ok {}\n\n"
    status.write_text(stanza.format("triggers-pending"))
    assert initramfs.trigger_pending(str(status))
    status.write_text(stanza.format("installed"))
    assert not initramfs.trigger_pending(str(status))


def test_reasons_name_the_files_by_their_paths(tmp_path: Path) -> None:
    (tmp_path / "nvme_raid0").write_text("/etc/mdadm/mdadm.conf not yet in the initramfs of 6.1.0-50-amd64\n")
    reasons = initramfs.reasons(str(tmp_path))
    assert reasons == {"nvme_raid0": "/etc/mdadm/mdadm.conf not yet in the initramfs of 6.1.0-50-amd64"}
    assert initramfs.files_of(list(reasons.values())) == ["/etc/mdadm/mdadm.conf"]
    assert initramfs.reasons(str(tmp_path / "none")) == {}


def test_an_image_newer_than_the_last_boot_wants_a_reboot(tmp_path: Path) -> None:
    for name in ("boot", "modules/6.1"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("vmlinuz-6.1", "initrd.img-6.1"):
        (tmp_path / "boot" / name).write_text("")
    os.utime(tmp_path / "boot/initrd.img-6.1", (2000, 2000))
    places = {"boot": f"{tmp_path}/boot", "modules": f"{tmp_path}/modules", "stat": f"{tmp_path}/stat"}
    (tmp_path / "stat").write_text("cpu 1\nbtime 1000\n")
    assert initramfs.newer_than_boot("all", **places)
    (tmp_path / "stat").write_text("cpu 1\nbtime 3000\n")
    assert not initramfs.newer_than_boot("all", **places)
    initramfs.want_reboot("initramfs", "because", folder=f"{tmp_path}/run/reasons")
    assert (tmp_path / "run/reasons/initramfs").read_text() == "because\n"
