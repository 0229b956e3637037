"""Long proofs: `python -m tests.proof run NAME` writes docs/proofs/NAME.json, `status` says what is proven today.

A proof has parts: its test modules, or the tests of one parameter there (FILE::PARAMETER). The record names for each
the commit, the date, the hash of the files it covers, the counts and the minutes. A part whose files have changed since
is stale and never counts as a pass; a run repeats only the parts that are not proven.
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
from typing import Any

import click
import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs/proofs"


@dataclass(frozen=True)
class Proof:
    """Tests that take too long for every change, and the files whose change makes their result stale."""

    tests: tuple[str, ...]
    covers: tuple[str, ...]
    parallel: bool = False  # on all processors; for tests that share no machine


_REHEARSAL = tuple(
    f"tests/rehearsal/{name}.py"
    for name in (
        "accel",
        "box",
        "conftest",
        "cuts",
        "foreign",
        "host",
        "image",
        "layout",
        "machine",
        "recipe",
        "role",
        "rootfs",
    )
)
PROOFS = {
    "probes": Proof(
        tests=tuple(f"tests/probes/test_{name}.py" for name in ("walks", "grown_outputs", "grown_answers")),
        covers=("llmhw_provision/probes", "tests/probes", "tests/unit/recorded"),
        parallel=True,
    ),
    "base-roles": Proof(
        tests=tuple(
            f"tests/roles/test_{n}.py" for n in ("site_base", "site_base_services", "site_base_dnf", "host_tuning")
        ),
        covers=("roles/site_base", "roles/host_tuning", "roles/host_modules", "playbooks/base.yml", "tests/containers"),
    ),
    "boot-loader": Proof(
        tests=("tests/rehearsal/test_tuning_boot.py",),
        covers=("roles/host_tuning", "roles/host_modules", "playbooks/base.yml", *_REHEARSAL),
    ),
    "disk-faults": Proof(
        tests=(
            "tests/rehearsal/test_disk_refusals.py",
            "tests/rehearsal/test_disk_kills.py",
            "tests/rehearsal/test_disk_power.py",
            "tests/rehearsal/test_disk_boots.py",
            "tests/rehearsal/test_nvme_raid0_role.py",
        ),
        covers=(
            "roles/nvme_raid0",
            *(f"roles/host_modules/library/{name}.py" for name in ("deferred_packages", "initramfs_reason")),
            *(f"roles/host_modules/library/{name}.py" for name in ("systemd_mount", "timed_service")),
            *(
                f"roles/host_modules/module_utils/host_modules/{n}.py"
                for n in ("bare_folder", "exact_versions", "initramfs", "mount_unit")
            ),
            "roles/initramfs",
            "playbooks/storage.yml",
            "playbooks/initramfs.yml",
            *_REHEARSAL,
        ),
    ),
    "leftovers": Proof(
        tests=("tests/rehearsal/test_machine.py",), covers=("tests/rehearsal/leftovers.py", *_REHEARSAL)
    ),
    "gpu-board": Proof(
        tests=("tests/rehearsal/test_gpu_board.py",),
        covers=("tests/rehearsal/gpu/hardware", "tests/rehearsal/gpu/module", *_REHEARSAL),
    ),
    "python-env": Proof(
        tests=("tests/roles/test_python_env_locks.py",),
        covers=(
            "roles/python_env",
            *(f"locks/{name}-cpu.txt" for name in ("serve", "train-hf", "train-lf")),
            *(f"llmhw_provision/plan/{name}.py" for name in ("python_env", "resolve_python", "roles_python")),
            *(f"llmhw_provision/{room}/python_envs.py" for room in ("checks", "probes")),
            "llmhw_provision/probes/on_host/python_envs",
            *(f"roles/host_modules/module_utils/host_modules/{n}.py" for n in ("exact_versions", "files", "way_out")),
            "roles/host_modules/library/deferred_packages.py",
            "tests/containers",
            "tests/roles/cpu_packages.py",
        ),
    ),
    "frameworks": Proof(
        tests=("tests/frameworks/test_launch_files.py",),
        covers=(
            "llmhw_provision/launch",
            "llmhw_provision/plan/layouts.py",
            "llmhw_provision/plan/work.py",
            *(f"llmhw_provision/sizing/{name}.py" for name in ("launchers", "layout", "legal")),
            "llmhw_provision/workload.py",
            *(f"locks/{name}.txt" for name in ("serve-cpu", "train-lf-cpu", "train-hf")),
            "tests/frameworks",
            "tests/unit/launches.py",
        ),
    ),
    "gpu": Proof(
        tests=(
            *(f"tests/rehearsal/test_gpu_{name}.py" for name in ("upgrade", "faults")),
            *(f"tests/rehearsal/test_gpu_machines.py::{board}" for board in ("GA660M", "A330", "B200-HGX")),
        ),
        covers=(
            *(f"roles/{name}" for name in ("package_sources", "nvidia_driver", "cuda", "nccl", "initramfs")),
            "roles/host_modules",
            *(f"playbooks/{name}.yml" for name in ("gpu", "initramfs", "reboot", "rollback")),
            *(
                f"llmhw_provision/checks/gpu_{name}.py"
                for name in ("before", "driver", "health", "links", "plan", "sources", "stack", "views")
            ),
            *(
                f"llmhw_provision/probes/gpu_{name}.py"
                for name in ("board", "burn", "copy", "packages", "runtime", "sources")
            ),
            "tests/rehearsal/gpu",
            *_REHEARSAL,
        ),
    ),
    "gpu-packages": Proof(
        tests=tuple(
            f"tests/roles/test_{name}.py"
            for name in (
                *("package_sources", "cuda", "nccl", "nvidia_driver", "nvidia_driver_killed", "gpu_repository"),
                *("real_dkms", "real_nvcc"),
            )
        ),
        covers=(
            "roles/nvidia_driver",
            "roles/package_sources",
            "roles/cuda",
            "roles/nccl",
            *(f"roles/host_modules/module_utils/host_modules/{n}.py" for n in ("apt_lists", "exact_versions", "files")),
            *(f"roles/host_modules/module_utils/host_modules/{n}.py" for n in ("initramfs", "way_out")),
            *(f"roles/host_modules/library/{name}.py" for name in ("deferred_packages", "initramfs_reason")),
            *(f"llmhw_provision/probes/{name}.py" for name in ("dkms", "driver_files", "gpu_packages", "kernels")),
            "llmhw_provision/probes/gpu_runtime.py",
            *(f"llmhw_provision/checks/{name}.py" for name in ("cuda", "gpu_stack")),
            "playbooks/gpu.yml",
            *(f"tests/rehearsal/gpu/{name}.py" for name in ("cuda", "deb", "driver", "elf", "fabric", "layout")),
            *(f"tests/rehearsal/gpu/{name}.py" for name in ("repository", "signing")),
            "tests/rehearsal/gpu/module",
            "tests/rehearsal/gpu/tools",
            "tests/containers",
            *(f"tests/roles/{name}.py" for name in ("checked", "driver_machine", "gpu_packages")),
        ),
    ),
    "bench": Proof(
        tests=("tests/frameworks/test_bench.py",),
        covers=(
            "llmhw_provision/on_host/bench",
            "llmhw_provision/probes/throughput.py",
            "locks/serve-cpu.txt",
            "tests/frameworks/__main__.py",
        ),
    ),
    "apply-faults": Proof(
        tests=("tests/roles/test_apply_faults_long.py", "tests/roles/test_source_cases.py"),
        covers=(
            "llmhw_provision/run",
            *(f"llmhw_provision/checks/{name}.py" for name in ("access", "in_use", "package_state", "readiness")),
            *(f"llmhw_provision/probes/{name}.py" for name in ("mounts", "packages", "processes", "readiness")),
            "llmhw_provision/cli/apply.py",
            "llmhw_provision/cli/runs.py",
            "llmhw_provision/connection.py",
            "llmhw_provision/evidence.py",
            "llmhw_provision/evidence_file.py",
            "llmhw_provision/evidence_refusals.py",
            "llmhw_provision/first_contact.py",
            "playbooks",
            "roles/site_base",
            "roles/host_modules/library/deferred_packages.py",
            *(f"roles/host_modules/module_utils/host_modules/{n}.py" for n in ("apt_lists", "exact_versions")),
            "tests/containers",
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


def covered_hash(proof: Proof, part: str) -> str:
    """SHA-256 over names and contents of the files that `part` of the proof covers, as far as git knows them."""
    names = ("git", "ls-files", "-z", *proof.covers, part.partition("::")[0])
    listed = subprocess.run(names, cwd=ROOT, capture_output=True, check=True)
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return digest.hexdigest()


def recorded(name: str) -> dict[str, Any]:
    """The record of a proof by part; empty without one."""
    path = RECORDS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["parts"] if path.is_file() else {}
    return found


def status(name: str) -> str:
    """`proven`, `stale`, `failed` or `never`: that of the worst part."""
    parts = recorded(name)
    found = {part_status(PROOFS[name], part, parts.get(part)) for part in PROOFS[name].tests}
    return next(word for word in ("failed", "stale", "never", "proven") if word in found)


def part_status(proof: Proof, part: str, record: dict[str, Any] | None) -> str:
    if record is None:
        return "never"
    if record["covered"] != covered_hash(proof, part):
        return "stale"
    return "proven" if record["failed"] == record["skipped"] == 0 < record["passed"] else "failed"


@click.group()
def main() -> None:
    """Long proofs and their records."""


@main.command()
@click.argument("name", type=click.Choice(list(PROOFS)))
@click.option("--part", "only", help="a piece of the part's name; all parts when left out")
def run(name: str, only: str | None) -> None:
    """Run the parts of one proof that are not proven yet, and write its record after each."""
    proof, parts = PROOFS[name], recorded(name)
    for part in proof.tests:
        if only and only not in part:
            continue
        if part_status(proof, part, parts.get(part)) == "proven":
            click.echo(f"{part}: proven on {parts[part]['date']}")
            continue
        parts[part] = _run(proof, part)
        RECORDS.mkdir(exist_ok=True)
        text = json.dumps({"proof": name, "parts": {key: parts[key] for key in proof.tests if key in parts}}, indent=2)
        (RECORDS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    click.echo(f"proof {name}: {status(name)}")
    sys.exit(0 if status(name) == "proven" else 1)


def _run(proof: Proof, part: str) -> dict[str, Any]:
    counts, began, covered = _Counts(), time.monotonic(), covered_hash(proof, part)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    workers = ["-n", "auto"] if proof.parallel else []
    path, *parameter = part.split("::")
    chosen = [word for name in parameter for word in ("-k", f"[{name}]")]
    pytest.main(["-m", "proof", "--durations=10", *workers, *chosen, path], plugins=[counts])
    return {
        "commit": commit.stdout.strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "covered": covered,
        **asdict(counts),
        "minutes": round((time.monotonic() - began) / 60, 1),
    }


@main.command(name="status")
def status_command() -> None:
    """One line per proof."""
    click.echo("\n".join(f"proof {name}: {status(name)}" for name in PROOFS))


if __name__ == "__main__":
    main()
