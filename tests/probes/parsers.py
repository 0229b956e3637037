"""Every parser there is: found by signature, so that a new one is held to the same rules without being listed."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator

import llmhw_provision.probes
from llmhw_provision.evidence import Evidence, Result

_SHARED = {"reading", "screen", "format", "registry", "score", "kinds"}
_NAMES = {"str": "/scratch", "tuple[str, ...]": ("/scratch",)}


class _Same(dict[str, Result]):
    """The same answer to every command."""

    def __init__(self, answer: Result) -> None:
        super().__init__()
        self.answer = answer

    def get(self, *_: object) -> Result:  # type: ignore[override]
        return self.answer

    def __missing__(self, _: str) -> Result:
        return self.answer

    def __contains__(self, _: object) -> bool:
        return True


def parsers() -> dict[str, Callable[[bytes], object]]:
    """Functions of output bytes, and of evidence in which every answer is these bytes, by module and name."""
    found: dict[str, Callable[[bytes], object]] = {}
    for module in pkgutil.iter_modules(llmhw_provision.probes.__path__):
        if module.name in _SHARED:
            continue
        loaded = importlib.import_module(f"llmhw_provision.probes.{module.name}")
        for name, function in inspect.getmembers(loaded, inspect.isfunction):
            if function.__module__ == loaded.__name__ and not name.startswith("_"):
                found |= {f"{module.name}.{name}": call for call in _calls(function)}
    return found


def _calls(function: Callable[..., object]) -> Iterator[Callable[[bytes], object]]:
    kinds = [str(parameter.annotation) for parameter in inspect.signature(function).parameters.values()]
    if not kinds or kinds[0] not in ("bytes", "Evidence"):
        return
    rest = [_NAMES.get(kind) for kind in kinds[1:]]
    if kinds == ["bytes", "bytes"]:
        yield lambda raw: function(raw, raw)
    elif None not in rest:
        wrap = (
            (lambda raw: raw)
            if kinds[0] == "bytes"
            else (lambda raw: Evidence("host", "machine", _Same(Result(0, raw, b"", 0.1)), "2026-11-30T10:00:00Z"))
        )
        yield lambda raw: function(wrap(raw), *rest)
