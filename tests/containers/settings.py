"""Kernel settings that labs share: raised for the first lab, put back as found after the last one."""

import json
from pathlib import Path
from typing import TypedDict

from tests.containers.identity import STATE

_SYSCTL = Path("/proc/sys")
_FORWARD_ALL = Path("/proc/sys/net/ipv4/ip_forward")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Entry(TypedDict):
    found: int
    set: int


class Settings:
    """The borrowed settings, recorded in a file before they are changed; use it under ``machine_lock``."""

    def __init__(self, record: Path = STATE / "settings.json") -> None:
        self._record = record

    def raise_to(self, key: str, value: int) -> None:
        """Set ``key`` (a path below /proc/sys) to at least ``value``."""
        current = _get(key)
        if current is None or current >= value:
            return
        entries = self._read()
        entries.setdefault(key, {"found": current, "set": value})
        self._write(entries)
        _put(key, value)

    def forward_from(self, interface: str) -> None:
        """Let packets that arrive on ``interface`` be forwarded.

        Per interface, not ip_forward: that one resets other settings, and libvirt switches it on for its
        own networks and would lose them when we switch it off.
        """
        self.raise_to(f"net/ipv4/conf/{interface}/forwarding", 1)

    def restore(self) -> None:
        """Put back what still has the value we gave it; what someone else has changed since is theirs."""
        forwarding_is_on = _FORWARD_ALL.read_text().strip() == "1"
        for key, entry in self._read().items():
            someone_elses = key.endswith("/forwarding") and forwarding_is_on
            if _get(key) == entry["set"] and not someone_elses:
                _put(key, entry["found"])
        self._record.unlink(missing_ok=True)

    def _read(self) -> dict[str, _Entry]:
        try:
            content = json.loads(self._record.read_text())
        except (OSError, ValueError):
            return {}
        entries: dict[str, _Entry] = content["entries"] if content["boot"] == _boot() else {}
        return entries

    def _write(self, entries: dict[str, _Entry]) -> None:
        self._record.write_text(json.dumps({"boot": _boot(), "entries": entries}))


def _boot() -> str:
    return _BOOT_ID.read_text().strip()


def _get(key: str) -> int | None:
    path = _SYSCTL / key
    return int(path.read_text()) if path.exists() else None


def _put(key: str, value: int) -> None:
    path = _SYSCTL / key
    if path.exists():
        path.write_text(str(value))
