"""Stand-in of the rehearsal machine for nvlsm, the subnet manager of NVLink 5 switches: goes into the background."""

from __future__ import annotations

from pathlib import Path

from .background import background

VERSION = "@VERSION@"


def main(words: list[str]) -> int:
    """0 once it is in the background."""
    if "--version" in words:
        print(f"NVLSM {VERSION}")
        return 0
    pid = next((Path(words[place + 1]) for place, word in enumerate(words[:-1]) if word == "--pid_file"), None)
    return background(pid, lambda: None)
