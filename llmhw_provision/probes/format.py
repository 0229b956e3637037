"""One output form of one tool: how it is told apart from any other text, and the facts it holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from llmhw_provision.probes.reading import lines, unreadable

HEAD = 65536
_COLOUR = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Format:
    """An output form. `facts` raises ProbeError for what it recognises and cannot read whole; both see bytes only."""

    name: str
    recognise: Callable[[bytes], bool]
    facts: Callable[[bytes], dict[str, object]]

    def read(self, raw: bytes) -> dict[str, object]:
        """The facts in `raw`; raises ProbeError also when it is not of this form."""
        if not self.recognise(raw):
            first = raw.decode("utf-8", "replace").strip().partition("\n")[0]
            raise unreadable(self.name, first, "not output of this tool")
        return self.facts(raw)


def holds(pattern: bytes) -> Callable[[bytes], bool]:
    """Tells whether `pattern` (line anchors on) occurs in the first 64 KiB of an output, without colours and CRs."""
    compiled = re.compile(pattern, re.MULTILINE)

    def recognise(raw: bytes) -> bool:
        head = raw[:HEAD]
        if b"\x1b" in head:
            head = _COLOUR.sub(b"", head)
        return compiled.search(head.replace(b"\r\n", b"\n")) is not None

    return recognise


def message(tool: str, facts: dict[str, object]) -> Callable[[bytes], dict[str, object]]:
    """Facts of an output that is one known message; raises ProbeError when it is cut off."""

    def read(raw: bytes) -> dict[str, object]:
        lines(tool, raw)
        return dict(facts)

    return read
