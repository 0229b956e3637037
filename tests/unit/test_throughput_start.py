"""How our own measurement of GPUs is brought to the hosts, started, waited for and ended."""

from __future__ import annotations

import os
import stat
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import click.testing
import pytest
from click.testing import CliRunner

from llmhw_provision.checks import table
from llmhw_provision.checks.measuring import measure, without_old
from llmhw_provision.cli import main
from llmhw_provision.documents import dump_json
from llmhw_provision.evidence import Command, Evidence, Result
from llmhw_provision.plan.model import Plan
from llmhw_provision.probes import throughput as probe
from tests.unit import benches
from tests.unit.recordings import plan as recorded_plan

HOST = benches.plan()


def test_the_program_is_the_same_each_time_and_small_enough_to_travel() -> None:
    first = probe.program()
    assert first == probe.program()
    assert len(first) < 40_000  # twice in base64 it is part of one command line, of 128 KiB at most
    names = zipfile.ZipFile(BytesIO(first)).namelist()
    assert "__main__.py" in names
    assert "bench/main.py" in names


def started(tmp_path: Path, *, active: bool = False, python: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs the line that starts the program, with stand-ins for systemd and a folder of the test's own."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    for name, body in (
        ("systemctl", f"exit {0 if active else 3}"),
        ("systemd-run", 'printf "%s\\n" "$@" > "$(dirname "$0")/../asked"'),
        ("python", "exit 0"),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    command = probe.start_command(str(tools / ("python" if python else "none")), {"seconds": 100})
    folder = tmp_path / "bench"
    words = [word.replace("/run/llmhw/bench", str(folder)) for word in command.argv]
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    return subprocess.run(words, capture_output=True, text=True, env=env, check=False)


def test_it_is_started_in_a_unit_of_its_own_that_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/result.json").write_text("old")
    assert started(tmp_path).returncode == 0
    asked = (tmp_path / "asked").read_text().splitlines()
    assert "--unit=llmhw-bench.service" in asked
    assert "RuntimeMaxSec=160" in asked
    assert asked[-5:] == [
        "-I", "-B", str(tmp_path / "bench/bench.pyz"), str(tmp_path / "bench/result.json"), '{"seconds":100}',
    ]  # fmt: skip
    assert (tmp_path / "bench/bench.pyz").read_bytes() == probe.program()
    assert not (tmp_path / "bench/result.json").exists()
    assert stat.S_IMODE((tmp_path / "bench").stat().st_mode) == 0o700


def test_one_at_a_time_and_never_without_the_environment(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/result.json").write_text("old")
    busy = started(tmp_path, active=True)
    assert (busy.returncode, busy.stderr) == (1, "a measurement is running already\n")
    assert (tmp_path / "bench/result.json").exists()
    absent = started(tmp_path, python=False)
    assert absent.returncode == 1
    assert absent.stderr == f"{tmp_path}/bin/none is not there\n"
    assert not (tmp_path / "bench/result.json").exists()


class Hosts:
    """Answers in order, by host; the last one again and again."""

    def __init__(self, **answers: list[Result | str]) -> None:
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    def __call__(self, wanted: Mapping[str, Sequence[Command]]) -> dict[str, Evidence]:
        found = {}
        for name, (command,) in wanted.items():
            self.asked.append((name, command.key))
            answers = self.answers[name]
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, str):
                found[name] = Evidence(name, "machine", {}, problem=answer)
            else:
                found[name] = Evidence(name, "machine", {command.key: answer})
        return found


def said(text: str, rc: int = 0, stderr: str = "") -> Result:
    return Result(rc, text.encode(), stderr.encode(), 1.0, ("sh",))


def site_of(*names: str) -> Plan:
    one = recorded_plan()
    return one.model_copy(update={"hosts": tuple(HOST.model_copy(update={"name": name}) for name in names)})


def test_hosts_are_measured_side_by_side_until_all_have_ended() -> None:
    hosts = Hosts(
        a=[said(""), said("active\nGPU0\n"), said("active\nGPU0\n"), said("inactive\nGPU7\n")],
        b=[said("", 1, "a measurement is running already")],
        c=[said(""), "c (192.0.2.3): cannot be reached"],
    )
    lines: list[str] = []
    pauses: list[float] = []
    plan = site_of("a", "b", "c")
    done = measure(plan, hosts, lines.append, pause=pauses.append)
    assert done == {"a"}
    assert lines == [
        "measuring the GPUs of a, b, c: takes minutes, and needs them alone",
        "warning: b: sh ended with status 1: a measurement is running already: nothing is measured",
        "  a  measuring: GPU0",
        "  a  measuring: GPU7",
        "warning: c (192.0.2.3): cannot be reached: no longer waited for",
    ]
    assert len(pauses) == 6
    assert ("b", probe.STATE) not in hosts.asked


def test_an_interruption_ends_what_runs() -> None:
    hosts = Hosts(a=[said(""), said("active\n")])

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(site_of("a"), hosts, lambda _: None, pause=interrupted)
    assert hosts.asked[-1] == ("a", probe.STOP)


def test_a_site_without_gpus_is_not_asked_at_all() -> None:
    assert measure(recorded_plan(), Hosts(), lambda line: pytest.fail(line)) == frozenset()


def test_what_an_earlier_measurement_left_is_never_taken_for_this_one_s() -> None:
    old = benches.evidence(benches.healthy(HOST))
    kept = without_old({HOST.name: old}, frozenset({HOST.name}))
    assert kept == {HOST.name: old}
    left = without_old({HOST.name: old}, frozenset())[HOST.name]
    (item,) = [item for item in table.items(HOST, "standard") if item.check.id == "bench-complete"]
    assert table.judge(item, left).status == "could-not-run"


def verified(tmp_path: Path, level: str) -> click.testing.Result:
    """`verify` of a site whose only host has eight H100 and does not answer."""
    (tmp_path / "plan.json").write_text(dump_json(site_of("gpu-01")), encoding="utf-8")
    (tmp_path / "site.yaml").write_text(
        "schema: 1\nsite: reading\nhosts:\n  - {name: gpu-01, address: 127.0.0.1, port: 1}\n"
    )
    words = ["verify", "--site", str(tmp_path), "--level", level]
    return CliRunner().invoke(main, words, standalone_mode=False)


def test_verify_measures_at_level_standard_alone_and_says_so(tmp_path: Path) -> None:
    found = verified(tmp_path, "standard")
    assert found.return_value == 3
    first, second = found.stderr.splitlines()[:2]
    assert first == "measuring the GPUs of gpu-01: takes minutes, and needs them alone"
    assert second.startswith("warning: gpu-01 (127.0.0.1): cannot be reached:")
    assert second.endswith(": nothing is measured")
    assert "INCOMPLETE" in found.stdout
    assert "measuring" not in verified(tmp_path, "quick").stderr
