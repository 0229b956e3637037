"""The measurement of GPUs runs whole on processors: torch of a CPU lock, real ranks, gloo instead of NCCL."""

from __future__ import annotations

import json
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.probes import throughput as probe
from tests.frameworks.__main__ import FOLDER

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(
        not (FOLDER / "serve/ready").exists(),
        reason=f"{FOLDER}/serve is not there: make it with python -m tests.frameworks",
    ),
]
PYTHON = FOLDER / "serve/bin/python"
MIB = 1 << 20
SMALL = {
    "copy": {"bytes": MIB, "iterations": 3},
    "product": {"warm": 1, "iterations": 3},
    "products": {
        "bf16": {"fixed": [[64, 64, 64]], "tuned": [[64, 128, 64], [128, 64, 64]]},
        "fp8": {"fixed": [], "tuned": [[64, 64, 64]]},
    },
    "sum": {"side": 64, "rounds": 3, "repeats": 2},
}
ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def run(
    tmp_path: Path, ranks: int, operations: list[list[Any]], *edits: tuple[str, str, str], quiet: int = 600, **more: Any
) -> dict[str, Any]:
    """What the program wrote; `edits` are (file, text, other text) by which it is broken first."""
    source = zipfile.ZipFile(BytesIO(probe.program()))
    files = {name: source.read(name).decode() for name in source.namelist()}
    for name, text, other in edits:
        assert files[f"bench/{name}"].count(text) == 1
        files[f"bench/{name}"] = files[f"bench/{name}"].replace(text, other)
    with zipfile.ZipFile(tmp_path / "bench.pyz", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    request = {
        "device": "cpu",
        "gpus": ranks,
        "seconds": 1200,
        "quiet_seconds": quiet,
        "collective": {"warm": 1, "iterations": 3},
        "runs": [{"label": "all", "ranks": ranks, "env": {}, "operations": operations}],
        **more,
    }
    result = tmp_path / "result.json"
    words = [PYTHON, "-I", "-B", tmp_path / "bench.pyz", result, json.dumps(request)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1300, check=False)
    assert result.exists(), done.stderr
    found: dict[str, Any] = json.loads(result.read_text())
    assert done.returncode == bool(found["errors"]), done.stderr
    return found


def test_two_ranks_measure_everything(tmp_path: Path) -> None:
    found = run(tmp_path, 2, [[name, MIB] for name in ALL], **SMALL)
    assert found["errors"] == []
    read = probe.parse((tmp_path / "result.json").read_bytes())
    assert [(one.name, one.ranks, one.wrong) for one in read.collectives] == [(name, 2, 0) for name in ALL]
    assert {(one.kind, one.gpu) for one in read.copies} == {
        (kind, gpu) for kind in ("host_to_device", "device_to_host", "own_memory") for gpu in (0, 1)
    }
    assert {(one.dtype, one.kind) for one in read.products} | {
        (one.what[:3], "tuned") for one in read.left
    } == {("bf16", "fixed"), ("bf16", "tuned"), ("fp8", "tuned")}  # fmt: skip
    assert all(one.tflops > 0 for one in read.products)
    assert len({one.sha256 for one in read.sums}) == 1
    assert all(one.stable for one in read.sums)


def test_four_ranks_with_a_size_that_does_not_divide_are_right_to_the_last_value(tmp_path: Path) -> None:
    found = run(tmp_path, 4, [[name, 3 * MIB + 52] for name in ALL])
    assert found["errors"] == []
    assert [(one["name"], one["wrong"]) for one in found["collectives"]] == [(name, 0) for name in ALL]
    assert [one["bytes"] for one in found["collectives"]] == [3145776, 3145728, 3145728, 3145728]
    assert [one["in_place"] for one in found["collectives"]] == [True, True, True, False]


def test_wrong_values_wrong_sums_and_missing_operations_are_seen(tmp_path: Path) -> None:
    broken = (
        ("collectives.py", "dist.all_reduce(self.whole)\n", "dist.all_reduce(self.whole); self.whole[5] += 1\n"),
        ("collectives.py", "            dist.reduce_scatter_tensor(self.own, self.whole)\n", "            pass\n"),
        (
            "collectives.py",
            "            dist.all_to_all_single(self.other, self.whole)\n",
            "            raise RuntimeError('gloo does not support this')\n",
        ),
        ("products.py", "    halved = weights.bfloat16()\n", "    halved = weights.bfloat16(); state[3, 3] += OFF\n"),
        (
            "products.py",
            "    torch.use_deterministic",
            "    global OFF; OFF = device.index\n    torch.use_deterministic",
        ),
    )
    found = run(tmp_path, 2, [[name, MIB] for name in ALL], *broken, **SMALL)
    rows = {one["name"]: one for one in found["collectives"]}
    assert rows["all_reduce"]["wrong"] == 2
    assert rows["reduce_scatter"]["wrong"] > MIB // 8
    assert rows["all_gather"]["wrong"] == 0
    assert "busbw" not in rows["all_to_all"]
    assert rows["all_to_all"]["unsupported"] == "gloo does not support this"
    first, second = found["sums"]
    assert first["sha256"] != second["sha256"]


def test_a_rank_that_is_killed_is_reported_and_nothing_waits_for_it(tmp_path: Path) -> None:
    kill = "        if rank == 1 and name == 'all_gather': __import__('os').kill(__import__('os').getpid(), 9)\n"
    say = '        say({"row": measured('
    found = run(tmp_path, 3, [[name, MIB] for name in ALL], ("collectives.py", say, kill + say))
    assert found["errors"] == [f"rank 1 was killed by SIGKILL in all_gather of {MIB} bytes"]
    assert [one["name"] for one in found["collectives"]] == ["all_reduce"]


def test_ranks_that_wait_for_ever_are_ended(tmp_path: Path) -> None:
    stop = "        if rank == 1: __import__('time').sleep(9999)\n"
    say = '        say({"row": measured('
    found = run(tmp_path, 2, [["all_reduce", MIB]], ("collectives.py", say, stop + say), quiet=120)
    (error,) = found["errors"]
    assert f"hangs in all_reduce of {MIB} bytes: nothing heard for 120 s" in error
    assert found["collectives"] == []


def test_one_changed_byte_or_two_words_that_changed_places_are_seen(tmp_path: Path) -> None:
    (tmp_path / "bench.pyz").write_bytes(probe.program())
    text = """
import sys; sys.path.insert(0, sys.argv[1])
import torch
from bench import collectives, copies
one = copies._random(1 << 16, torch.device("cpu"), 1)
assert copies.fingerprint(one) == copies.fingerprint(one.clone())
assert copies.fingerprint(one) != copies.fingerprint(copies._random(1 << 16, torch.device("cpu"), 2))
changed = one.clone(); changed[777] ^= 1
assert copies.fingerprint(one) != copies.fingerprint(changed)
moved = one.clone(); moved[:8], moved[8:16] = one[8:16], one[:8]
assert copies.fingerprint(one) != copies.fingerprint(moved)
buffer = torch.empty(collectives._CHUNK + 5); collectives.fill(buffer, 2)
assert collectives.wrong(buffer, [(2, 0)]) == 0
assert collectives.wrong(buffer, [(2, 1)]) > collectives._CHUNK // 2
buffer[-1] += 1
assert collectives.wrong(buffer, [(2, 0)]) == 1
"""
    done = subprocess.run(
        [PYTHON, "-I", "-c", text, tmp_path / "bench.pyz"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
