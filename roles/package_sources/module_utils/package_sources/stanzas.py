"""Entries of apt's and dnf's own files: which name an address, and the file without them. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Optional
from urllib.parse import urlsplit

ASIDE = ".disabled-by-llmhw"
MARK = "# set aside by llmhw-provision: "
_LINE = re.compile(r"^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s+)?(\S+)")
_FIELD = re.compile(r"^(\S+?):(.*)$")
_REPO_URL = re.compile(r"^\s*(?:baseurl|metalink|mirrorlist)\s*=\s*(\S+)", re.M)


class Other(NamedTuple):
    """A file that names one of the addresses; without a text all its entries do, and the whole file goes aside."""

    path: str
    uris: tuple[str, ...]
    text: Optional[str]  # noqa: UP045 - Python 3.9 evaluates the fields of a NamedTuple

    @property
    def action(self) -> str:
        where = f"set {self.path} aside" if self.text is None else f"set entries of {self.path} aside"
        return f"{where}: it names {', '.join(self.uris)}"


def place(uri: str) -> str:
    """The address without what does not matter: scheme, case of the host, last slash."""
    parts = urlsplit(uri)
    return f"{parts.netloc.lower()}{parts.path}".rstrip("/")


def names(uri: str, exact: Iterable[str], below: Iterable[str]) -> bool:
    """Whether `uri` is one of the `exact` addresses, or lies below one of the others."""
    here = place(uri)
    return here in {place(item) for item in exact} or any(
        here == place(item) or here.startswith(place(item) + "/") for item in below
    )


def other(path: str, text: str, exact: Sequence[str], below: Sequence[str]) -> Optional[Other]:  # noqa: UP045
    """The file as it has to become, None where it names none of the addresses."""
    split = {"sources": _deb822, "repo": _repo}.get(path.rpartition(".")[2], _one_line)
    entries = split(text)
    found = [uri for _, uris in entries for uri in uris if names(uri, exact, below)]
    if not found:
        return None
    left = any(uris and not any(names(uri, exact, below) for uri in uris) for _, uris in entries)
    if not left:
        return Other(path, tuple(dict.fromkeys(found)), None)
    off = _OFF[split]
    parts = [off(part) if any(names(uri, exact, below) for uri in uris) else part for part, uris in entries]
    return Other(path, tuple(dict.fromkeys(found)), "".join(parts))


def _one_line(text: str) -> list[tuple[str, list[str]]]:
    """Lines of a .list with the address that each names."""
    found = []
    for line in text.splitlines(keepends=True):
        match = _LINE.match(line)
        found.append((line, [match[1]] if match else []))
    return found


def _deb822(text: str) -> list[tuple[str, list[str]]]:
    """Stanzas of a .sources, each with the empty lines after it, and the addresses of those that are enabled."""
    found = []
    for stanza in re.split(r"(?<=\n)(?=\S)(?<=\n\n)", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            match = _FIELD.match(line)
            if line.startswith("#"):
                continue
            if match:
                name = match[1].lower()
                fields[name] = match[2]
            elif line[:1].isspace() and name:
                fields[name] += f" {line.strip()}"
        on = fields.get("enabled", "yes").strip().lower() not in ("no", "false", "0", "off", "without", "disable")
        found.append((stanza, fields.get("uris", "").split() if on else []))
    return found


def _repo(text: str) -> list[tuple[str, list[str]]]:
    """Sections of a .repo with the addresses of those that are enabled."""
    sections = re.split(r"(?m)^(?=\[)", text)
    return [
        (part, [] if re.search(r"(?m)^\s*enabled\s*=\s*(0|no|false)\s*$", part, re.I) else _REPO_URL.findall(part))
        for part in sections
    ]


def _line_off(line: str) -> str:
    return MARK + line.lstrip()


def _stanza_off(stanza: str) -> str:
    kept = "".join(line for line in stanza.splitlines(keepends=True) if not line.lower().startswith("enabled:"))
    return f"{MARK.rstrip(': ')}\nEnabled: no\n{kept}"


def _section_off(section: str) -> str:
    kept = [line for line in section.splitlines(keepends=True) if not re.match(r"\s*enabled\s*=", line)]
    return "".join([kept[0], f"{MARK.rstrip(': ')}\nenabled=0\n", *kept[1:]])


_OFF: dict[Callable[[str], list[tuple[str, list[str]]]], Callable[[str], str]] = {
    _one_line: _line_off,
    _deb822: _stanza_off,
    _repo: _section_off,
}
