"""The folder of one run: what was asked, what happened, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from llmhw_provision.errors import InputError


@dataclass(frozen=True)
class RunFolder:
    """`runs/<UTC time>-<verb>/`; only its owner may read it, since logs can quote configuration files."""

    path: Path

    @property
    def plan(self) -> Path:
        """Copy of the plan that was carried out."""
        return self.path / "plan.json"

    @property
    def command(self) -> Path:
        """The shell lines that do the same without us."""
        return self.path / "command.txt"

    @property
    def events(self) -> Path:
        """One JSON line per thing that happened."""
        return self.path / "events.jsonl"

    @property
    def order(self) -> Path:
        """What was asked, for `--resume`."""
        return self.path / "order.json"

    @property
    def closing(self) -> Path:
        """Events of the closing questions: which hosts want a reboot, what was installed."""
        return self.path / "closing.jsonl"

    @property
    def log(self) -> Path:
        """What Ansible printed."""
        return self.path / "ansible.log"

    @property
    def result(self) -> Path:
        """How the run ended."""
        return self.path / "result.json"

    @property
    def scratch(self) -> Path:
        """Ansible's own temporary files; removed at the end."""
        return self.path / "tmp"


def create(runs: Path, *, verb: str) -> RunFolder:
    """A new folder named after the present second; a second run within it gets a number."""
    stem = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{verb}"
    for name in [stem, *(f"{stem}-{n}" for n in range(2, 100))]:
        try:
            (runs / name).mkdir(parents=True, mode=0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"{runs / name}: cannot be made: {error.strerror}") from None
        return RunFolder(runs / name)
    raise InputError(f"{runs}: a hundred runs within one second", "wait a second")


def earlier(runs: Path, *, verb: str) -> list[RunFolder]:
    """Folders of earlier runs of `verb`, newest first."""
    found = [path for path in runs.glob(f"*-{verb}*") if path.is_dir()]
    return [RunFolder(path) for path in sorted(found, reverse=True)]


def log_line(log: bytes, *, end: int, host: str) -> int:
    """Number of the line where Ansible reported the failure of `host`, at or before byte `end`; 0 when not found."""
    marks = (f"fatal: [{host}".encode(), f"failed: [{host}".encode(), b"[ERROR]", b"ERROR!")
    head = log[:end]
    for mark in marks:
        at = head.rfind(b"\n" + mark)
        if at >= 0:
            return head.count(b"\n", 0, at) + 2
    return 0
