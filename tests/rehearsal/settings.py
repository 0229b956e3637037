"""Where the rehearsal keeps things, and what is particular to this machine (``.env``)."""

import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
STATE = REPO / ".rehearsal"


def load_env_file(path: Path = REPO / ".env") -> None:
    """Take ``NAME=value`` lines into the environment; what is set already wins."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith("#"):
            os.environ.setdefault(name.strip().removeprefix("export "), value.strip().strip("'\""))


def cache_dir() -> Path:
    """The folder that outlives a checkout: built boxes, downloaded packages, Vagrant's own home."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "llmhw-provision" / "rehearsal"
