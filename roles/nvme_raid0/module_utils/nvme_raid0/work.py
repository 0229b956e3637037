"""Carries out the steps: before each one the machine is read and decided upon again."""

from __future__ import annotations

import os
import tempfile
from typing import Callable, NamedTuple

from .decide import Decision
from .read import Run
from .steps import Step


class Failure(Exception):
    """A step did not work; the text says which and why."""


class Outcome(NamedTuple):
    """The sentences of the steps that were carried out, and the last decision (refusals, or no steps left)."""

    actions: tuple[str, ...]
    decision: Decision


def carry_out(look: Callable[[], Decision], run: Run, tell: Callable[[str], None]) -> Outcome:
    """Steps from fresh readings until nothing is left to do, or until a reading says that we must not go on.

    `look` reads everything again, exclusive opens included; `tell` hears of each step before it is taken. Only the
    first step of a decision is carried out, so no command ever rests on an older look at the disks than the one just
    before it.
    """
    done: list[str] = []
    while True:
        decision = look()
        if decision.refusals or not decision.steps:
            return Outcome(tuple(done), decision)
        step = decision.steps[0]
        if step.sentence in done:
            raise Failure(f"{step.sentence}: done, yet it has no effect")
        tell(step.sentence)
        _carry_out(step, run)
        done.append(step.sentence)


def _carry_out(step: Step, run: Run) -> None:
    for path, text in step.before:
        _put(path, text)
    for command in step.commands:
        rc, out, err = run(list(command))
        if rc != 0:
            raise Failure("%s: %s failed (exit status %d): %s" % (step.sentence, command[0], rc, (err or out).strip()))
    for path, text in step.files:
        _put(path, text)
    run(["udevadm", "settle", "--timeout=60"])


def _put(path: str, text: str | None) -> None:
    if text is not None:
        _write(path, text)
    elif os.path.exists(path):
        os.unlink(path)
        _sync_folder(path)


def _write(path: str, text: str) -> None:
    if path.startswith("/sys/"):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)  # mdadm may be unpacked, not yet configured
    mode = os.stat(path).st_mode & 0o7777 if os.path.exists(path) else 0o644
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix="." + os.path.basename(path) + ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.rename(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _sync_folder(path)


def _sync_folder(path: str) -> None:
    """A power cut must not bring back what a step has replaced or removed."""
    handle = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
