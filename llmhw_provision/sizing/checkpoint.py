"""Checkpoints: size, seconds to write, interval; and what training reads of its data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llmhw_provision.units import GB

# Llama 3, arXiv 2407.21783, section 3.3.4: 419 unexpected interruptions in 54 days on 16,384 GPUs
GPU_HOURS_PER_FAILURE = 16_384 * 54 * 24 / 419
DALY = "Young 1974, Daly 2006: sqrt(2 × write time × mean time between failures)"
# bytes/s that one writer finds on a shared file system: BLOOM 2.3 TB in 40 s from 384 writers; Llama 3 2 TB/s at 16K
PER_WRITER = 0.14 * GB
DISK_REACHED = 0.8  # of the data sheet
TOKEN_BYTES = 2  # 16-bit token numbers; 4 where the vocabulary exceeds 65,535


@dataclass(frozen=True)
class Saving:
    """One training checkpoint of the cluster."""

    size: int
    rate: float  # bytes/s of all writers
    gpus: int

    @property
    def seconds(self) -> float:
        """Seconds to write it."""
        return self.size / self.rate

    @property
    def between_failures(self) -> float:
        """Mean seconds between failures of the whole cluster."""
        return 3600 * GPU_HOURS_PER_FAILURE / self.gpus

    @property
    def interval(self) -> float:
        """Seconds between checkpoints that lose least; never shorter than writing one takes."""
        return interval(self.seconds, self.between_failures)

    @property
    def lost(self) -> float:
        """Share of the time that goes into writing and into work done again."""
        return self.seconds / self.interval + self.interval / 2 / self.between_failures


def interval(write: float, between_failures: float) -> float:
    """Seconds between checkpoints: Young's first-order optimum, and at least the time that one takes to write."""
    return max(write, math.sqrt(2 * write * between_failures))


def write_rate(*, writers: int, disks: int = 0, disk_rate: float = 0.0, hosts: int = 1) -> float:
    """Bytes/s: local drives at four fifths of their data sheet, else what writers find on a shared file system."""
    if disks and disk_rate:
        return hosts * disks * disk_rate * DISK_REACHED
    return writers * PER_WRITER


def token_bytes(vocab: int) -> int:
    """Bytes of one token on disk."""
    return TOKEN_BYTES if vocab <= 65_535 else 2 * TOKEN_BYTES


def read_rate(tokens_per_second: float, vocab: int) -> float:
    """Bytes/s that training reads of tokenised text."""
    return tokens_per_second * token_bytes(vocab)
