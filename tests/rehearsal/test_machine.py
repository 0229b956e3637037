"""The machine leaves nothing behind: not after a failure half-way, not when it is told to stop."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rehearsal import box, host, layout
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.machine import Machine, missing
from tests.rehearsal.settings import REPO, STATE

pytestmark = pytest.mark.vm


def traces() -> dict[str, list[str]]:
    """What a rehearsal can leave on this computer: processes, links, mounts, firewall chains, drives."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if line.split(" ")[0].rpartition("/")[2] in ("libvirtd", "virtlogd") or (
            layout.DOMAIN in line and line.split(" ")[0].rpartition("/")[2] in ("qemu-system-x86_64", "dnsmasq")
        ):
            processes.append(line[:80])
    rules = subprocess.run(["iptables", "-w", "-S"], capture_output=True, text=True, check=False).stdout
    return {
        "processes": processes,
        "links": [path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(("virbr", "vnet"))],
        "mounts": [
            line for line in Path("/proc/mounts").read_text().splitlines() if "llmhw-provision/rehearsal" in line
        ],
        "chains": [line for line in rules.splitlines() if "LIBVIRT_" in line],
        "drives": [str(path) for path in layout.images_dir().glob("*.img")],
    }


@pytest.fixture(autouse=True)
def computer() -> dict[str, list[str]]:
    """What was there before the test; libvirt may be in use here for other reasons."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    box.build()
    return traces()


def test_a_failure_half_way_leaves_nothing(computer: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def broken(_machine: Machine) -> None:
        seen.append(host.domain_state())
        raise RehearsalError("broken on purpose", "none")

    monkeypatch.setattr(Machine, "_write_ssh", broken)
    with pytest.raises(RehearsalError, match="broken on purpose"):
        Machine().up()
    assert seen == ["running"]
    assert traces() == computer


def test_a_machine_told_to_stop_while_it_starts_leaves_nothing(computer: dict[str, list[str]]) -> None:
    command = [sys.executable, "-m", "tests.rehearsal", "rehearse"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while host.domain_state() != "running":
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 143
    assert traces() == computer


def test_clean_reaps_what_a_killed_run_left(computer: dict[str, list[str]]) -> None:
    command = [sys.executable, "-m", "tests.rehearsal", "up"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while host.domain_state() != "running":
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.kill()
    assert traces() != computer, "the killed run left nothing, so this test proves nothing"
    subprocess.run([sys.executable, "-m", "tests.rehearsal", "clean"], cwd=REPO, check=True)
    assert traces() == computer
    assert not (STATE / "vagrant").exists()
