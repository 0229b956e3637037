"""Commands on this machine."""

import subprocess


class LabError(Exception):
    """Something on this machine kept the containers from working."""


def call(*argv: str, given: str | None = None, timeout: float = 60) -> str:
    """The command's stdout; LabError with its stderr when it fails."""
    done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def attempt(*argv: str, timeout: float = 10) -> bool:
    """Whether the command succeeded; for cleaning up, where what is gone already is no error."""
    try:
        done = subprocess.run(argv, capture_output=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
