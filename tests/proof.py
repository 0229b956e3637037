"""Long proofs: `python -m tests.proof run NAME` writes docs/proofs/NAME.json, `status` says what is proven today.

A record names the commit, the date, the hash of the files it covers, the counts and the minutes. When one of these
files has changed since, the record is stale: it never counts as a pass.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs/proofs"


@dataclass(frozen=True)
class Proof:
    """Tests that take too long for every change, and the files whose change makes their result stale."""

    tests: tuple[str, ...]
    covers: tuple[str, ...]


PROOFS = {
    "disk-faults": Proof(
        tests=("tests/rehearsal/test_nvme_raid0_role.py",),
        covers=("roles/nvme_raid0", "roles/host_modules", "playbooks/storage.yml", "tests/rehearsal"),
    ),
    "apply-faults": Proof(
        tests=("tests/roles/test_apply_faults_long.py",),
        covers=(
            "llmhw_provision/run",
            "llmhw_provision/checks",
            "llmhw_provision/probes",
            "llmhw_provision/cli/apply.py",
            "llmhw_provision/connection.py",
            "llmhw_provision/evidence.py",
            "llmhw_provision/first_contact.py",
            "playbooks",
            "tests/containers",
            "tests/roles/test_apply_faults_long.py",
        ),
    ),
}


@dataclass
class _Counts:
    """Counts the outcome of each test."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest after each phase of a test."""
        if report.when == "call" or report.outcome != "passed":
            setattr(self, report.outcome, getattr(self, report.outcome) + 1)


def covered_hash(proof: Proof) -> str:
    """SHA-256 over names and contents of the covered files that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z", *proof.covers], cwd=ROOT, capture_output=True, check=True)
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return digest.hexdigest()


def status(name: str) -> str:
    """`proven`, `stale`, `failed` or `never`."""
    path = RECORDS / f"{name}.json"
    if not path.is_file():
        return "never"
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["covered"] != covered_hash(PROOFS[name]):
        return "stale"
    return "proven" if record["failed"] == record["skipped"] == 0 < record["passed"] else "failed"


@click.group()
def main() -> None:
    """Long proofs and their records."""


@main.command()
@click.argument("name", type=click.Choice(list(PROOFS)))
def run(name: str) -> None:
    """Run one proof and write its record."""
    proof, counts, began = PROOFS[name], _Counts(), time.monotonic()
    covered = covered_hash(proof)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    code = pytest.main(["-m", "proof", "--durations=10", *proof.tests], plugins=[counts])
    record = {
        "proof": name,
        "commit": commit.stdout.strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "covered": covered,
        **asdict(counts),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    sys.exit(int(code))


@main.command(name="status")
def status_command() -> None:
    """One line per proof."""
    for name in PROOFS:
        click.echo(f"proof {name}: {status(name)}")


if __name__ == "__main__":
    main()
