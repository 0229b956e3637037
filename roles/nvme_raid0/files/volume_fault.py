"""From what is seen of a volume to what people read: what is wrong, what is lost and what is not, what to do. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from volume_state import Drive, Seen

REPEAT_S = 86400
_REPLACE, _REMOUNT = "storage-replace-drive", "storage-mount"
_DRIVE = {
    "gone": "drive {} is gone",
    "out": "drive {} is there, but no part of the array",
    "faulty": "drive {} has failed; the kernel no longer uses it",
}
_MOUNT = {"absent": "nothing is mounted on {}", "foreign": "something else is mounted on {}"}
_LEVEL = {"raid0": "RAID0 over {} drives", "raid1": "mirror (RAID1) of {} drives", "single": "on one drive"}


class Fault(NamedTuple):
    """What people read of one volume."""

    what: tuple[str, ...]
    lost: str
    kept: str
    next: str
    runbook: str


def judge(volume: Mapping[str, Any], seen: Seen) -> Fault | None:
    """The fault of a volume; None when it is whole."""
    missing = [drive for drive in seen.drives if drive.state != "fine"]
    what = [*(_DRIVE[drive.state].format(drive.text) for drive in missing), *_array_words(volume, seen)]
    if seen.mount != "fine":
        words = _MOUNT.get(seen.mount, "the file system on {} does not work: " + seen.mount)
        what.append(words.format(volume["mount"]))
    if not what:
        return None
    lost, step, runbook = _advice(volume, seen, missing)
    kept = f"everything outside {volume['mount']}; the machine runs without this volume"
    return Fault(tuple(what), lost, kept, step, runbook)


def _array_words(volume: Mapping[str, Any], seen: Seen) -> list[str]:
    if volume["level"] == "single":
        return []
    if not seen.device:
        return ["there is no array"]
    found = []
    if _stopped(seen):
        found.append(f"the array ({seen.device}) does not run")
    elif seen.array_state in ("broken", "unknown"):
        found.append(f"the kernel calls the array ({seen.device}) {seen.array_state}")
    if seen.others:
        found.append(f"{', '.join(seen.others)} is in the array, but not in the plan")
    if seen.rebuilding:
        found.append(f"the mirror is being filled: {seen.rebuilding} done")
    elif seen.degraded:
        found.append("the mirror runs with fewer drives than it should have")
    return found


def _stopped(seen: Seen) -> bool:
    return seen.array_state in ("", "clear", "inactive")


def _advice(volume: Mapping[str, Any], seen: Seen, missing: Sequence[Drive]) -> tuple[str, str, str]:
    """What is lost, the next step, the runbook."""
    mount, names = volume["mount"], ", ".join(drive.text for drive in missing)
    array = volume["level"] != "single"
    if volume["level"] == "raid1" and len(missing) < len(seen.drives):
        return _mirror(mount, seen, names)
    if missing:
        one, it = len(missing) == 1, "it" if len(missing) == 1 else "them"
        dead = "the drive is" if one else "one of them is" if volume["level"] == "raid0" else "all of them are"
        lost = f"everything on {mount} if {dead} dead"
        lost += "; no other drive can restore it" if volume["level"] == "raid0" else ""
        lost += f". Nothing if {'it' if one else 'they'} only lost contact"
        if any(drive.state == "gone" for drive in missing):
            return lost, f"write nothing, create nothing; find {names} and reseat {it}", _REPLACE
        return lost, f"write nothing; unmount {mount}, stop the array, mdadm --assemble --scan", _REPLACE
    if seen.array_state in ("broken", "unknown"):
        lost = f"what was being written to {mount}; the drives are there again, and the rest with them"
        return lost, f"unmount {mount}, mdadm --stop /dev/{seen.device}, mdadm --assemble --scan", _REPLACE
    if array and _stopped(seen):
        return "nothing that is known: all drives are there", "create nothing; mdadm --assemble --scan", _REPLACE
    return _mount_only(mount, seen)


def _mirror(mount: str, seen: Seen, names: str) -> tuple[str, str, str]:
    """At least one drive of the mirror is good: it holds everything."""
    lost = f"nothing yet. Everything on {mount} if the last good drive fails before the mirror is whole again"
    again = f"; then start the mount unit of {mount}" if seen.mount == "absent" else ""
    if seen.device and _stopped(seen):
        return lost, f"mdadm --run /dev/{seen.device}{again}" + (f"; then replace {names}" if names else ""), _REPLACE
    if not seen.device:
        return lost, f"create nothing; mdadm --assemble --scan --run{again}", _REPLACE
    if seen.rebuilding:
        return lost, "wait; cat /proc/mdstat shows how long" + again, _REPLACE
    if seen.others and not seen.degraded:
        step = "name the new drive in site.yaml under storage, then discover, plan, apply, verify"
        return "nothing: the mirror is whole, with a drive that the plan does not name", step + again, _REPLACE
    if names or seen.degraded:
        return lost, f"replace {names or 'the drive that mdadm --detail shows as removed'}{again}", _REPLACE
    return _mount_only(mount, seen)


def _mount_only(mount: str, seen: Seen) -> tuple[str, str, str]:
    if seen.mount == "absent":
        return "nothing: the volume itself is whole", f"systemctl status of the mount unit of {mount}", _REMOUNT
    if seen.mount == "foreign":
        lost = f"nothing that is known; what is written to {mount} now goes elsewhere"
        return lost, f"findmnt {mount}; stop the jobs, unmount it, start the mount unit", _REMOUNT
    if seen.mount != "fine":
        lost = f"perhaps what was being written to {mount}; nothing says that the rest is lost"
        return (
            lost,
            "dmesg for errors of drives and file system; stop the jobs, unmount, start the mount unit",
            _REMOUNT,
        )
    step = "name the drives that are there in site.yaml under storage, then discover, plan, apply, verify"
    return "nothing: only the plan differs", step, _REPLACE


def remember(
    volumes: Sequence[Mapping[str, Any]], faults: Mapping[str, Fault | None], before: Mapping[str, Any], now: int
) -> tuple[dict[str, Any], list[tuple[int, str]]]:
    """The faults with their beginning, and the journal's lines (priority, text): new, changed, once a day, ended."""
    known: dict[str, Any] = {}
    messages: list[tuple[int, str]] = []
    for volume in volumes:
        name, fault = volume["name"], faults[volume["name"]]
        old = before.get(name)
        head = f"volume {name} ({volume['level']}, {volume['mount']}): "
        if fault:
            what = head + "; ".join(fault.what)
            text = f"{what}. Lost: {fault.lost}. Next: {fault.next}. Runbook: {fault.runbook}"
            # That a mirror has filled a little more is no news.
            kind = re.sub(r"\d+ % done", "", text)
            repeat = not old or old["kind"] != kind or not 0 <= now - old["logged"] < REPEAT_S
            since, logged = old["since"] if old else now, now if repeat or not old else old["logged"]
            known[name] = {"what": what, "kind": kind, "since": since, "logged": logged}
            messages += [(3, text)] if repeat else []
        elif old:
            messages.append((5, f"{head}the fault has ended; it lasted {_span(max(0, now - old['since']))}"))
    return known, messages


def page(volume: Mapping[str, Any], fault: Fault | None, known: Mapping[str, Any]) -> str:
    """The report of one fault, for whoever logs in; nothing for a whole volume."""
    if fault is None:
        return ""
    level = _LEVEL[volume["level"]].format(len(volume["members"]))
    rows = [("what", text) for text in fault.what]
    rows += [("since", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(known[volume["name"]]["since"])))]
    rows += [("lost", fault.lost), ("not lost", fault.kept), ("next", fault.next)]
    rows += [("runbook", f"docs/runbooks/{fault.runbook}.md of llmhw-provision")]
    head = f"*** FAULT: volume {volume['name']}, {level}, {volume['mount']}\n"
    return head + "".join(f"    {label + ':':<10}{text}\n" for label, text in rows) + "\n"


def _span(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h {seconds % 3600 // 60} min"
