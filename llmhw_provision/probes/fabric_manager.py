"""NVSwitch fabric manager: its journal, its own log and the state of its unit.

Logs have no end mark: a piece of one is read as far as it goes, and says nothing of what came later.
"""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import screen, shows

UNIT = "nvidia-fabricmanager"
JOURNAL = Command("fabric-manager", ("journalctl", "-u", UNIT, "-b", "--no-pager", "-n", "200"), 20)
STATUS = Command("fabric-manager-unit", ("systemctl", "status", UNIT, "--no-pager", "-l", "-n", "20"), 20)
SWITCHES = Command("nvswitches", ("sh", "-c", "ls /proc/driver/nvidia-nvswitch/devices 2>/dev/null; true"), 5)
COMMANDS = (JOURNAL, STATUS, SWITCHES)
_TOOL = "fabric manager log"
_VERSIONS = re.compile(
    r"interface version (?P<fabric_manager>\d+(?:\.\d+)+) (?:don't|doesn't|does not|do not) match with driver version "
    r"(?P<driver>\d+(?:\.\d+)+)",
    re.I,
)
# What stops it or the GPUs, in the order in which one explains another.
_ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("version_mismatch", re.compile(r"interface version \S+ (?:do|does)(?:n't| not) match", re.I)),
    ("nothing_to_do", re.compile(r"NV_WARN_NOTHING_TO_DO")),
    (
        "topology_mismatch",
        re.compile(r"NVSwitches don't match with any supported system topology|topology file .*not found", re.I),
    ),
    ("nvlsm_missing", re.compile(r"nvlsm.*(?:not found|No such file|failed)", re.I)),
    ("ib_umad_missing", re.compile(r"ib_umad.*(?:not|fail|missing)", re.I)),
    ("sxid_fatal", re.compile(r"detected NVSwitch fatal error (?P<sxid>\d+)", re.I)),
    ("sxid_nonfatal", re.compile(r"detected NVSwitch non-fatal error (?P<sxid>\d+)", re.I)),
    (
        "nvlink_training_failed",
        re.compile(r"NVLink.*(?:training|initialization).*fail|failed to (?:train|initialize).*NVLink", re.I),
    ),
    ("gpu_handle_not_found", re.compile(r"failed to find the GPU handle", re.I)),
    (
        "driver_not_loaded",
        re.compile(
            r"(?:NVSwitch|nvidia) driver.*not (?:loaded|running|found)|failed to (?:open|connect to).*NVSwitch.*driver",
            re.I,
        ),
    ),
    ("config_error", re.compile(r"failed to (?:read|parse|open).*fabricmanager\.cfg", re.I)),
)
_STARTED = re.compile(
    r'Started "?Nvidia Fabric Manager"?|Started nvidia-fabricmanager\.service|Started NVIDIA fabric manager service'
    r"|Successfully configured all the available (?:GPUs and )?NVSwitches",
    re.I,
)
_FAILED = re.compile(
    r"Main process exited|Control process exited|Failed to start|Failed with result|failed! Exit code", re.I
)
_JOURNAL_LINE = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) \S+ (?P<unit>[\w.@/-]+?)(?:\[\d+\])?: (?P<said>.*)$"
)
_MARK = re.compile(r"^-- .* --$|^-- No entries --$|^-- Boot [0-9a-f]+ --$")
_LOG_LINE = re.compile(r"^\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\] \[(?P<level>[A-Z]+)\] \[tid \d+\] (?P<said>.*)$")
_ACTIVE = re.compile(r"^[ \t]*Active: (?P<state>\w+)(?: \((?P<detail>[\w-]+)(?:[:)].*)?| \((?P<more>.*)\).*)?", re.M)
_LOADED = re.compile(r"^[ \t]*Loaded: (?P<state>[\w-]+)(?: \((?P<detail>[^)]*)\)?)?", re.M)
_OURS = re.compile(r"fabricmanager|nv-fabric|fabric manager", re.I)


def _judge(said: list[str]) -> dict[str, object]:
    """Errors by our names, versions and SXids; whether the last start came to its end."""
    facts: dict[str, object] = {}
    named = [
        (place, name, match)
        for name, pattern in _ERRORS
        for place, line in enumerate(said)
        if (match := pattern.search(line))
    ]
    started = max((place for place, line in enumerate(said) if _STARTED.search(line)), default=-1)
    failed = max((place for place, line in enumerate(said) if _FAILED.search(line)), default=-1)
    # An error before a later successful start is history, unless it is a fault of the switches themselves.
    live = [(name, match) for place, name, match in named if place > started or name.startswith("sxid")]
    sxids = [int(match["sxid"]) for name, match in live if name.startswith("sxid")]
    if sxids:
        facts["sxids"] = sxids
        facts["sxid"] = sxids[0]
    for line in said:
        versions = _VERSIONS.search(line)
        if versions:
            facts |= versions.groupdict()
    real = [name for name, _ in live if name != "sxid_nonfatal"]
    if real:
        facts["error"] = real[0]
    elif failed > started:
        facts["error"] = "failed"
    facts["started"] = started >= 0
    facts["ok"] = started > failed and "error" not in facts
    if "error" in facts:
        facts["verdict"] = "profile error" if facts["error"] == "nothing_to_do" else "fail"
    elif facts["ok"]:
        facts["verdict"] = "warn" if sxids else "pass"
    return facts


def facts_journal(raw: bytes) -> dict[str, object]:
    """What the unit's journal says of its last start."""
    said: list[str] = []
    for line in screen(_TOOL, raw):
        match = _JOURNAL_LINE.match(line)
        if match:
            said.append(match["said"])
        elif line.strip() and not _MARK.match(line) and not (said and line[:1].isspace()):
            raise unreadable(_TOOL, line)
    if not any(_OURS.search(line) for line in raw.decode("utf-8", "replace").splitlines()):
        raise unreadable(_TOOL, said[0] if said else "", "another unit")
    return _judge(said)


def facts_log(raw: bytes) -> dict[str, object]:
    """What /var/log/fabricmanager.log says: lines by level, errors by our names, multicast teams (NVLS)."""
    levels: dict[str, int] = {}
    said: list[str] = []
    for line in screen(_TOOL, raw):
        match = _LOG_LINE.match(line)
        if match:
            levels[match["level"]] = levels.get(match["level"], 0) + 1
            said.append(match["said"])
        elif line.strip() and not said:
            raise unreadable(_TOOL, line)
    if not said:
        raise unreadable(_TOOL, "", "no line")
    facts = _judge(said)
    bad = sum(count for level, count in levels.items() if level in ("ERROR", "FATAL", "CRITICAL"))
    facts |= {"errors": bad, "warnings": levels.get("WARNING", 0) + levels.get("WARN", 0), "levels": levels}
    facts["teams_set_up"] = sum("successfully setup multicast team" in line for line in said)
    if not bad and "error" not in facts:
        facts |= {"ok": True, "verdict": "pass"}
    elif bad:
        facts["ok"] = False
        facts.setdefault("verdict", "fail")
    return facts


def facts_status(raw: bytes) -> dict[str, object]:
    """`systemctl status`: loaded, enabled, active; and what its last journal lines say."""
    text = "\n".join(screen("systemctl status", raw))
    active, loaded = _ACTIVE.search(text), _LOADED.search(text)
    if not active or not loaded:
        raise unreadable("systemctl status", text, "no Active or Loaded line")
    said = [match["said"] for match in map(_JOURNAL_LINE.match, text.splitlines()) if match]
    told = _judge(said)
    state = active["state"]
    detail = loaded["detail"] or ""
    facts: dict[str, object] = {
        "active": state,
        "sub": active["detail"],
        "loaded": loaded["state"],
        "enabled": "; enabled" in detail,
        "ok": state == "active",
    }
    facts |= {key: value for key, value in told.items() if key in ("fabric_manager", "driver", "sxids")}
    if state != "active":
        facts["error"] = told.get("error", "not_installed" if loaded["state"] == "not-found" else state)
        facts["verdict"] = told.get("verdict", "fail") if "error" in told else "fail"
    else:
        facts["verdict"] = "pass"
    return facts


FORMATS: tuple[Format, ...] = (
    Format(
        "fabric manager status",
        shows(r"(?:(?:●|○|×|\\*|↻|●) )?(?:Unit )?nvidia-fabricmanager(?:\.service)?(?: - .*|$)"),
        facts_status,
    ),
    Format(
        "fabric manager log", shows(r"\[[A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d\] \[[A-Z]+\] \[tid \d+\]"), facts_log
    ),
    Format(
        "fabric manager journal",
        shows(
            r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) \S+ "
            r"(?:nv-fabricmanager|nvidia-fabricmanager\S*|"
            r"systemd\[\d+\]: .*(?:nvidia-fabricmanager|[Ff]abric [Mm]anager))"
        ),
        facts_journal,
    ),
)
