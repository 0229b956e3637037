"""The kernel command line: what grub.cfg boots, and the entry before the change. Pure functions of texts.

The old entry is copied to custom.cfg, which GRUB's own 41_custom reads at each start. It stays in the menu until the
machine has run with the new command line; then it is taken away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Optional

BEGIN, END = "# BEGIN llmhw-provision", "# END llmhw-provision"
_ID = "llmhw-before"


def lacking(wanted: Iterable[str], command_line: str) -> list[str]:
    """The arguments that are not on a kernel command line."""
    words = command_line.split()
    return [argument for argument in wanted if argument not in words]


def default_entry(grub_cfg: str) -> Optional[str]:  # noqa: UP045
    """The first menu entry of grub.cfg, braces and all; it is what GRUB boots unless told otherwise."""
    found: list[str] = []
    depth = 0
    for line in grub_cfg.splitlines():
        if not found and not re.match(r"^menuentry\s", line):
            continue
        found.append(line)
        depth += line.count("{") - line.count("}")
        if depth == 0:
            return "\n".join(found)
    return None


def command_lines(entry: str) -> list[str]:
    """The kernel command lines in a menu entry."""
    return [line.strip() for line in entry.splitlines() if re.match(r"^\s*linux(efi)?\s", line)]


def kept_entry(entry: str) -> str:
    """The menu entry under a name and an id of its own."""
    head, rest = entry.split("\n", 1)
    head = re.sub(r"\s(\$menuentry_id_option|--id)[\s=]+(\S+)", "", head)  # which a file written by hand may lack
    head = re.sub(r"\s*\{\s*$", f" --id {_ID} {{", head)
    head = re.sub(
        r"^menuentry\s+('[^']*'|\"[^\"]*\")", "menuentry 'Before llmhw-provision changed the command line'", head
    )
    return f"{head}\n{rest}"


def with_kept(custom: str, entry: Optional[str]) -> str:  # noqa: UP045
    """custom.cfg with the kept entry in a block of its own, or without the block; what else is there stays."""
    outside: list[str] = []
    inside = False
    for line in custom.splitlines():
        inside = inside or line == BEGIN
        if not inside:
            outside.append(line)
        inside = inside and line != END
    block = [BEGIN, *entry.splitlines(), END] if entry else []
    return "".join(f"{line}\n" for line in [*outside, *block])


def kept_bls(entry: str) -> str:
    """EL: a boot loader entry under another title, sorted behind all others."""
    text = re.sub(r"(?m)^title\s.*$", "title Before llmhw-provision changed the command line", entry)
    return re.sub(r"(?m)^version\s.*$", "version 0-llmhw-before", text)


def grubby_field(info: str, name: str) -> str:
    """EL: one field in the answer of `grubby --info=DEFAULT`."""
    match = re.search(rf'(?m)^{name}="(.*)"$', info)
    return match[1] if match else ""
