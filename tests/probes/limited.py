"""Work in a process of its own whose memory and CPU time the kernel limits."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable

from llmhw_provision.probes.reading import ProbeError

SIZE = 10 * 1024 * 1024
CPU_S = 30
MEMORY = 1 << 30  # beyond what the parent holds; two million short lines and what is read from them take half of it


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
