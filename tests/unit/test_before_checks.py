"""The checks before apply: pass on a machine that is ready, fail on one that is not, never pass unread."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from llmhw_provision.checks import hardware, table
from llmhw_provision.checks.model import Finding
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.run.preflight import Preflight, allowed
from tests.assembled_before import switched_before
from tests.unit.ready import READY, added, findings, said
from tests.unit.recordings import changed, host_plan, replaced, swapped, without

GPU = "== 0000:1b:00.0\n0x00000000{start} 0x00000000{start}fff 0x000000000014220c\n0x0 0x0 0x0\n"


def shifted(seconds: int) -> Callable[[bytes], bytes]:
    return lambda raw: f"{int(raw) + seconds}\n".encode()


LOCK = "file 4711 /var/lib/dpkg/lock-frontend\n1: POSIX  ADVISORY  WRITE 31 fe:01:4711 0 EOF\n"
BROKEN: dict[str, list[tuple[Evidence, str, str]]] = {
    "access": [(said("whoami", "1000\n"), "fail", "reached as user 1000")],
    "access-system": [
        (said("os-release", 'ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian 11"\n'), "fail", "Debian 11"),
        (said("os-release", 'ID=ubuntu\nVERSION_ID="24.10"\nPRETTY_NAME="Ubuntu 24.10"\n'), "fail", "24.10"),
        (said("uname", "Linux 6.1.0 aarch64\n"), "fail", "aarch64"),
    ],
    "access-python": [
        (said("python", "3.6.8\n"), "fail", "3.6.8"),
        (replaced(READY, "python", Result(127, b"", b"", 0.1, ("/usr/bin/python3",))), "fail", "no /usr/bin/python3"),
    ],
    "use-gpu": [
        (added("gpu-holders", "31\n"), "fail", "systemd-logind of root (pid 31)"),
        (added("gpu-holders", "99999\n"), "fail", "pid 99999"),
    ],
    "use-jobs": [(added("jobs", "slurmstepd: [812.extern]\n"), "fail", "[812.extern]")],
    "use-containers": [
        (added("processes", "  900 ?  root  containerd-shim\n"), "fail", "containerd-shim of root (pid 900)"),
        (added("processes", "  901 ?  root  qemu-system-x86\n"), "fail", "qemu-system-x86"),
    ],
    "use-people": [
        (added("processes", "  77 pts/3  anna  bash\n"), "fail", "anna on pts/3"),
        (added("processes", "  77 pts/0  anna  tmux: server\n"), "fail", "anna on pts/0"),
    ],
    "use-image": [(added("leftovers", "/etc/dgx-release\n"), "fail", "NVIDIA DGX OS")],
    "use-accelerators": [
        (
            added(
                "pci",
                "".join(
                    f"0000:9b:00.0/{k}:{v}\n"
                    for k, v in (("class", "0x120000"), ("vendor", "0x1da3"), ("device", "0x1060"))
                ),
            ),
            "fail",
            "Habana (Intel Gaudi) 1060 at 0000:9b:00.0",
        )
    ],
    "package-sources": [
        (added("package-sources", "bad http://m.example/InRelease 503  Service Unavailable\n"), "fail", "503"),
        (added("package-sources", "bad http://m.example/InRelease Could not resolve 'm.example'\n"), "fail", "resolve"),
        (said("package-sources", ""), "fail", "no source over the network"),
    ],
    "package-candidate": [
        (swapped(READY, "package-candidates", "Candidate: 4.2-5", "Candidate: (none)"), "fail", "no source offers it"),
        (swapped(READY, "package-candidates", "mdadm:", "other:"), "fail", "no source offers it"),
        (said("package-candidates", "Lists 0\n"), "warn", "package lists were never fetched"),
    ],
    "package-states": [
        (added("package-states", "iHR|linux-image\n"), "fail", "left half-way: linux-image"),
        (added("package-states", "iUR|other\n"), "fail", "left half-way: other"),
        (added("package-states", "iHR|mdadm\n!!|interrupted\n"), "warn", "left half-way: mdadm, an interrupted dpkg"),
        (added("package-states", "iU |mdadm\niF |xfsprogs\n"), "warn", "not configured yet: mdadm, xfsprogs"),
    ],
    "package-locks": [
        (added("package-locks", LOCK), "fail", "/var/lib/dpkg/lock-frontend by systemd-logind (pid 31)"),
        (added("package-locks", "first-boot cloud-init\n"), "fail", "cloud-init"),
    ],
    "host-room": [
        (said("df", "1B-blocks Avail Mounted on\n9000000000 3000000000 /\n"), "fail", "/ has 2.8 GiB free, 3."),
        (
            said("df", "1B-blocks Avail Mounted on\n9000000000 8000000000 /\n900000000 80000000 /boot\n"),
            "fail",
            "/boot has 76.3 MiB free, 128.0 MiB are needed for /boot",
        ),
        (swapped(READY, "findmnt", '"options": "rw,', '"options": "ro,'), "fail", "/ is mounted read-only"),
    ],
    "host-clock": [
        (changed(READY, "clock", shifted(3600)), "fail", "3600 s ahead of the clock here"),
        (changed(READY, "clock", shifted(-3600)), "fail", "s behind the clock here"),
        (changed(READY, "clock", shifted(20)), "warn", "20 s ahead"),
    ],
    "host-name": [(said("own-name", "gpu-7\n"), "warn", "gpu-7 has no address")],
    "firmware-secure-boot": [
        (
            replaced(
                said("secure-boot", "   1\n"), "gpu-bars", Result(0, GPU.format(start="e0000").encode(), b"", 0.1)
            ),
            "warn",
            "on, and there are GPUs",
        )
    ],
    "firmware-windows": [
        (said("gpu-bars", "== 0000:1b:00.0\n0x0 0x1ffffff 0x40200\n"), "fail", "0000:1b:00.0"),
        (said("gpu-bars", "== 0000:1b:00.0\n0x0 0x0 0x0\n"), "fail", "0000:1b:00.0"),
    ],
}
CASES = [(check, *case) for check, cases in BROKEN.items() for case in cases]
# package-solution and what hardware asks are broken in the fault table: test_faults.py
ELSEWHERE = {"package-solution", *(check.id for check in hardware.CHECKS)}
ONLY_BEFORE = {check.id for check in table.chosen("before") if check.levels == ("before",)} - ELSEWHERE


def test_every_check_is_broken_here() -> None:
    assert set(BROKEN) == ONLY_BEFORE


def test_a_machine_that_is_ready_passes_every_check() -> None:
    found = table.judge_all(host_plan(), READY, "before")
    assert {item.check for item in found} >= ONLY_BEFORE
    assert [item for item in found if item.status != "pass"] == []


@pytest.mark.parametrize(("check", "evidence", "status", "says"), CASES, ids=[f"{c[0]}: {c[3]}" for c in CASES])
def test_what_is_not_ready_is_found(check: str, evidence: Evidence, status: str, says: str) -> None:
    found = findings(evidence)[check]
    assert (found.status, says in found.found) == (status, True), found
    assert found.expected
    assert found.cause
    assert found.next_step


@pytest.mark.parametrize("item", list(table.items(host_plan(), "before")), ids=lambda item: item.name)
def test_a_check_without_evidence_never_passes(item: table.Item) -> None:
    key = table.judge(item, READY).evidence
    assert key in {command.key for command in table.commands(host_plan(), "before")}
    assert table.judge(item, without(READY, key)).status == "could-not-run"
    cut = table.judge(item, changed(READY, key, lambda raw: raw[:-2] if raw else b"?"))
    assert cut.status == "could-not-run"


def test_the_clock_is_read_last_since_it_is_compared_with_the_time_of_the_answer() -> None:
    commands = table.commands(host_plan(), "before")
    assert commands[-1].key == "clock"
    assert len({command.key for command in commands}) == len(commands)


def test_a_host_that_cannot_be_reached_is_one_finding() -> None:
    gone = Evidence("vm-01", "machine", {}, problem="vm-01 (192.0.2.1): cannot be reached: timed out", hint="look")
    (found,) = table.judge_all(host_plan(), gone, "before")
    assert (found.check, found.status, found.next_step) == ("access", "fail", "look")
    assert "timed out" in found.found


def test_services_of_the_gpus_and_consoles_are_nobody() -> None:
    busy = added("processes", "  50 ?  root  nvidia-persiste\n  51 tty1 root agetty\n  52 ttyS0 root login\n")
    found = findings(changed(busy, "gpu-holders", lambda raw: raw + b"50\n"))
    assert (found["use-gpu"].status, found["use-people"].status) == ("pass", "pass")


def test_onboard_graphics_and_an_intel_npu_are_no_accelerators() -> None:
    lines = "".join(
        f"0000:{bus}:00.0/class:{kind}\n0000:{bus}:00.0/vendor:{vendor}\n0000:{bus}:00.0/device:0x2000\n"
        for bus, kind, vendor in (
            ("a1", "0x030000", "0x1a03"),
            ("a2", "0x120000", "0x8086"),
            ("a3", "0x030200", "0x10de"),
        )
    )
    assert findings(added("pci", lines))["use-accelerators"].status == "pass"


def test_secure_boot_alone_is_known_and_fine() -> None:
    assert findings(said("secure-boot", "   1\n"))["firmware-secure-boot"].found == "on, no GPU"
    assert findings(said("secure-boot", "unreadable\n"))["firmware-secure-boot"].status == "could-not-run"


def test_the_largest_image_decides_about_boot() -> None:
    tight = said("df", "1B-blocks Avail Mounted on\n9000000000 8000000000 /\n900000000 150000000 /boot\n")
    assert findings(tight)["host-room"].status == "pass"
    large = changed(tight, "boot-images", lambda raw: raw + b"80000000 /boot/initrd.img-6.1.0\n")
    assert "/boot has 143.1 MiB free, 152.6 MiB are needed" in findings(large)["host-room"].found


def test_the_installers_driver_is_no_matter_of_permission_where_apply_installs_one() -> None:
    plan = switched_before().plan
    item = next(item for item in table.items(plan, "before") if item.check.id == "use-image")
    there = added("leftovers", "/usr/bin/nvidia-uninstall\n")
    assert table.judge(item, there).status == "pass"
    alone = next(item for item in table.items(host_plan(), "before") if item.check.id == "use-image")
    assert table.judge(alone, there).status == "fail"


def preflight(*found: Finding) -> Preflight:
    return Preflight(plan="p", folder="f", seconds=1.0, hosts=("a",), allow_interrupt=False, findings=found, disks=())


def test_interruption_can_be_allowed_and_nothing_else() -> None:
    busy = findings(BROKEN["use-people"][0][0])["use-people"]
    late = findings(BROKEN["host-clock"][0][0])["host-clock"]
    assert [item.status for item in map(allowed, (busy, late))] == ["warn", "fail"]
    assert len(preflight(busy, late).refusals) == 2
    assert len(preflight(*map(allowed, (busy, late))).refusals) == 1
    assert preflight(allowed(busy)).warnings == (
        "vm-01: nobody is logged in at a terminal: anna on pts/3; expected nobody",
    )


def test_the_same_reason_of_several_hosts_is_said_once() -> None:
    late = findings(BROKEN["host-clock"][0][0])["host-clock"]
    (problem,) = preflight(late, late.model_copy(update={"host": "vm-02"})).refusals
    assert problem.message == ("vm-01, vm-02: the clock is right: 3600 s ahead of the clock here; expected within 60 s")
    assert problem.hint.endswith("· runbook preflight-host")


def test_what_was_not_asked_stands_against_the_start() -> None:
    unread = findings(without(READY, "processes"))["use-people"]
    assert unread.status == "could-not-run"
    assert len(preflight(unread).refusals) == 1
