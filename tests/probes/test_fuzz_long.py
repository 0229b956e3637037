"""Ten megabytes of every hostile shape into every parser, and long random walks: bounded time, bounded memory.

Each case runs in a process of its own whose memory and CPU time the kernel limits.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
from collections.abc import Callable

import pytest

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of
from tests.probes.parsers import parsers
from tests.probes.shapes import grown, mangled, one_a_form, seeds
from tests.unit.recordings import recorded

pytestmark = pytest.mark.proof

SIZE = 10 * 1024 * 1024
CPU_S = 30
MEMORY = 1 << 30  # beyond what the parent holds; two million short lines and what is read from them take half of it
WALKS = 60_000
FORMS = one_a_form(seeds())
PARSERS = parsers()
ANSWERS = {key: result.stdout for key, result in recorded("provisioned").results.items() if result.stdout}


def in_a_child(work: Callable[[], None]) -> str:
    """What went wrong with `work` in a process of limited CPU time and memory; empty when nothing did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
            held = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
        try:
            work()
        except BaseException as error:
            os.write(writing, repr(error)[:300].encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 400).decode()
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return said or (f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "")


def answered(parse: Callable[[bytes], object], raw: bytes) -> None:
    """The parser answers or gives the one error, in few words."""
    try:
        parse(raw)
    except ProbeError as error:
        if not str(error).startswith("could not read") or len(str(error)) > 400:
            raise


@pytest.mark.parametrize("name", sorted(FORMS))
def test_grown_outputs(name: str) -> None:
    wrong = {
        shape: said
        for shape, raw in grown(FORMS[name], SIZE)
        if (said := in_a_child(lambda raw=raw: answered(facts_of, raw)))  # type: ignore[misc]
    }
    assert wrong == {}


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_grown_answers(name: str) -> None:
    """Each parser of our own commands, on the answer that it reads best."""
    mine = [raw for raw in ANSWERS.values() if _reads(PARSERS[name], raw)]
    raw = max(mine, key=len) if mine else b"== /scratch\nvalue\n"
    wrong = {
        shape: said
        for shape, grown_raw in grown(raw, SIZE, heads=False)
        if (said := in_a_child(lambda raw=grown_raw: answered(PARSERS[name], raw)))  # type: ignore[misc]
    }
    assert wrong == {}


def _reads(parse: Callable[[bytes], object], raw: bytes) -> bool:
    try:
        parse(raw)
    except ProbeError:
        return False
    return True


@pytest.mark.parametrize("name", sorted(seeds()))
def test_other_line_ends_marks_and_blanks_change_no_fact(name: str) -> None:
    raw = seeds()[name]
    try:
        whole = facts_of(raw)
    except ProbeError:
        return  # a piece of an output, of use only in a longer one
    for dressed in (raw.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + raw, raw.replace(b"\n", b"  \n"), b"\n" + raw):
        with contextlib.suppress(ProbeError):
            assert facts_of(dressed) == whole


@pytest.mark.parametrize("part", range(10))
def test_random_walks(part: int) -> None:
    chance = random.Random(part)
    small = [raw for raw in [*FORMS.values(), *ANSWERS.values()] if len(raw) < 60_000]
    names = sorted(PARSERS)
    for _ in range(WALKS // 10):
        answered(facts_of, mangled(chance.choice(small), chance))
        answered(PARSERS[chance.choice(names)], mangled(chance.choice(small), chance))
