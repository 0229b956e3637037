"""Every output form the probes can read, and the one that a raw output belongs to.

Order decides: the first form that recognises an output reads it. So within a module the special forms stand before
the general ones, and the forms of free text (logs, error lines) stand after those with a heading of their own.
"""

from __future__ import annotations

from llmhw_provision.probes import (
    dcgm,
    dcgm_diag,
    fabric_manager,
    gpu_burn,
    gpu_copy,
    lspci,
    nccl_json,
    nccl_tests,
    nvbandwidth,
    nvidia_csv,
    nvidia_dmon,
    nvidia_errors,
    nvidia_list,
    nvidia_nvlink,
    nvidia_query,
    nvidia_topo,
    p2p_bandwidth,
)
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import ProbeError

_GPU: tuple[tuple[Format, ...], ...] = (
    nvidia_errors.FORMATS,
    gpu_burn.FORMATS,
    nccl_json.FORMATS,
    nccl_tests.FORMATS,
    nvbandwidth.FORMATS,
    p2p_bandwidth.FORMATS,
    gpu_copy.FORMATS,
    dcgm_diag.FORMATS,
    dcgm.FORMATS,
    nvidia_topo.FORMATS,
    nvidia_nvlink.FORMATS,
    nvidia_query.FORMATS,
    nvidia_csv.FORMATS,
    nvidia_dmon.FORMATS,
    nvidia_list.FORMATS,
    lspci.FORMATS,
    fabric_manager.FORMATS,
)
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
