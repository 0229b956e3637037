"""Measures the GPUs of the hosts, side by side: starts the program on each, and asks until it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from llmhw_provision.checks.throughput_request import python_of, request, with_bench
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import Plan
from llmhw_provision.probes import throughput as probe
from llmhw_provision.probes.reading import ProbeError

Ask = Callable[[Mapping[str, Sequence[Command]]], Mapping[str, Evidence]]
Say = Callable[[str], None]
_PAUSE_S = 10
_SILENT = 6  # questions in a row that a host may leave without an answer


def measure(plan: Plan, ask: Ask, say: Say, *, pause: Callable[[float], None] = time.sleep) -> frozenset[str]:
    """The hosts on which the measurement was run to its end; their results lie on them.

    What cannot be started or no longer answers is said and left. An interruption ends what runs.
    """
    starts = {
        host.name: (probe.start_command(python_of(host), request(host)),) for host in plan.hosts if with_bench(host)
    }
    if not starts:
        return frozenset()
    say(f"measuring the GPUs of {', '.join(starts)}: takes minutes, and needs them alone")
    running = set(starts)
    try:
        for name, evidence in ask(starts).items():
            why = _refused(evidence)
            if why:
                say(f"warning: {_of(name, why)}: nothing is measured")
                running.discard(name)
        done = _wait(running, ask, say, pause)
    except BaseException:
        if running:
            ask(dict.fromkeys(sorted(running), (probe.END,)))
        raise
    return frozenset(done)


def without_old(found: Mapping[str, Evidence], done: frozenset[str]) -> dict[str, Evidence]:
    """The evidence of a reading, less the results of earlier measurements on hosts where none was run just now."""
    return {
        name: replace(evidence, results={key: said for key, said in evidence.results.items() if key != probe.KEY})
        if name not in done
        else evidence
        for name, evidence in found.items()
    }


def _wait(running: set[str], ask: Ask, say: Say, pause: Callable[[float], None]) -> set[str]:
    """The hosts that came to an end; `running` is empty then."""
    steps: dict[str, str] = {}
    done: set[str] = set()
    silent = dict.fromkeys(running, 0)
    while running:
        pause(_PAUSE_S)
        for name, evidence in ask(dict.fromkeys(sorted(running), (probe.ASK_STATE,))).items():
            try:
                active, step = probe.state(evidence)
            except ProbeError as error:
                silent[name] += 1
                if silent[name] >= _SILENT:
                    say(f"warning: {_of(name, error.problems[0].message)}: no longer waited for")
                    running.discard(name)
                continue
            silent[name] = 0
            if step and step != steps.get(name):
                steps[name] = step
                say(f"  {name}  measuring: {step}")
            if not active:
                running.discard(name)
                done.add(name)
    return done


def _of(name: str, why: str) -> str:
    """`why` with the host's name before it, where it does not say it itself."""
    return why if why.startswith(name) else f"{name}: {why}"


def _refused(evidence: Evidence) -> str:
    """Why the program was not started; empty when it was."""
    result = evidence.get(probe.START)
    return result.why() if result else evidence.problem or "no answer"
