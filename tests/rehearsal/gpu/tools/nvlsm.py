"""Stand-in of the rehearsal machine for nvlsm, the subnet manager of NVLink 5 switches: goes into the background."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

VERSION = "@VERSION@"


def main(words: list[str]) -> int:
    """0 once it is in the background."""
    if "--version" in words:
        print(f"NVLSM {VERSION}")
        return 0
    pid = next((Path(words[place + 1]) for place, word in enumerate(words[:-1]) if word == "--pid_file"), None)
    child = os.fork()
    if child:
        if pid:
            pid.parent.mkdir(parents=True, exist_ok=True)
            pid.write_text(f"{child}\n")
        return 0
    os.setsid()
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
