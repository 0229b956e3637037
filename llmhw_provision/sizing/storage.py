"""How many bytes scratch, project storage and tmpfs must hold."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.sizing.terms import Term, total
from llmhw_provision.units import MIB, disk, memory

FREE_SHARE = 5  # one part in five stays free
TMPFS_SHARE = 10  # at most one part in ten of the host's memory
FREE_SOURCE = "keep 20 % free: flash drives slow down when full (vendors' over-provisioning advice)"


@dataclass(frozen=True)
class StorageNeed:
    """What must lie on scratch and on project storage at the same time."""

    scratch: tuple[Term, ...]
    project: tuple[Term, ...]

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch with a fifth left free."""
        return with_free_share(total(self.scratch))

    @property
    def project_bytes(self) -> int:
        """Bytes of project storage."""
        return total(self.project)


def with_free_share(size: int) -> int:
    """Capacity in bytes such that `size` fills four fifths of it."""
    return -(-size * FREE_SHARE // (FREE_SHARE - 1))


def storage_need(*, weights: Term, checkpoint: Term | None, keep: int, dataset: int) -> StorageNeed:
    """Scratch holds dataset, weights and the last `keep` checkpoints; the newest checkpoint is copied to project."""
    scratch = [Term("weights on disk", weights.size, weights.formula, weights.source)]
    project = []
    if dataset:
        scratch.append(Term("dataset", dataset, f"{disk(dataset)} stated in the workload", "workload.yaml"))
    if checkpoint is not None:
        formula = f"{keep} × {disk(checkpoint.size)} ({checkpoint.formula})"
        scratch.append(Term("checkpoints", keep * checkpoint.size, formula, checkpoint.source))
        project.append(Term("newest checkpoint", checkpoint.size, checkpoint.formula, checkpoint.source))
    return StorageNeed(tuple(scratch), tuple(project))


def tmpfs_bytes(hot: int) -> Term:
    """Bytes of tmpfs for a hot set of `hot` bytes: a twentieth more for folders and pages, rounded up to MiB."""
    size = -(-hot * 21 // (20 * MIB)) * MIB
    return Term("tmpfs", size, f"{memory(hot)} × 1.05, rounded up to MiB", "tmpfs(5): whole pages per file and folder")


def tmpfs_limit(host_memory: int) -> int:
    """Most bytes of tmpfs without being asked for: a tenth of the host's memory, since it counts against every job."""
    return host_memory // TMPFS_SHARE
