"""The volume watch of role nvme_raid0: its timer, and what its last look left under /run."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import json_object, output, unreadable, whole
from llmhw_provision.probes.systemd import parse_units

TIMER = "llmhw-volume-watch.timer"
_STATE = "/run/llmhw/volume-watch.json"
_ASK = f"""systemctl show --no-pager -p LoadState,ActiveState,UnitFileState {TIMER}; read -r up _ </proc/uptime
printf '\\nLook=%s\\nUptime=%s\\n' "$(cat {_STATE} 2>/dev/null)" "$up\""""
COMMAND = Command("volume-watch", ("sh", "-c", _ASK), 10)


@dataclass(frozen=True)
class Look:
    """What one look found: the volumes it looked at, and what is wrong with those that are not whole."""

    uptime_s: int
    volumes: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Watch:
    """The timer's properties, the host's uptime in seconds, and the last look since the host was started."""

    timer: dict[str, str]
    uptime_s: int
    look: Look | None


def parse(raw: bytes) -> Watch:
    """The state of the watch; a look that cannot be read is an error, never none."""
    timer, *rest = parse_units(raw)
    values = {key: value for part in rest for key, value in part.items()}
    if not {"Look", "Uptime"} <= set(values):
        raise unreadable("volume-watch", raw.decode("utf-8", "replace")[-80:], "cut off")
    uptime = whole("volume-watch", values["Uptime"].partition(".")[0], "uptime")
    return Watch(timer, uptime, _look(values["Look"]) if values["Look"] else None)


def _look(text: str) -> Look:
    found = json_object("volume-watch", text.encode())
    volumes, faults = found.get("volumes"), found.get("faults")
    if not isinstance(volumes, list) or not isinstance(faults, dict):
        raise unreadable("volume-watch", text, "no volumes or faults")
    whats = [fault.get("what") if isinstance(fault, dict) else None for _, fault in sorted(faults.items())]
    if not all(isinstance(item, str) for item in [*volumes, *whats]):
        raise unreadable("volume-watch", text, "a volume or fault is not text")
    return Look(
        whole("volume-watch", found.get("uptime_s"), "uptime_s"),
        tuple(str(item) for item in volumes),
        tuple(str(item) for item in whats),
    )


def watch(evidence: Evidence) -> Watch:
    """The host's volume watch."""
    return parse(output(evidence, COMMAND.key))
