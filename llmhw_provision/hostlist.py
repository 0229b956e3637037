"""Names of many hosts in one text, as Slurm writes them: `node[001-128]`, `rack[1-2,4],login-01`."""

from __future__ import annotations

import re
from collections.abc import Iterable

LIMIT = 4096
_RANGE = re.compile(r"^([^\[\],]*)\[([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]([^\[\],]*)$")
_NUMBERED = re.compile(r"^(.*?)([0-9]+)([^0-9]*)$")


def expand(text: str) -> tuple[str, ...]:
    """Every name in `text`, in its order; raises ValueError for brackets that are none, backward or above LIMIT."""
    found: list[str] = []
    for part in re.findall(r"[^,\[\]]*(?:\[[^\[\]]*\][^,\[\]]*)+|[^,]+", text):
        found += _expanded(part) if "[" in part or "]" in part else [part]
        if len(found) > LIMIT:
            raise ValueError(f"{text[:60]!r} names more than {LIMIT} hosts")
    return tuple(found)


def _expanded(part: str) -> list[str]:
    match = _RANGE.match(part)
    if not match:
        raise ValueError(f"{part[:60]!r} is no range of hosts; write for example 'node[001-128]'")
    before, ranges, after = match.groups()
    found: list[str] = []
    for piece in ranges.split(","):
        first, _, last = piece.partition("-")
        last = last or first
        if int(last) < int(first) or len(last) < len(first):
            raise ValueError(f"{part[:60]!r} counts backward ({piece})")
        if int(last) - int(first) >= LIMIT:
            raise ValueError(f"{part[:60]!r} names more than {LIMIT} hosts")
        found += [f"{before}{number:0{len(first)}d}{after}" for number in range(int(first), int(last) + 1)]
    return found


def compress(names: Iterable[str]) -> str:
    """`names` in one text, ranges where numbers of equal width follow each other; expand() gives them back, sorted."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    plain: dict[str, None] = {}
    for name in names:
        match = _NUMBERED.match(name)
        if match:
            before, digits, after = match.groups()
            groups.setdefault((before, after, len(digits)), []).append(int(digits))
        else:
            plain[name] = None
    found = [_compressed(*key, sorted(set(numbers))) for key, numbers in groups.items()]
    return ",".join((*found, *plain))


def _compressed(before: str, after: str, width: int, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{before}{numbers[0]:0{width}d}{after}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = (f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs)
    return f"{before}[{','.join(texts)}]{after}"
