"""Recorded outputs: every probe reads the facts that are expected of it, from the bytes alone."""

from __future__ import annotations

import contextlib
import functools
import json
import random
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from llmhw_provision.errors import InputError
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of
from llmhw_provision.probes.score import WHOLE, asked, judge, main, plain, same, score
from tests.unit.recordings import FOLDER, SAMPLES

COPIED = FOLDER / "tools" / "index.yaml"
# Two lines of a manual page, without any row of the table it was cut from: nothing there tells of a drive.
NO_OUTPUT = frozenset({"block/nvme_list_1drive_v2.txt"})
# What the index says and the bytes do not: 34 rows stand in the first, 13 fields in each row of the second, and a
# warning that went to another stream is not in the third.
MISCOUNTED = frozenset(
    {"nccl/all_reduce_a100_40g_8gpu_error_col_noisy.txt", "nccl/all_reduce_h100_2node_stripped_comments.txt"}
)
NOT_IN_THE_BYTES = frozenset({"pci/lspci_vvv_vm_root.txt"})


_scored = functools.cache(score)


def _entries(index: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = yaml.safe_load(index.read_text())["samples"]
    return found


@pytest.mark.parametrize("entry", _entries(COPIED), ids=lambda entry: str(entry["file"]))
def test_copied_sample(entry: dict[str, object]) -> None:
    raw = (COPIED.parent / str(entry["file"])).read_bytes()
    expected = entry["expect"]
    assert isinstance(expected, dict)
    row = judge(str(entry["file"]), raw, expected)
    assert row["verdict"] == "match", row


def test_the_whole_collection() -> None:
    if not (SAMPLES / "index.yaml").exists():
        pytest.skip(f"no recorded samples at {SAMPLES}")
    wrong = {row["file"] for row in _scored(SAMPLES / "index.yaml") if row["verdict"] == "mismatch"}
    missing = {row["file"] for row in _scored(SAMPLES / "index.yaml") if row["verdict"] == "unsupported"}
    assert wrong == MISCOUNTED
    assert missing == NO_OUTPUT | NOT_IN_THE_BYTES


def test_names_and_expectations_do_not_help(tmp_path: Path) -> None:
    """The same under random names; and what is read does not depend on what is expected."""
    entries = _entries(COPIED)
    chance = random.Random(3)
    shuffled = []
    for number, entry in enumerate(entries):
        name = f"{chance.getrandbits(64):x}-{number}"
        shutil.copyfile(COPIED.parent / str(entry["file"]), tmp_path / name)
        shuffled.append({"file": name, "expect": entry["expect"]})
    (tmp_path / "index.yaml").write_text(yaml.safe_dump({"samples": shuffled}))
    named, unnamed = score(COPIED), score(tmp_path / "index.yaml")
    assert [row["verdict"] for row in named] == [row["verdict"] for row in unnamed]
    assert [row["got"] for row in named] == [row["got"] for row in unnamed]
    # Expectations of another sample are not met, and none is met by an empty file.
    for entry, other in zip(entries, entries[1:] + entries[:1], strict=True):
        if entry["expect"] != other["expect"]:
            expected = {f"never-{key}": value for key, value in dict(other["expect"]).items()}  # type: ignore[call-overload]
            assert judge("x", (COPIED.parent / str(entry["file"])).read_bytes(), expected)["verdict"] == "unsupported"


def test_facts_are_read_before_any_expectation(tmp_path: Path) -> None:
    """Bytes under random names, in random order, without an index: the same facts, and from them the same score."""
    index = SAMPLES / "index.yaml" if (SAMPLES / "index.yaml").exists() else COPIED
    entries = _entries(index)
    chance = random.Random(11)
    names = {f"{chance.getrandbits(64):x}": str(entry["file"]) for entry in entries}
    for name, file in names.items():
        (tmp_path / name).write_bytes((index.parent / file).read_bytes())
    read: dict[str, dict[str, object]] = {}
    for path in sorted(tmp_path.iterdir()):
        with contextlib.suppress(ProbeError):
            read[names[path.name]] = facts_of(path.read_bytes())
    for row, entry in zip(_scored(index), entries, strict=True):
        expected, facts = dict(entry["expect"] or {}), read.get(str(entry["file"]))  # type: ignore[call-overload]
        if facts is None:
            assert row["verdict"] == "unsupported"
            continue
        shown = {key: plain(asked(facts[key], expected[key], whole=key in WHOLE)) for key in expected if key in facts}
        assert row["got"] == shown
        good = all(same(value, expected[key]) for key, value in shown.items())
        assert row["verdict"] == ("mismatch" if not good else "match" if len(shown) == len(expected) else "unsupported")


def test_verdicts() -> None:
    raw = b"Slurmctld(primary) at node01 is UP\n"
    assert judge("a", raw, {"up": True})["verdict"] == "match"
    assert judge("a", raw, {"up": 1})["verdict"] == "mismatch"
    assert judge("a", raw, {"up": True, "colour": "red"})["verdict"] == "unsupported"
    assert judge("a", raw, {"up": False, "colour": "red"})["verdict"] == "mismatch"
    cut = judge("a", raw[:-4], {"up": True})
    assert (cut["verdict"], cut["got"]["unread"][:14]) == ("unsupported", "could not read")


def test_comparison() -> None:
    assert asked(["a", "b"], 2) == 2
    assert asked({"x": {"a": 1, "b": [1, 2]}, "y": 3}, {"x": {"b": 2}}) == {"x": {"b": 2}}
    assert asked({"x": 1, "y": 2}, {"x": 1}, whole=True) == {"x": 1, "y": 2}
    assert same(1.0, 1)
    assert not same(1.01, 1.0)
    assert not same("1", 1)
    assert not same({"a": 1, "b": 2}, {"a": 1})
    assert not same([1, 2], [2, 1])


def test_command(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"Slurmctld(primary) at node01 is DOWN\n")
    index = tmp_path / "index.yaml"
    index.write_text("samples:\n- {file: a, expect: {up: false}}\n")
    result = CliRunner().invoke(main, [str(index), "--json"])
    assert result.exit_code == 0
    row = {"file": "a", "verdict": "match", "got": {"up": False}, "expected": {"up": False}}
    assert json.loads(result.stdout) == {"samples": [row]}
    index.write_text("samples:\n- {file: absent, expect: {}}\n")
    with pytest.raises(InputError, match="absent"):
        score(index)
    assert CliRunner().invoke(main, [str(index)]).exit_code == 1
