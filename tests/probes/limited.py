"""Work in a process of its own whose memory and CPU time the kernel limits."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable

from llmhw_provision.probes.reading import ProbeError
from tests.probes.shapes import grown

FULL = 10 * 1024 * 1024
SMALL = 1024 * 1024
SLOWEST = 3  # shapes that are grown to the full size: what takes more than linear time is among them
CPU_S = 30
MEMORY = 1 << 30  # beyond what the parent holds; two million short lines and what is read from them take half of it


def wrong_when_grown(parse: Callable[[bytes], object], seed: bytes, *, heads: bool = True) -> dict[str, str]:
    """What `parse` does wrong, by shape of `seed`: each shape of one megabyte, the slowest of them of ten."""
    took: dict[str, float] = {}
    wrong: dict[str, str] = {}
    for size in (SMALL, FULL):
        slow = sorted(took, key=lambda shape: -took[shape])[:SLOWEST]
        for shape, raw in grown(seed, size, heads=heads):
            if size == SMALL or shape in slow:
                said, took[shape] = in_a_child(lambda raw=raw: answered(parse, raw))  # type: ignore[misc]
                wrong |= {f"{shape}, {size} bytes": said} if said else {}
    return wrong


def in_a_child(work: Callable[[], None]) -> tuple[str, float]:
    """What went wrong with `work` in a process of limited CPU time and memory, empty when nothing did; its seconds."""
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
    _, status, used = os.wait4(child, 0)
    killed = f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else ""
    return said or killed, used.ru_utime + used.ru_stime


def answered(parse: Callable[[bytes], object], raw: bytes) -> None:
    """The parser answers or gives the one error, in few words."""
    try:
        parse(raw)
    except ProbeError as error:
        if not str(error).startswith("could not read") or len(str(error)) > 400:
            raise
