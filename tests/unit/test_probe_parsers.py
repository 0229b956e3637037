"""Every parser: recorded answers give the known values; damaged, cut or foreign ones give an error, never a value."""

from __future__ import annotations

import gzip
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
from llmhw_provision.probes.reading import ProbeError, output
from tests.unit.recordings import answer, recorded, sample

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


def test_lscpu_sample() -> None:
    found = lscpu.parse(sample("cpu/lscpu_J_vm.json"))
    assert (found.sockets, found.cores, found.threads) == (1, 2, 2)


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
