"""Units at the edges: bytes are plain integers inside, text with a unit outside.

Memory is shown in GiB (2**30), disks in GB and TB (10**9, 10**12), links in Gbit/s.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import NewType

Bytes = NewType("Bytes", int)

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
KB, MB, GB, TB, PB = 10**3, 10**6, 10**9, 10**12, 10**15

_FACTORS = {
    "B": 1,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": TIB,
    "KB": KB,
    "MB": MB,
    "GB": GB,
    "TB": TB,
    "PB": PB,
}
_SIZE = re.compile(r"^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+)$", re.ASCII)
_LARGEST = 2**63 - 1


def parse_size(text: object, *, example: str) -> Bytes:
    """Bytes of a text such as `80 GiB` or `3.84 TB`; rounded up to a whole byte.

    A bare number is refused: whether 80 means GB or GiB is 7 % of a card's memory.
    Raises ValueError with the text found and `example`.
    """
    if isinstance(text, bool) or not isinstance(text, str):
        raise ValueError(f"{text!r} has no unit; write for example {example!r}")
    match = _SIZE.match(text.strip())
    if not match:
        raise ValueError(f"{_short(text)} is not a size; write for example {example!r}")
    number, unit = match.groups()
    factor = _FACTORS.get(unit)
    if factor is None:
        near = next((name for name in _FACTORS if name.lower() == unit.lower()), "")
        hint = f"did you mean {near!r}" if near else f"known units are {', '.join(_FACTORS)}"
        raise ValueError(f"unit {unit!r} in {_short(text)} is not known; {hint}")
    try:
        exact = Decimal(number) * factor
    except InvalidOperation as error:
        raise ValueError(f"{_short(text)} is not a size; write for example {example!r}") from error
    if exact > _LARGEST:
        raise ValueError(f"{_short(text)} is larger than any disk or memory (limit 8 EiB)")
    return Bytes(math.ceil(exact))


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def memory(size: int) -> str:
    """Text of a memory size: `79.6 GiB`, `512 MiB` below one GiB."""
    if size < GIB:
        return f"{size / MIB:.1f} MiB"
    return f"{size / GIB:,.1f} GiB"


def disk(size: int) -> str:
    """Text of a disk size: `3.84 TB`, `960.2 GB` below one TB, `1.1 MB` below one GB."""
    if size >= TB:
        return f"{size / TB:,.2f} TB"
    if size >= GB:
        return f"{size / GB:,.1f} GB"
    return f"{size / MB:,.1f} MB"
