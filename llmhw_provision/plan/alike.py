"""Hosts of one kind are thought about once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from llmhw_provision.errors import Problem, ProvisionError

Answer = TypeVar("Answer")


class Alike(Generic[Answer]):
    """Answers by kind of host: worked out for the first host of a kind, told to the others under their own names."""

    def __init__(self, renamed: Callable[[Answer, str], Answer]) -> None:
        """`renamed` gives an answer for another host."""
        self._renamed = renamed
        self._known: dict[Hashable, tuple[str, Answer | ProvisionError]] = {}

    def ask(self, kind: Hashable, host: str, work: Callable[[], Answer]) -> Answer:
        """The answer for `host`; raises what `work` raised for the first host of its kind."""
        if kind not in self._known:
            try:
                self._known[kind] = (host, work())
            except ProvisionError as error:
                self._known[kind] = (host, error)
        first, known = self._known[kind]
        if isinstance(known, ProvisionError):
            raise known if host == first else _of(known, first, host)
        return known if host == first else self._renamed(known, host)


def _of(error: ProvisionError, first: str, host: str) -> ProvisionError:
    prefix = f"{first}: "
    return type(error).of(
        [
            Problem(f"{host}: {problem.message.removeprefix(prefix)}", problem.hint)
            if problem.message.startswith(prefix)
            else problem
            for problem in error.problems
        ]
    )
