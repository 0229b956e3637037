"""Every parser: recorded answers give the known values; damaged, cut or foreign ones give an error, never a value."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.probes import (
    by_id,
    folders,
    initramfs,
    lsblk,
    lscpu,
    mdadm,
    mounts,
    pci,
    signatures,
    system,
    systemd,
    volume_watch,
    xfs,
)
from llmhw_provision.probes.mdadm import ArrayLine
from llmhw_provision.probes.reading import ProbeError, output
from llmhw_provision.probes.signatures import Signature
from tests.unit.recordings import SAMPLES, answer, recorded

GOOD = recorded("provisioned")
MIXED = recorded("mixed-disks")
PARSERS: dict[str, Callable[[bytes], object]] = {
    "uname": system.parse_uname,
    "virt": system.parse_virt,
    "meminfo": system.parse_memory,
    "lscpu": lscpu.parse,
    "lsblk": lsblk.parse,
    "signatures": signatures.parse,
    "by-id": by_id.parse,
    "mdstat": mdadm.parse_mdstat,
    "md-sysfs": mdadm.parse_kernel,
    "mdadm-detail": mdadm.parse_detail,
    "mdadm-conf": mdadm.parse_conf,
    "findmnt": mounts.parse,
    "df": mounts.parse_df,
    "pci": pci.parse_devices,
    "net": pci.parse_interfaces,
    "fstrim": systemd.parse_units,
    "mount-unit:/scratch": systemd.parse_mount,
    "bare:/scratch": folders.parse_bare,
    "folders": folders.parse_stat,
    "read-ahead": folders.parse_read_ahead,
    "volume-watch": volume_watch.parse,
    "xfs:/scratch": xfs.parse,
    "initramfs": initramfs.parse,
    "boot-times": initramfs.parse_times,
}
OPTIONAL_TEXT = {"mdadm-conf", "initramfs"}  # free text: a foreign line in a configuration file is no damage


@pytest.mark.parametrize("key", PARSERS)
def test_recorded_answers_are_read(key: str) -> None:
    assert PARSERS[key](answer(GOOD, key))


@pytest.mark.parametrize("key", PARSERS)
def test_an_answer_that_is_cut_off_is_refused(key: str) -> None:
    with pytest.raises(ProbeError, match=r"^could not read .+ output: "):
        PARSERS[key](answer(GOOD, key)[:-3])


@pytest.mark.parametrize("key", [key for key in PARSERS if key not in OPTIONAL_TEXT])
@pytest.mark.parametrize("text", ["Segmentation fault\n", "\ufffd\x00\x01\n", '{"other": 1}\n'])
def test_foreign_answers_are_refused(key: str, text: str) -> None:
    with pytest.raises(ProbeError):
        PARSERS[key](text.encode())


@pytest.mark.parametrize("key", PARSERS)
def test_bytes_that_are_no_text_are_refused(key: str) -> None:
    with pytest.raises(ProbeError):
        PARSERS[key](b"\xff\xfe" + answer(GOOD, key))


def test_output_says_why_there_is_none() -> None:
    def said(result: Result) -> str:
        with pytest.raises(ProbeError) as caught:
            output(Evidence("h", "machine", {"k": result}), "k")
        return str(caught.value)

    assert said(Result(127, b"", b"", 0.0, ("xfs_info", "/x"))) == "k: xfs_info is not installed"
    assert said(Result(124, b"", b"", 10.0, ("findmnt",))) == "k: findmnt did not answer within 10 s"
    assert said(Result(1, b"half", b"a\nno device\n", 0.0, ("lsblk",))) == "k: lsblk ended with status 1: no device"
    with pytest.raises(ProbeError, match="other was not read on h"):
        output(Evidence("h", "machine", {}), "other")


def test_system() -> None:
    found = system.os_of(GOOD)
    assert (found.id, found.version, found.architecture) == ("debian", "12", "x86_64")
    assert found.pretty_name == "Debian GNU/Linux 12 (bookworm)"
    assert system.virtualization(GOOD) == "qemu"
    assert system.firmware(GOOD) == "bios"
    assert system.memory_of(GOOD) == 2014036 * 1024


def test_a_bare_machine_answers_none_with_status_1() -> None:
    bare = Evidence("h", "machine", {"virt": Result(1, b"none\n", b"", 0.0, ("systemd-detect-virt",))})
    assert system.virtualization(bare) == "none"
    odd = Evidence("h", "machine", {"virt": Result(1, b"kvm\n", b"", 0.0, ("systemd-detect-virt",))})
    with pytest.raises(ProbeError):
        system.virtualization(odd)


def test_memory_without_a_unit_is_refused() -> None:
    with pytest.raises(ProbeError, match="no MemTotal in kB"):
        system.parse_memory(b"MemTotal: 64 GB\n")


def test_translated_lscpu_is_refused() -> None:
    raw = answer(GOOD, "lscpu").replace(b'"CPU(s):"', b'"Processeur(s) :"')
    with pytest.raises(ProbeError, match="CPU"):
        lscpu.parse(raw)


def sample(name: str) -> bytes:
    if not SAMPLES.is_dir():
        pytest.skip(f"no recorded samples at {SAMPLES}")
    return (SAMPLES / name).read_bytes()


def test_lscpu_sample() -> None:
    found = lscpu.parse(sample("cpu/lscpu_J_vm.json"))
    assert (found.sockets, found.cores, found.threads) == (1, 2, 2)


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


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1min 30s", 90), ("infinity", None), ("500ms", 0.5), ("1h", 3600)]
)
def test_time_spans(text: str, seconds: float | None) -> None:
    assert systemd.span(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "bald", "30s later"])
def test_time_spans_that_are_none(text: str) -> None:
    with pytest.raises(ProbeError):
        systemd.span(text)


@pytest.mark.parametrize(
    ("path", "name"),
    [("/scratch", "scratch.mount"), ("/srv/project", "srv-project.mount"), ("/mnt/a-b", "mnt-a\\x2db.mount")],
)
def test_names_of_mount_units(path: str, name: str) -> None:
    assert systemd.unit_name(path) == name


def test_failed_units() -> None:
    assert systemd.parse_failed(b"") == ()
    raw = "● foo.service loaded failed failed Foo\nbar.mount loaded failed failed Bar\n".encode()
    assert systemd.parse_failed(raw) == ("bar.mount", "foo.service")


def test_pci_and_interfaces() -> None:
    raw = (
        b"0000:1b:00.0/class:0x030200\n0000:1b:00.0/vendor:0x10de\n0000:1b:00.0/device:0x2330\n"
        b"0000:1b:00.0/numa_node:1\n"
    )
    (found,) = pci.parse_devices(raw)
    assert (found.class_id, found.vendor_id, found.device_id, found.numa_node) == ("0302", "10de", "2330", 1)
    (nic,) = pci.interfaces(GOOD)
    assert (nic.name, nic.driver, nic.mac) == ("eth0", "virtio_net", "52:54:00:12:34:56")


def test_a_pci_function_without_vendor_is_refused() -> None:
    with pytest.raises(ProbeError, match="vendor None"):
        pci.parse_devices(b"0000:1b:00.0/class:0x030200\n")


def cpio(files: dict[str, bytes]) -> bytes:
    """An archive in format newc."""
    out = b""
    for name, data in [*files.items(), ("TRAILER!!!", b"")]:
        fields = [0, 0o100644, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        out += head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
    return out


@pytest.mark.parametrize("packed", [False, True])
def test_the_program_that_reads_an_initramfs(tmp_path: Path, packed: bool) -> None:
    conf = b"ARRAY /dev/md/a UUID=5ba4af44:c448bf71:608e4c18:4173d90f"
    main = cpio({"bin/sh": b"x" * 5000, "etc/mdadm/mdadm.conf": conf, "lib/modules/m.ko": b"y" * 9})
    early = cpio({"kernel/x86/microcode/GenuineIntel.bin": b"z" * 700})
    image = tmp_path / "initrd"
    image.write_bytes(early + b"\0" * 300 + (gzip.compress(main) if packed else main))
    program = initramfs.command().argv[4]
    done = subprocess.run(
        [sys.executable, "-c", program, str(image), "/etc/mdadm/mdadm.conf"], capture_output=True, check=True
    )
    assert done.stdout == f"== {image}\n== /etc/mdadm/mdadm.conf\n".encode() + conf + b"\n"


def test_the_program_refuses_a_damaged_initramfs(tmp_path: Path) -> None:
    image = tmp_path / "initrd"
    image.write_bytes(b"no archive at all" * 10)
    program = initramfs.command().argv[4]
    done = subprocess.run([sys.executable, "-c", program, str(image), "/etc/x"], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"damaged" in done.stderr
