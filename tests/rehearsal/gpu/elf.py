"""The smallest shared library that the dynamic loader's cache takes: a name, no code."""

from __future__ import annotations

import struct

_BASE, _PAGE = 0, 0x1000


def library(soname: str) -> bytes:
    """An x86-64 ELF shared object whose SONAME is `soname`."""
    strings = b"\0" + soname.encode() + b"\0"
    head = 64 + 2 * 56
    symbols = head
    text = symbols + 24  # one empty symbol
    table = (text + len(strings) + 7) // 8 * 8
    entries = ((14, 1), (5, text), (10, len(strings)), (6, symbols), (11, 24), (0, 0))  # SONAME, tables, end
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    size = table + len(dynamic)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, _BASE, _BASE, size, size, _PAGE)
    shown = struct.pack("<IIQQQQQQ", 2, 4, table, table, table, len(dynamic), len(dynamic), 8)
    return header + load + shown + bytes(24) + strings + bytes(table - text - len(strings)) + dynamic
