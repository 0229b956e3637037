"""Processes that measure: started side by side, watched, and ended together when one dies or says nothing any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LOOK = 0.05  # seconds between two looks
_GRACE = 1.0  # seconds in which the others may tell why they end too


@dataclass
class Child:
    """One process, and what it has said so far."""

    name: str
    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    begun: float = field(default_factory=time.monotonic)

    def said(self) -> list[dict[str, Any]]:
        """Whole lines only: one that is being written is left for later."""
        whole = self.out.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.split(b"\n") if line] if whole else []

    def heard(self) -> float:
        """When it last said something, by the monotonic clock."""
        return max(self.begun, time.monotonic() - (time.time() - self.out.stat().st_mtime))

    def why(self) -> str:
        """How it ended, and in what."""
        code = self.process.returncode
        at = next((line["at"] for line in reversed(self.said()) if "at" in line), "the start")
        if code is None:
            return f"{self.name} hangs in {at}"
        if code < 0:
            return f"{self.name} was killed by {_signal(-code)} in {at}"
        last = [line for line in self.err.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return f"{self.name} failed in {at}: {last[-1].strip()[:300] if last else f'status {code}'}"


def together(
    requests: dict[str, dict[str, Any]], folder: Path, *, env: dict[str, str], quiet: float, until: float
) -> tuple[list[list[dict[str, Any]]], str]:
    """What each child said, in the order of `requests`, and why they were ended early (empty when they were not).

    They are ended when one dies, when one says nothing for `quiet` seconds, and at `until` of the monotonic clock.
    """
    children = [_start(name, request, folder, env) for name, request in requests.items()]
    try:
        why = _watch(children, quiet, until)
    finally:
        for child in children:
            if child.process.poll() is None:
                child.process.kill()
            child.process.wait()
    return [child.said() for child in children], why


def _start(name: str, request: dict[str, Any], folder: Path, env: dict[str, str]) -> Child:
    out, err = folder / f"{name}.out".replace(" ", "-"), folder / f"{name}.err".replace(" ", "-")
    out.write_bytes(b"")
    words = [sys.executable, "-I", "-B", sys.argv[0], "--stage", json.dumps(request), str(out)]
    with err.open("wb") as stream:
        started = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env={**os.environ, **env}
        )
    return Child(name, started, out, err)


def _watch(children: list[Child], quiet: float, until: float) -> str:
    while True:
        codes = [child.process.poll() for child in children]
        if any(codes):
            time.sleep(_GRACE)
            return _first(children).why()
        if all(code == 0 for code in codes):
            return ""
        now = time.monotonic()
        silent = [child for child in children if child.process.poll() is None and now - child.heard() > quiet]
        if silent:
            more = f", nor from {len(silent) - 1} more" if len(silent) > 1 else ""
            return f"{silent[0].why()}: nothing heard for {quiet:.0f} s{more}"
        if now > until:
            running = next(child for child in children if child.process.returncode is None)
            return f"{running.why()}: the time for all measurements is over"
        time.sleep(_LOOK)


def _first(children: list[Child]) -> Child:
    """The child that ended the others: one that was killed before those that lost a peer by it."""
    bad = [child for child in children if child.process.poll()]
    return min(bad, key=lambda child: child.process.returncode)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
