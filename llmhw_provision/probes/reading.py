"""What every parser shares: taking a result out of the evidence, and refusing what cannot be read."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from llmhw_provision.errors import MachineError
from llmhw_provision.evidence import Evidence

LONGEST_LINE, MOST_LINES = 1 << 16, 2_000_000
_NUMBER = re.compile(r"^[-+]?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$")
_DIGITS_ONLY = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class ProbeError(MachineError):
    """A tool gave no output, or output that cannot be read; never turned into a value."""


def unreadable(tool: str, line: str, why: str = "") -> ProbeError:
    """The error for output that is not `tool`'s: quotes the line, without what a terminal would obey."""
    shown = harmless(line) or "(nothing)"
    return ProbeError(f"could not read {tool} output: {shown}" + (f" ({harmless(why)})" if why else ""))


def harmless(text: str) -> str:
    """The beginning of `text` in printable characters, 120 at most."""
    return "".join(one if one.isprintable() else " " for one in text[:2000]).strip()[:120]


def output(evidence: Evidence, key: str) -> bytes:
    """Standard output of the command `key`; raises ProbeError unless it was run and succeeded."""
    result = evidence.get(key)
    if result is None:
        raise ProbeError(evidence.problem or f"{key} was not read on {evidence.host}")
    if result.rc != 0:
        raise ProbeError(f"{key}: {result.why()}")
    return result.stdout


def refuse_numbers_without_end(tool: str, raw: bytes) -> None:
    """Raises ProbeError for a number of a hundred digits: no tool prints one, and Python refuses to read 4300."""
    at = raw.translate(_DIGITS_ONLY).find(b"0" * 100)
    if at >= 0:
        raise unreadable(tool, raw[at : at + 40].decode("ascii"), "a number without end")


def last_line(raw: bytes) -> str:
    """The last line of `raw` that is not blank, to be quoted; empty when there is none."""
    text = raw[-4096:].decode("utf-8", "replace").strip()
    return text.splitlines()[-1] if text else ""


def lines(tool: str, raw: bytes, *, dump: bool = False) -> list[str]:
    """The lines of `raw` without line ends; raises ProbeError when the last line is cut off or it is not text.

    In a hexadecimal `dump` digits stand in rows of any length.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise unreadable(tool, repr(raw[:60]), "not UTF-8 text") from None
    if not dump:
        refuse_numbers_without_end(tool, raw)
    count = raw.count(b"\n")
    if count > MOST_LINES:
        raise unreadable(tool, text[:120], f"{count} lines")
    if text and not text.endswith("\n"):
        raise unreadable(tool, text.splitlines()[-1], "cut off")
    return text.splitlines()


def json_value(tool: str, raw: bytes) -> object:
    """The JSON in `raw`; NaN and the like, and nesting beyond Python's stack, are refused."""
    refuse_numbers_without_end(tool, raw)
    try:
        found: object = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise unreadable(tool, last_line(raw), "not JSON, or cut off") from None
    return found


def json_object(tool: str, raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`."""
    found = json_value(tool, raw)
    if not isinstance(found, dict):
        raise unreadable(tool, str(found)[:120], "not a JSON object")
    return found


def _no_number(said: str) -> None:
    raise ValueError(f"{said} is no number")


def pairs(tool: str, raw: bytes) -> dict[str, str]:
    """`KEY=value` lines as a dict; empty lines are skipped."""
    found: dict[str, str] = {}
    for line in lines(tool, raw):
        key, equals, value = line.partition("=")
        if line.strip() and not equals:
            raise unreadable(tool, line)
        if equals:
            found[key] = value
    return found


def sections(tool: str, raw: bytes) -> dict[str, list[str]]:
    """The lines below each `== name` heading that our own loops print."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines(tool, raw):
        if line.startswith("== "):
            current = found.setdefault(line[3:], [])
        elif current is None:
            raise unreadable(tool, line)
        else:
            current.append(line)
    return found


def closed_sections(tool: str, raw: bytes, names: tuple[str, ...]) -> dict[str, list[str]]:
    """As `sections`, of an answer that must hold all of `names` and end with `== end`."""
    found = sections(tool, raw)
    missing = [name for name in (*names, "end") if name not in found]
    if missing:
        raise unreadable(tool, f"no {', '.join(missing)}", "cut off")
    return found


def whole(tool: str, value: object, what: str) -> int:
    """`value` as a whole number that is not negative."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    raise unreadable(tool, f"{what} {value!r}", "not a whole number")


def flag(tool: str, value: object, what: str) -> bool:
    """`value` as true or false; util-linux writes booleans, or "0" and "1" before 2.33."""
    if isinstance(value, bool):
        return value
    if value in ("0", "1"):
        return value == "1"
    raise unreadable(tool, f"{what} {value!r}", "neither true nor false")


def number(tool: str, value: object, what: str) -> float:
    """`value` as a finite number, written with a decimal point."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and _NUMBER.match(value) and math.isfinite(float(value)):
        return float(value)
    raise unreadable(tool, f"{what} {value!r}", "not a number")


def exact(value: float) -> int | float:
    """`value` as a whole number where it is one."""
    return int(value) if value == int(value) else value


def plain_lines(tool: str, raw: bytes) -> list[str]:
    """As `lines`, without colours and carriage returns; a line beyond 64 KiB is refused."""
    return [_COLOUR.sub("", line).rstrip("\r") for line in short_lines(tool, lines(tool, raw))]


def short_lines(tool: str, found: list[str]) -> list[str]:
    """`found`; raises ProbeError for a line beyond 64 KiB, which no tool writes for people."""
    long = next((line for line in found if len(line) > LONGEST_LINE), None)
    if long is not None:
        raise unreadable(tool, long, f"a line of {len(long)} characters")
    return found


def table(value: object, tool: str, what: str) -> dict[str, Any]:
    """`value` as a JSON object."""
    if not isinstance(value, dict):
        raise unreadable(tool, f"{what} {value!r}", "not a JSON object")
    return value


def rows(value: object, tool: str, what: str) -> list[dict[str, Any]]:
    """`value` as a JSON list of objects."""
    if not isinstance(value, list):
        raise unreadable(tool, f"{what} {value!r}", "not a list")
    return [table(item, tool, what) for item in value]


def grouped(tool: str, text: str, what: str) -> int:
    """A whole number that may carry thousands separators (1,340); a decimal comma is refused."""
    if not re.match(r"^([0-9]+|[0-9]{1,3}(,[0-9]{3})+)$", text):
        raise unreadable(tool, f"{what} {text!r}", "not a whole number")
    return int(text.replace(",", ""))
