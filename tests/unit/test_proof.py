"""A record of a long proof counts only for the files it was made with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import proof


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "proven"),
        ({"covered": "other"}, "stale"),
        ({"failed": 1}, "failed"),
        ({"skipped": 1}, "failed"),
        ({"passed": 0}, "failed"),
    ],
)
def test_only_a_current_record_without_failures_and_skips_is_proven(
    change: dict[str, object], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "RECORDS", tmp_path)
    assert proof.status("disk-faults") == "never"
    wanted = proof.PROOFS["disk-faults"]
    good = {"passed": 3, "failed": 0, "skipped": 0}
    parts = {part: {"covered": proof.covered_hash(wanted, part), **good} for part in wanted.tests}
    path = tmp_path / "disk-faults.json"
    path.write_text(json.dumps({"parts": {**parts, wanted.tests[1]: {**parts[wanted.tests[1]], **change}}}))
    assert proof.status("disk-faults") == expected
    path.write_text(json.dumps({"parts": dict(list(parts.items())[:-1])}))
    assert proof.status("disk-faults") == "never"


def test_a_change_of_one_module_leaves_the_other_parts_proven() -> None:
    wanted = proof.PROOFS["disk-faults"]
    assert len({proof.covered_hash(wanted, part) for part in wanted.tests}) == len(wanted.tests)


@pytest.mark.parametrize("name", proof.PROOFS)
def test_a_proof_covers_files_that_exist(name: str) -> None:
    wanted = proof.PROOFS[name]
    files = [part.partition("::")[0] for part in wanted.tests]
    assert [path for path in (*files, *wanted.covers) if not (proof.ROOT / path).exists()] == []
