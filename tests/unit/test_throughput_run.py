"""The program that measures on the host: its processes are watched, and what some of them said is kept.

Its own code runs but for the part with torch, which tests/frameworks runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.on_host.bench import children, formulas
from llmhw_provision.on_host.bench.children import Child
from llmhw_provision.probes import throughput as probe

STAGE = """
import json, os, signal, sys, time
def run(request, out):
    def say(line):
        with out.open("a") as stream:
            stream.write(json.dumps(line) + "\\n")
    if request["stage"] == "survey":
        say({"torch": "2.14.0", "cuda": "13.0", "nccl": "2.30.7"})
        for index in range(3):
            say({"gpu": {"index": index, "name": "H100", "memory_bytes": 80, "free_bytes": FREE}})
        return
    if request["stage"] == "gpu":
        say({"copy": {"kind": "host_to_device", "gpu": request["gpu"], "gbs": 55.0}})
        return
    if request["stage"] == "pairs":
        return
    for name, nbytes in request["operations"]:
        say({"at": f"{name} of {nbytes} bytes"})
        if request["rank"] == 1 and name == "all_gather":
            BREAK
        row = {"name": name, "asked": nbytes, "bytes": nbytes, "count": nbytes // 4, "in_place": True, "iterations": 2}
        slow = 1 + request["rank"]
        say({"row": {**row, "wrong": request["rank"], "seconds": {"min": 1, "avg": 2, "max": 3}, "each": slow}})
"""
REQUEST = {
    "device": "cuda",
    "seconds": 30,
    "quiet_seconds": 20,
    "copy": {},
    "collective": {"warm": 1, "iterations": 2},
    "runs": [{"label": "all", "ranks": 3, "env": {}, "operations": [["all_reduce", 3072], ["all_gather", 3072]]}],
}


def document(tmp_path: Path, wrong: str = "pass", *, free: int = 79, status: int = 1, **request: Any) -> dict[str, Any]:
    """What the program writes when rank 1 does `wrong` in all_gather."""
    path = tmp_path / "bench.pyz"
    source = zipfile.ZipFile(BytesIO(probe.program()))
    with zipfile.ZipFile(path, "w") as archive:
        for name in source.namelist():
            text = source.read(name).decode()
            stage = STAGE.replace("BREAK", wrong).replace("FREE", str(free))
            archive.writestr(name, stage if name == "bench/stage.py" else text)
    result = tmp_path / "result.json"
    words = [sys.executable, "-I", "-B", str(path), str(result), json.dumps({**REQUEST, **request})]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == status, done.stderr
    probe.parse(result.read_bytes())
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def test_what_all_ranks_measured_becomes_one_row(tmp_path: Path) -> None:
    found = document(tmp_path, status=0)
    assert found["errors"] == []
    assert [one["gpu"] for one in found["copies"]] == [0, 1, 2]
    first, second = found["collectives"]
    assert (first["wrong"], first["seconds"]) == (3, {"min": 1, "avg": 2.0, "max": 3})
    assert first["busbw"] == formulas.busbw("all_reduce", 3072, 2.0, 3)
    assert (second["name"], second["ranks"], second["run"]) == ("all_gather", 3, "all")
    assert found["nccl"] == "2.30.7"
    assert not (tmp_path / "result.half").exists()


def test_a_rank_that_dies_is_a_line_and_what_was_measured_before_is_kept(tmp_path: Path) -> None:
    found = document(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)")
    assert found["errors"] == ["rank 1 was killed by SIGSEGV in all_gather of 3072 bytes"]
    assert [one["name"] for one in found["collectives"]] == ["all_reduce"]
    assert len(found["copies"]) == 3


def child(tmp_path: Path, name: str, script: str, said: str = "", *, silent: float = 0) -> Child:
    """A process that runs `script`, has said `said`, and nothing for `silent` seconds."""
    out, err = tmp_path / f"{name}.out", tmp_path / f"{name}.err"
    out.write_text(said)
    os.utime(out, (time.time() - silent, time.time() - silent))
    with err.open("wb") as stream:
        process = subprocess.Popen(["/bin/sh", "-c", script], stderr=stream)
    return Child(name, process, out, err, begun=time.monotonic() - silent)


def watched(*ones: Child, quiet: float = 60, seconds: float = 60) -> str:
    """Why the processes were ended; they are gone then."""
    try:
        return children._watch(list(ones), quiet, time.monotonic() + seconds)
    finally:
        for one in ones:
            one.process.kill()
            one.process.wait()


AT = '{"at": "all_gather of 8 bytes"}\n'


def test_how_it_ended_is_told_by_status_signal_or_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_GRACE", 0)
    waits = child(tmp_path, "rank 0", "exec sleep 60", AT)
    says = watched(waits, child(tmp_path, "rank 1", "echo 'CUDA error: 719' >&2; echo >&2; exit 1", AT + '{"row": '))
    assert says == "rank 1 failed in all_gather of 8 bytes: CUDA error: 719"
    assert watched(child(tmp_path, "GPU3", "exit 3")) == "GPU3 failed in the start: status 3"
    assert watched(child(tmp_path, "GPU3", "exit 0")) == ""


def test_the_one_that_was_killed_is_named_and_not_those_that_lost_it(tmp_path: Path) -> None:
    lost = child(tmp_path, "rank 0", "echo 'Connection closed by peer' >&2; exit 1", AT)
    assert watched(lost, child(tmp_path, "rank 1", "kill -BUS $$", AT)) == "rank 1 was killed by SIGBUS in " + AT[8:-3]


def test_what_says_nothing_is_ended_and_named(tmp_path: Path) -> None:
    works = child(tmp_path, "rank 0", "exec sleep 60", AT)
    hangs = [child(tmp_path, f"rank {rank}", "exec sleep 60", AT, silent=100) for rank in (1, 2)]
    says = watched(works, *hangs)
    assert says == "rank 1 hangs in all_gather of 8 bytes: nothing heard for 60 s, nor from 1 more"
    assert all(one.process.returncode for one in (works, *hangs))


def test_the_time_for_all_together_is_kept(tmp_path: Path) -> None:
    says = watched(child(tmp_path, "GPU0", "exec sleep 60", AT), seconds=-1)
    assert says == "GPU0 hangs in all_gather of 8 bytes: the time for all measurements is over"
    assert document(tmp_path, seconds=-1)["errors"] == [
        "survey: not begun, the time for all measurements is over"
    ]  # fmt: skip


def test_nothing_is_measured_while_others_use_a_gpu(tmp_path: Path) -> None:
    found = document(tmp_path, free=40)
    assert found["errors"][0] == "GPU0: 0.0 of 0.0 GiB are taken by others: nothing was measured"
    assert (found["copies"], found["collectives"]) == ([], [])


def test_more_ranks_than_gpus_are_refused(tmp_path: Path) -> None:
    runs = [{"label": "4_gpus", "ranks": 4, "env": {}, "operations": [["all_reduce", 3072]]}]
    assert document(tmp_path, runs=runs)["errors"] == ["run 4_gpus: 4 ranks, but 3 GPUs"]
