"""Text that a tool wrote for a terminal: colours out, control characters refused, names for what is no value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from llmhw_provision.probes.reading import lines, short_lines, unreadable

_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_PROMPT = re.compile(r"^(?:\S+@\S+\s?)?\S*\$ \S|^\./\w+$")  # the command itself, in a pasted output
_HEAD = 1 << 20  # an output that has not shown its form in a mebibyte is none of ours
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_INFOROM = re.compile(r"^WARNING: infoROM is corrupted at gpu (\S+)$", re.I)
_NOTHING = {"n/a", "[n/a]", "not supported", "[not supported]", "[not found]", "not available", "none", ""}
_BROKEN = re.compile(r"ERR!|Unknown Error|GPU requires reset|GPU is lost|Insufficient Permissions", re.I)


def screen(tool: str, raw: bytes) -> list[str]:
    """The lines of a terminal output without colours and trailing blanks.

    Raises ProbeError when it is empty or not text, holds other control characters or its last line has no end.
    """
    plain = _COLOUR.sub(b"", raw)
    found = _CONTROL.search(plain)
    if found:
        raise unreadable(tool, repr(plain[max(0, found.start() - 30) : found.end() + 10]), "control characters")
    whole = lines(tool, plain.replace(b"\x0b", b" ").replace(b"\x0c", b" "))
    found_lines = [line.rstrip() for line in short_lines(tool, whole)]
    if found_lines and _PROMPT.match(found_lines[0]):
        del found_lines[0]
    if not any(found_lines):
        raise unreadable(tool, "", "no output")
    return found_lines


def inforom(text: list[str]) -> tuple[list[str], list[str]]:
    """nvidia-smi's lines without the warnings below them, and the GPUs whose infoROM is said to be corrupted."""
    found = [match for match in map(_INFOROM.match, text) if match]
    return [line for line in text if not _INFOROM.match(line)], [match[1] for match in found]


def shows(pattern: str) -> Callable[[bytes], bool]:
    """Whether an output has a line that begins with `pattern` (colours and a byte order mark aside)."""
    compiled = re.compile(rb"^(?:" + pattern.encode() + rb")", re.M)

    def recognise(raw: bytes) -> bool:
        head = raw[:_HEAD]
        if b"\x1b" in head:
            head = _COLOUR.sub(b"", head)
        return compiled.search(head.replace(b"\r\n", b"\n")) is not None

    return recognise


def broken(value: str) -> bool:
    """Whether a tool says that it could not read the value (`ERR!`, `[Unknown Error]`, `[GPU requires reset]`)."""
    return _BROKEN.search(value) is not None


def absent(value: str) -> bool:
    """Whether a tool says that there is no such value (`N/A`, `[Not Supported]`)."""
    return value.strip().lower() in _NOTHING


def common(values: Mapping[str, object]) -> object:
    """The value that all keys share, else the values by key."""
    distinct = list(values.values())
    return distinct[0] if distinct and all(value == distinct[0] for value in distinct) else dict(values)


def below_the_rest(values: Mapping[str, float], tolerance: float) -> list[str]:
    """Keys whose value lies more than `tolerance` (a fraction) below the median of all; at least three are needed."""
    if len(values) < 3:
        return []
    middle = sorted(values.values())[len(values) // 2]
    return [key for key, value in values.items() if value < middle * (1 - tolerance)]
