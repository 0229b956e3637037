"""Every output form the probes can read, and the one that a raw output belongs to.

Order decides: the first form that recognises an output reads it. So within a module the special forms stand before
the general ones, and the forms of free text (logs, error lines) stand after those with a heading of their own.
"""

from __future__ import annotations

from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import ProbeError

_GPU: tuple[tuple[Format, ...], ...] = ()
_HOST: tuple[tuple[Format, ...], ...] = ()
_FREE_TEXT: tuple[tuple[Format, ...], ...] = ()

FORMATS: tuple[Format, ...] = tuple(form for group in (*_GPU, *_HOST, *_FREE_TEXT) for form in group)


def form_of(raw: bytes) -> Format | None:
    """The form that `raw` has; None when no probe knows it."""
    return next((form for form in FORMATS if form.recognise(raw)), None)


def facts_of(raw: bytes) -> dict[str, object]:
    """The facts in `raw`; raises ProbeError when no probe knows the form or the output cannot be read whole."""
    form = form_of(raw)
    if form is None:
        first = raw.decode("utf-8", "replace").strip().splitlines()
        raise ProbeError(f"could not read output of an unknown tool: {first[0][:120] if first else '(nothing)'}")
    return form.facts(raw)
