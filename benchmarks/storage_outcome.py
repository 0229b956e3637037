"""What a tool did to drives, in words: from facts read before and after, never from its exit status alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Array:
    """A running or inactive md array: kernel name, UUID and its members' kernel names."""

    kernel: str
    state: str
    level: str
    uuid: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """The machine at one moment: `content` maps a serial to a hash of its drive's ends, `mounted` or `missing`.

    `nodes` maps a serial to its kernel device; `files` is a hash of fstab, mdadm.conf and the mount unit; `mounted` and
    `named` are the kernel names of what is mounted and of what has the wanted name; `data` is the customer's hash.
    """

    content: dict[str, str]
    nodes: dict[str, str]
    arrays: tuple[Array, ...] = ()
    recorded: tuple[str, ...] = ()
    files: str = ""
    mounted: str = ""
    named: str = ""
    data: str = ""


@dataclass(frozen=True)
class Run:
    """Exit status, seconds, and what the tool said about its failure, the most telling line first."""

    status: int
    seconds: float
    said: tuple[str, ...] = ()


def parse(text: str) -> Facts:
    """Facts from lines of a keyword and its words; raises ValueError for a line of another kind."""
    content: dict[str, str] = {}
    nodes: dict[str, str] = {}
    arrays: list[Array] = []
    recorded: list[str] = []
    single = {"files": "", "mounted": "", "named": "", "data": ""}
    for line in text.splitlines():
        key, *words = line.split()
        if key == "drive":
            content[words[0]] = words[1]
            nodes[words[0]] = "".join(words[2:]).removeprefix("/dev/")
        elif key == "array":
            arrays.append(Array(*words[:4], members=tuple(sorted(words[4:]))))
        elif key == "recorded":
            recorded.append(words[0])
        elif key in single:
            single[key] = words[0]
        else:
            raise ValueError(f"not a fact: {line}")
    return Facts(content, nodes, tuple(arrays), tuple(recorded), **single)


def classify(before: Facts, after: Facts, run: Run, *, serials: Sequence[str], culprit: str = "") -> str:
    """One outcome for a RAID0 over the drives `serials`; `culprit` is the serial that a refusal should name."""
    kept = ", data kept" if before.data else ""
    end = "says done" if run.status == 0 else "then fails"
    if before.data and culprit and _new_array_over(before.nodes[culprit], before, after):
        return f"builds an array over the customer's data, {end}"
    # Drives whose bytes are the same have lost nothing: then it is the reading that failed.
    same = before.content == after.content and "mounted" not in before.content.values()
    if before.data and after.data != before.data and not same:
        return f"the customer's data cannot be read any more, {end}"
    changes = _changes(before, after)
    if run.status:
        if changes:
            return f"stops half-way ({', '.join(changes)}){kept}"
        named = culprit and any(_names(line, culprit, before) for line in run.said)
        return "refuses" + (", names the drive" if named else "") + ", nothing changed"
    if not after.mounted:
        return f"says done, nothing is mounted{kept}"
    array = _mounted_array(after)
    if array is None or set(array.members) != {after.nodes[serial] for serial in serials}:
        return f"says done, something else is mounted{kept}"
    return ("finishes" if changes else "nothing changed") + kept + _loose_ends(after, array)


def _mounted_array(facts: Facts) -> Array | None:
    running = (array for array in facts.arrays if array.state == "running" and array.level == "raid0")
    return next((array for array in running if array.kernel == facts.mounted), None)


def _new_array_over(node: str, before: Facts, after: Facts) -> bool:
    known = {array.uuid for array in before.arrays}
    return any(node in array.members and array.uuid not in known for array in after.arrays)


def _changes(before: Facts, after: Facts) -> list[str]:
    written = [serial for serial, there in before.content.items() if after.content[serial] != there]
    found = [f"writes to {', '.join(written)}"] if written else []
    if {(a.uuid, a.state) for a in before.arrays} != {(a.uuid, a.state) for a in after.arrays}:
        found.append("other arrays than before")
    if before.mounted != after.mounted:
        found.append("mounted" if after.mounted else "unmounted")
    if before.files != after.files:
        found.append("fstab, mdadm.conf or unit altered")
    return found


def _loose_ends(after: Facts, array: Array) -> str:
    ends = ""
    if array.uuid not in after.recorded:
        ends += ", array not recorded in mdadm.conf"
    if set(after.recorded) - {known.uuid for known in after.arrays}:
        ends += ", stale ARRAY line stays"
    if len(set(after.recorded)) < len(after.recorded):
        ends += ", recorded twice"
    if after.named != array.kernel:
        ends += ", under another name"
    return ends


def _names(line: str, serial: str, facts: Facts) -> bool:
    return serial in line or (facts.nodes[serial] != "" and facts.nodes[serial] in line)
