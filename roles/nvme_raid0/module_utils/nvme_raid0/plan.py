"""What is decided so far: collects refusals, steps and notes of the volumes, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import refuse, steps
from .facts import Consent, Disk, Filesystem, Machine, Volume
from .refuse import Refusal
from .steps import Step


class Result(NamedTuple):
    """What a volume is once all steps are done; None is what only the doing will tell. `trim`: all its disks can."""

    volume: Volume
    array_uuid: str | None
    filesystem: Filesystem | None
    trim: bool


class Plan:
    """`conf` is mdadm.conf as it will be after the steps so far; `devices` has (path, read-ahead) by volume."""

    def __init__(
        self, machine: Machine, consents: Sequence[Consent], *, mdadm_conf: str, state: str, max_wear_percent: int
    ) -> None:
        self.machine, self.consents = machine, consents
        self.mdadm_conf, self.max_wear_percent = mdadm_conf, max_wear_percent
        self.conf, self.state = machine.mdadm_conf, state
        self.refusals: list[Refusal] = []
        self.steps: list[Step] = []
        self.results: list[Result] = []
        self.notes: list[str] = []
        self.devices: dict[str, tuple[str, int | None]] = {}

    def begun(self, volume: Volume) -> str:
        """The file that says that this array's creation has begun."""
        return self.state + "/" + volume.name

    def write_to(self, disks: Sequence[Disk]) -> None:
        """The disks are to be written to: refusals for what they hold, steps for what consents allow to erase."""
        for disk in disks:
            self.refusals += refuse.writing(disk, self.consents)
            self.refusals += refuse.unhealthy(disk, self.max_wear_percent)
            if disk.health is None:
                text = f"disk {refuse.short(disk.link)} does not tell its health: no NVMe drive, or it gave no answer"
                self.notes.append(text)
        self.steps += [steps.erase(disk, signature) for disk, signature in refuse.erasures(disks, self.consents)]
