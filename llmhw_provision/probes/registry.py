"""Every output form the probes can read, and the one that a raw output belongs to.

Order decides: the first form that recognises an output reads it. So within a module the special forms stand before
the general ones, and the forms of free text (logs, error lines) stand after those with a heading of their own.
"""

from __future__ import annotations

import codecs
import re

from llmhw_provision.probes import (
    chrony,
    dcgm,
    dcgm_diag,
    dmesg,
    dmidecode,
    ds_report,
    fabric_manager,
    fio,
    gpu_burn,
    gpu_copy,
    ib_fabric,
    ib_sysfs,
    ibstat,
    ibv_devinfo,
    ipmi,
    llamafactory_env,
    lsblk,
    lsblk_text,
    lscpu,
    lspci,
    mdadm_detail,
    mlxlink,
    munge,
    nccl_json,
    nccl_tests,
    numactl,
    nvbandwidth,
    nvidia_csv,
    nvidia_dmon,
    nvidia_errors,
    nvidia_list,
    nvidia_nvlink,
    nvidia_query,
    nvidia_topo,
    nvidia_xml,
    nvme,
    p2p_bandwidth,
    package_tools,
    perftest,
    slurm,
    slurm_node,
    smartctl,
    unit_state,
    vllm_bench,
    vllm_log,
    vllm_metrics,
)
from llmhw_provision.probes.format import HEAD, Format
from llmhw_provision.probes.reading import ProbeError, harmless

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
    nvidia_xml.FORMATS,
    nvidia_query.FORMATS,
    nvidia_csv.FORMATS,
    nvidia_dmon.FORMATS,
    nvidia_list.FORMATS,
    lspci.FORMATS,
    fabric_manager.FORMATS,
)
_FABRIC = (ibstat.FORMATS, ib_sysfs.FORMATS, ibv_devinfo.FORMATS, perftest.FORMATS, mlxlink.FORMATS, ib_fabric.FORMATS)
_STORAGE = (mdadm_detail.FORMATS, nvme.FORMATS, smartctl.FORMATS, lsblk.FORMATS, lsblk_text.FORMATS, fio.FORMATS)
_MACHINE = (lscpu.FORMATS, numactl.FORMATS, dmidecode.FORMATS, ipmi.FORMATS, chrony.FORMATS)
_SOFTWARE = (slurm_node.FORMATS, munge.FORMATS, ds_report.FORMATS, llamafactory_env.FORMATS)
_SERVING = (vllm_bench.FORMATS, vllm_metrics.FORMATS, vllm_log.FORMATS)
_FREE_TEXT = (slurm.FORMATS, package_tools.FORMATS, unit_state.FORMATS, dmesg.FORMATS, (ibstat.NOTHING,))
_GROUPS = (*_GPU, *_FABRIC, *_STORAGE, *_MACHINE, *_SOFTWARE, *_SERVING, *_FREE_TEXT)

FORMATS: tuple[Format, ...] = tuple(form for group in _GROUPS for form in group)

# No tool prints so many blanks or empty lines in a row; patterns that skip blanks would take long over them.
_BLANK = re.compile(rb"\s{1000}")


def form_of(raw: bytes) -> Format | None:
    """The form that `raw` has; None when no probe knows it."""
    raw = raw.removeprefix(codecs.BOM_UTF8)
    if _BLANK.search(raw[:HEAD]):
        return None
    return next((form for form in FORMATS if form.recognise(raw)), None)


def facts_of(raw: bytes) -> dict[str, object]:
    """The facts in `raw`; raises ProbeError when no probe knows the form or the output cannot be read whole."""
    raw = raw.removeprefix(codecs.BOM_UTF8)  # editors leave it
    form = form_of(raw)
    if form is None:
        first = raw[:4096].decode("utf-8", "replace").strip().splitlines()
        said = harmless(first[0]) if first else ""
        raise ProbeError(f"could not read output of an unknown tool: {said or '(nothing)'}")
    return form.facts(raw)
