"""How apt names what it has read from a package source, below /var/lib/apt/lists."""

from __future__ import annotations

from collections.abc import Iterable


def list_name(address: str) -> str:
    """The name of the list of `address` (without its scheme)."""
    return "".join(f"%{ord(c):02x}" if c in '\\|{}[]<>"^~_=!@#$%&*' else c for c in address).replace("/", "_")


def list_names(uri: str, suites: Iterable[str]) -> list[str]:
    """What the names of the lists of each suite begin with; a suite that ends in / stands for a flat archive."""
    base = uri.partition("://")[2].strip("/")
    folders = [suite.strip("/") if suite.endswith("/") else f"dists/{suite}" for suite in suites]
    return [list_name("/".join(part for part in (base, folder, "") if part)) for folder in folders]
