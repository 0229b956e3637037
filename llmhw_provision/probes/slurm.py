"""Slurm's other answers: sinfo (tables and JSON), scontrol ping, slurmd -G, and the error lines of its programs.

`%t` shows `inval` for a drained node with an invalid registration, and `sinfo -R` cuts the reason at 20 characters.
"""

from __future__ import annotations

import re
from typing import Any

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import json_object, last_line, plain_lines, rows, unreadable

SINFO = Command("sinfo", ("sinfo", "-N", "-o", "%N %t %G %E"), 20)
PING = Command("scontrol-ping", ("scontrol", "ping"), 20)
GRES = Command("slurmd-gres", ("slurmd", "-G"), 20)
COMMANDS = (SINFO, PING, GRES)

_COLUMNS = {"PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST", "GRES", "REASON", "USER", "TIMESTAMP"}
_COLUMNS |= {"CPUS", "S:C:T", "MEMORY", "TMP_DISK", "WEIGHT", "AVAIL_FE", "HOSTNAMES", "JOB_SIZE", "ROOT", "OVERSUBS"}
_WORKING = ("idle", "mix", "mixed", "alloc", "allocated", "comp", "completing", "resv", "plnd", "planned")
_CUT = 20
_ERROR = re.compile(
    r"^(?:\[[^\]]+\] )?(?:(?:sinfo|squeue|srun|sbatch|salloc|scontrol|sacct|sacctmgr|slurmd|slurmctld|slurmdbd): )?"
    r"(error|fatal): (.*)$"
)
_KNOWN = (
    (re.compile(r"Waiting for gres\.conf file"), "waiting for gres.conf file"),
    (re.compile(r"can't stat gres\.conf file", re.I), "can't stat gres.conf file"),
    (re.compile(r"Munge decode failed: (Expired|Rewound) credential"), "clock_skew"),
    (re.compile(r"Munge decode failed: Invalid credential"), "invalid_credential"),
    (re.compile(r"Munge (encode|decode) failed: Failed to (access|connect)"), "munge_down"),
    (re.compile(r"autodetect nvml.*(?:lib|library|plugin)|unknown autodetect flag", re.I), "autodetect"),
    (re.compile(r"Low RealMemory", re.I), "low_real_memory"),
    (re.compile(r"gres/gpu count reported lower"), "gres_count"),
    (re.compile(r"cannot connect to dbus|failed to connect to dbus", re.I), "dbus"),
    (re.compile(r"cgroup.*(?:v2|plugin).*(?:fail|not)", re.I), "cgroup"),
)


def table_facts(raw: bytes) -> dict[str, object]:
    """Node states in the order listed; `state` is the first that is not at work or idle."""
    text = plain_lines("sinfo", raw)
    names = text[0].split() if text else []
    if not names or not set(names) <= _COLUMNS:
        raise unreadable("sinfo", last_line(raw))
    found = [_split(line, names) for line in text[1:] if line.strip()]
    if any(list(row.values()) == names for row in found):
        raise unreadable("sinfo", text[0], "the heading again")
    states = list(dict.fromkeys(row["STATE"] for row in found if "STATE" in row))
    bare = [state for state in states if state.rstrip("*~#!%$@^-") not in _WORKING]
    result: dict[str, object] = {"rc": 0, "rows": len(found), "states": states}
    if states:
        result["state"] = bare[0] if bare else states[0]
    if "REASON" in names:
        width = text[0].find("USER") - 1 if names[0] == "REASON" and "USER" in names else 0
        reasons = [row["REASON"] for row in found]
        result |= {"reasons": reasons, "truncated": width == _CUT and any(len(text) == _CUT for text in reasons)}
    return result


def _split(line: str, names: list[str]) -> dict[str, str]:
    """The cells of a row; the reason is the one that may hold blanks, at either end of the table."""
    if names[0] == "REASON":
        cells = line.rstrip().rsplit(maxsplit=len(names) - 1)
    else:
        cells = line.strip().split(maxsplit=len(names) - 1)
    if (
        len(cells) == len(names) - 1
        and names[-1] == "NODELIST"
        and dict(zip(names, cells, strict=False)).get("NODES") == "0"
    ):
        cells.append("")  # a partition without nodes
    if len(cells) != len(names):
        raise unreadable("sinfo", line, f"{len(names)} columns expected")
    return dict(zip(names, (cell.strip() for cell in cells), strict=True))


def json_facts(raw: bytes) -> dict[str, object]:
    """States with their flags of `sinfo --json`: one entry a node before 23.02, one a group of nodes since."""
    document = json_object("sinfo --json", raw)
    entries = rows(document.get("nodes", document.get("sinfo")), "sinfo --json", "nodes")
    states: list[str] = []
    for entry in entries:
        state = entry.get("state", entry.get("node", {}))
        base = _state(state.get("state", state) if isinstance(state, dict) else state)
        flags = [str(flag).lower() for flag in entry.get("state_flags") or []]
        states.append("+".join([base, *flags]))
    errors = document.get("errors")
    names = [str(entry["name"]) for entry in entries if "name" in entry]
    return {"format": "json", "error": bool(errors), "states": list(dict.fromkeys(states)), "nodes": names}


def _state(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return "+".join(value).lower()  # a drained node is IDLE too
    if not isinstance(value, str):
        raise unreadable("sinfo --json", f"state {value!r}")
    return value.lower()


def ping_facts(raw: bytes) -> dict[str, object]:
    """Whether the primary controller answers."""
    found = re.findall(
        r"^Slurmctld\((\w+)\) at (\S+) is (UP|DOWN)[ \t]*$", "\n".join(plain_lines("scontrol", raw)), re.M
    )
    if not found:
        raise unreadable("scontrol ping", raw.decode("utf-8", "replace"))
    return {"up": found[0][2] == "UP", "controllers": {host: state for _, host, state in found}}


def gres_facts(raw: bytes) -> dict[str, object]:
    """The GPUs that slurmd finds."""
    count, files = 0, []
    for line in plain_lines("slurmd -G", raw):
        match = re.match(r"^slurmd: Gres Name=(\S+) (?:Type=\S+ )?Count=([0-9]+)(?: .*)?$", line)
        if match and match[1] == "gpu":
            count += int(match[2])
            files += [path for named in re.findall(r" File=(\S+)", line) for path in _files(named)]
        elif not match and not line.startswith("slurmd: "):
            raise unreadable("slurmd -G", line)
    if len(set(files)) != len(files):
        raise unreadable("slurmd -G", ", ".join(files), "a file is listed twice")
    return {"count": count, "files": files}


def _files(named: str) -> list[str]:
    """The files that Slurm writes as one: /dev/nvidia[0-3,5]; the text itself where it has another form."""
    match = re.fullmatch(r"([^\[\]]+)\[((?:[0-9]{1,4}(?:-[0-9]{1,4})?)(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*)\]", named)
    if not match:
        return [named]
    ends = [part.split("-") for part in match[2].split(",")]
    return [f"{match[1]}{number}" for part in ends for number in range(int(part[0]), int(part[-1]) + 1)]


def error_facts(raw: bytes) -> dict[str, object]:
    """A known cause by its name; else that there is an error, and the last message."""
    messages = [match[2] for line in plain_lines("Slurm", raw) if (match := _ERROR.match(line))]
    known = [name for pattern, name in _KNOWN for message in messages if pattern.search(message)]
    return {"rc": 1, "error": known[0] if known else True, "message": messages[-1].rstrip() if messages else ""}


def _option(raw: bytes) -> dict[str, object]:
    line = next(iter(plain_lines("Slurm", raw)), "")
    return {"rc": 1, "error": line.partition(": ")[2]}


_HEADER = rb"\A\s*(PARTITION|NODELIST|REASON|HOSTNAMES|NODES|STATE)[ \t]+(?:[A-Z_:]+[ \t]+)*[A-Z_:]+[ \t]*$"
_PROGRAM = rb"(sinfo|squeue|srun|sbatch|salloc|scontrol|sacct|sacctmgr|slurmd|slurmctld|slurmdbd)"
FORMATS = (
    Format("sinfo --json", holds(rb'\A\s*\{[\s\S]*?"(Slurm|slurm)"\s*:\s*\{'), json_facts),
    Format("scontrol ping", holds(rb"\ASlurmctld\(\w+\) at \S+ is (UP|DOWN)"), ping_facts),
    Format("slurmd -G", holds(rb"^slurmd: Gres Name=\S+ "), gres_facts),
    Format("Slurm option", holds(rb"\A" + _PROGRAM + rb": unrecognized option '[^'\n]+'$"), _option),
    Format("Slurm error", holds(rb"^" + _PROGRAM + rb": (error|fatal): "), error_facts),
    Format(
        "Slurm log", holds(rb"\A\[[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+\] (error|fatal|debug|slurm|auth/)"), error_facts
    ),
    Format("sinfo", holds(_HEADER), table_facts),
)
