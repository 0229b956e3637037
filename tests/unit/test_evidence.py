"""The reading script really runs here, under this machine's sh; what it says comes back without loss."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from llmhw_provision.errors import InputError, MachineError
from llmhw_provision.evidence import Command, Evidence, Result, parse_frames, read, read_site, script
from llmhw_provision.evidence_file import load, save
from llmhw_provision.site import Host, Site
from tests.unit.recordings import recorded

COMMANDS = (
    Command("plain", ("echo", "a b"), 5),
    Command("quotes", ("printf", "%s|", "it's", '"', "$HOME", "a\\nb"), 5),
    Command("bytes", ("printf", "\\377\\000\\n- end\\n@ x\\n"), 5),
    Command("nothing", ("true",), 5),
    Command("fails", ("sh", "-c", "echo out; echo no such disk >&2; exit 3"), 5),
    Command("missing", ("no-such-program-here",), 5),
    Command("slow", ("sleep", "30"), 1),
    Command("locale", ("sh", "-c", "echo $LC_ALL $LANG; echo $PATH"), 5),
    Command("stdin", ("cat",), 5),
)


def run_here(commands: tuple[Command, ...]) -> bytes:
    return subprocess.run(["sh"], input=script(commands).encode(), capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    return parse_frames(run_here(COMMANDS), COMMANDS)


def test_answers_come_back_byte_for_byte(results: dict[str, Result]) -> None:
    assert results["plain"].stdout == b"a b\n"
    assert results["quotes"].stdout == b"it's|\"|$HOME|a\\nb|"
    assert results["bytes"].stdout == b"\xff\x00\n- end\n@ x\n"
    assert results["nothing"] == Result(0, b"", b"", results["nothing"].seconds, ("true",))
    assert results["stdin"].stdout == b""


def test_a_failure_keeps_both_streams_and_says_why(results: dict[str, Result]) -> None:
    found = results["fails"]
    assert (found.rc, found.stdout, found.stderr) == (3, b"out\n", b"no such disk\n")
    assert found.why() == "sh ended with status 3: no such disk"


def test_what_a_tool_says_of_a_failure_does_nothing_to_a_terminal() -> None:
    found = Result(1, b"", b"\x1b]0;title\x07bad disk\n", 0.1, ("tool",))
    assert found.why() == "tool ended with status 1:  ]0;title bad disk"


def test_a_missing_program_is_a_result(results: dict[str, Result]) -> None:
    assert results["missing"].missing
    assert results["missing"].why() == "no-such-program-here is not installed"


def test_a_command_out_of_time_is_a_result(results: dict[str, Result]) -> None:
    found = results["slow"]
    assert found.timed_out
    assert 0.9 < found.seconds < 10
    assert found.why() == "sleep did not answer within 1 s"


def test_commands_speak_english_and_find_system_programs(results: dict[str, Result]) -> None:
    first, path = results["locale"].stdout.decode().splitlines()
    assert first == "C C"
    assert "/usr/sbin" in path


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:-8],
        lambda raw: raw[:0],
        lambda raw: b"Welcome!\n" + raw[:0],
        lambda raw: raw.replace(b"0001 0", b"0001", 1),
        lambda raw: raw.replace(b"0003 ", b"0009 ", 1),
        lambda raw: b"\xff" + raw,
    ],
    ids=["half", "no end", "nothing", "banner only", "no status", "other number", "not text"],
)
def test_damaged_frames_are_refused(damage: object) -> None:
    raw = run_here(COMMANDS[:4])
    parse_frames(raw, COMMANDS[:4])
    with pytest.raises((ValueError, KeyError)):
        parse_frames(damage(raw), COMMANDS[:4])  # type: ignore[operator]


def test_one_command_alone() -> None:
    assert parse_frames(run_here(COMMANDS[:1]), COMMANDS[:1])["plain"].stdout == b"a b\n"


def test_saved_evidence_loads_as_the_same_value(tmp_path: Path, results: dict[str, Result]) -> None:
    evidence = Evidence("vm-01", "stand-in", results, "2026-11-30T10:00:00Z", problem="", hint="")
    save(evidence, tmp_path / "e.json")
    assert load(tmp_path / "e.json") == evidence


def test_recordings_load() -> None:
    assert recorded("provisioned").host == "vm-01"


def test_a_cut_recording_is_refused(tmp_path: Path) -> None:
    save(recorded("provisioned"), tmp_path / "e.json")
    text = (tmp_path / "e.json").read_text()
    (tmp_path / "e.json").write_text(text[:-200])
    with pytest.raises(InputError, match="is not JSON"):
        load(tmp_path / "e.json")


def ssh_config(folder: Path, port: int) -> Path:
    path = folder / "ssh_config"
    path.write_text(f"Host *\n HostName 127.0.0.1\n Port {port}\n BatchMode yes\n UserKnownHostsFile /dev/null\n")
    return path


def test_an_unreachable_host_is_named_with_address_and_reason(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        read("vm-01", COMMANDS[:1], ssh_config(tmp_path, 1), False, address="127.0.0.1")
    problem = caught.value.problems[0]
    assert problem.message.startswith("vm-01 (127.0.0.1): cannot be reached: ")
    assert "Connection refused" in problem.message
    assert problem.hint == "no ssh server on that port; check port in site.yaml"


def test_one_unreachable_host_is_evidence_that_says_so(tmp_path: Path) -> None:
    site = Site(schema=1, site="s", hosts=(Host(name="vm-01", address="127.0.0.1", port=1),))
    found = read_site(site, tmp_path, {"vm-01": COMMANDS[:1]})["vm-01"]
    assert found.results == {}
    assert "Connection refused" in found.problem
    assert "check port" in found.hint


def test_every_command_is_logged_as_a_line_to_copy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="llmhw_provision.evidence")
    with pytest.raises(MachineError):
        read("vm-01", COMMANDS[:1], ssh_config(tmp_path, 1), True)
    assert caplog.messages == [f"ssh -F {tmp_path}/ssh_config vm-01 'sudo -n echo '\"'\"'a b'\"'\"''"]


def test_a_host_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 60\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("llmhw_provision.evidence.limit_s", lambda _: 1)
    began = time.monotonic()
    with pytest.raises(MachineError, match=r"vm-01 \(192\.0\.2\.1\): no answer within 1 s"):
        read("vm-01", COMMANDS[:1], ssh_config(tmp_path, 1), False, address="192.0.2.1")
    assert time.monotonic() - began < 20
    assert subprocess.run(["pgrep", "-f", str(ssh)], capture_output=True, check=False).stdout == b""


def test_status_255_of_a_tool_is_not_taken_for_ssh_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ibstatus, sminfo and others end with 255, which is what ssh says of a broken connection."""
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')  # a host that is this machine
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    commands = (Command("ib", ("sh", "-c", "echo no devices >&2; exit 255"), 5), Command("next", ("echo", "x"), 5))
    found = read("vm-01", commands, ssh_config(tmp_path, 1), False)
    assert (found.results["ib"].rc, found.results["ib"].stderr) == (255, b"no devices\n")
    assert found.results["next"].stdout == b"x\n"
    ssh.write_text("#!/bin/sh\necho 'kex_exchange_identification: Connection reset by peer' >&2\nexit 255\n")
    with pytest.raises(MachineError, match="cannot be reached: kex_exchange_identification"):
        read("vm-01", commands, ssh_config(tmp_path, 1), False)
