"""Questions that several checks ask about GPUs: which are planned, what nvidia-smi answered, who differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from llmhw_provision.checks.model import Outcome, Status, passed
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Evidence
from llmhw_provision.expected import ExpectedGpus
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import nvidia_csv, nvidia_errors, nvidia_query
from llmhw_provision.probes.reading import output, unreadable

Value = TypeVar("Value")
_MOST = 4
_ERROR = 2048  # bytes: an error stands alone, before any answer
_NOTHING = ((), ("",))


def gpus_of(host: HostPlan) -> ExpectedGpus | None:
    """The planned GPUs."""
    return host.expected.gpus if host.expected else None


def planned(host: HostPlan) -> ExpectedGpus:
    """The planned GPUs; raises NotThere when there are none."""
    gpus = gpus_of(host)
    if gpus is None:
        raise NotThere("no GPU is planned for this host")
    return gpus


def with_gpus(host: HostPlan) -> tuple[str, ...]:
    """One subject where GPUs are planned."""
    return _NOTHING[gpus_of(host) is not None]


def with_driver(host: HostPlan) -> tuple[str, ...]:
    """One subject where GPUs and their driver are planned."""
    gpus = gpus_of(host)
    return _NOTHING[gpus is not None and gpus.driver is not None]


def with_several(host: HostPlan) -> tuple[str, ...]:
    """One subject where several GPUs and their driver are planned."""
    gpus = gpus_of(host)
    return _NOTHING[gpus is not None and gpus.driver is not None and gpus.count > 1]


def with_peers(host: HostPlan) -> tuple[str, ...]:
    """One subject where several GPUs and peer access between them are planned."""
    gpus = gpus_of(host)
    return with_several(host) if gpus is not None and gpus.peer_access and not gpus.mig else ()


def with_nvlink(host: HostPlan) -> tuple[str, ...]:
    """One subject where NVLinks can be asked about; in MIG mode the driver tells nothing of them."""
    gpus = gpus_of(host)
    return _NOTHING[gpus is not None and gpus.driver is not None and gpus.links > 0 and not gpus.mig]


def with_switch(host: HostPlan) -> tuple[str, ...]:
    """One subject where NVSwitches join the GPUs."""
    gpus = gpus_of(host)
    return _NOTHING[gpus is not None and gpus.driver is not None and gpus.nvlink == "switch"]


def error_of(evidence: Evidence, key: str) -> tuple[str, str]:
    """Our name of the error that nvidia-smi gave instead of an answer, and the PCI address it names; else empty."""
    result = evidence.get(key)
    if result is None:
        return "", ""
    if result.missing:
        return "not_installed", ""
    raw = result.stdout[:_ERROR] + b"\n" + result.stderr[:_ERROR] + b"\n"
    if not nvidia_errors.recognise(raw):
        return "", ""
    found = nvidia_errors.parse(raw)
    return str(found["error"]), str(found.get("pci", ""))


def said(evidence: Evidence, key: str) -> bytes:
    """What nvidia-smi answered; raises NotThere when it gave an error of its own, which `gpu-answers` names."""
    error, _ = error_of(evidence, key)
    if error:
        raise NotThere(f"nvidia-smi does not answer: {error}")
    return output(evidence, key)


def rows(evidence: Evidence) -> dict[str, dict[str, str]]:
    """The fields of each GPU as printed, by GPU and index."""
    found = nvidia_csv.parse(said(evidence, nvidia_csv.QUERY.key))
    missing = [name for name in nvidia_csv.WANTED if name not in found.fields]
    if missing:
        raise unreadable("nvidia-smi", ", ".join(found.fields), f"no {', '.join(missing)}")
    return {f"GPU{row['index']}": row for row in found.rows}


def facts(evidence: Evidence) -> dict[str, dict[str, object]]:
    """What `nvidia-smi -q` says of each GPU, by GPU and index: it lists them in that order."""
    found = nvidia_query.by_gpu(said(evidence, nvidia_query.COMMAND.key))
    return {f"GPU{index}": values for index, values in enumerate(found.values())}


def judged(bad: Mapping[str, str], good: str, expected: str, *, variant: str = "", status: Status = "fail") -> Outcome:
    """Passed with `good` when nothing is in `bad`; else each subject with what is wrong with it."""
    return Outcome(status, listed(bad), expected, variant) if bad else passed(good, expected)


def listed(bad: Mapping[str, str]) -> str:
    """`GPU3: …; GPU5: …`, the first few."""
    shown = [f"{name}: {text}" for name, text in list(bad.items())[:_MOST]]
    return "; ".join(shown) + (f"; and {len(bad) - _MOST} more" if len(bad) > _MOST else "")


def outliers(values: Mapping[str, Value]) -> dict[str, Value]:
    """Those that differ from what more than half of all have; empty below three, or where no value has a majority."""
    kinds = list(values.values())
    if len(kinds) < 3:
        return {}
    usual = max(kinds, key=kinds.count)
    if kinds.count(usual) * 2 <= len(kinds):
        return {}
    return {name: value for name, value in values.items() if value != usual}
