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
    covered = proof.covered_hash(proof.PROOFS["disk-faults"])
    record = {"covered": covered, "passed": 3, "failed": 0, "skipped": 0, **change}
    (tmp_path / "disk-faults.json").write_text(json.dumps(record))
    assert proof.status("disk-faults") == expected
