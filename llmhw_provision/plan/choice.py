"""The machine of hosts that site.yaml names none for and nobody has read: chosen from the catalogue, with why."""

from __future__ import annotations

from llmhw_provision.errors import DoesNotFit, ProvisionError
from llmhw_provision.machine import Machine
from llmhw_provision.plan.gpu_memory import shrink_hint
from llmhw_provision.plan.model import Note
from llmhw_provision.site import Site
from llmhw_provision.sizing.choice import RULE, Chosen, choose, on, sold
from llmhw_provision.sizing.estimate import Estimate
from llmhw_provision.sizing.need import Need

_SOURCE = "catalogue/machines.yml, catalogue/tiers.yml; estimate of llmhw-provision size"
_COUNTS = (1, 2, 4, 8, 16, 32, 64)  # of machines


def with_machines(need: Need, site: Site, observed: dict[str, Machine]) -> tuple[Site, tuple[Note, ...]]:
    """`site` with the chosen machine on each host, and why; as it was where any host is known already.

    Raises DoesNotFit where no machine of the catalogue holds the workload on as many hosts as the site has.
    """
    if any(host.machine is not None or host.name in observed for host in site.hosts):
        return site, ()
    count = len(site.hosts)
    found = choose(need, sold(), (count,))
    if found.best is None:
        raise _nowhere(need, count, found)
    name = found.best.candidate.name
    hosts = tuple(host.model_copy(update={"machine": name}) for host in site.hosts)
    note = Note(
        rule=RULE,
        choice=f"{found.best.words}; site.yaml names no machine and none is observed",
        inputs=(
            *(f"next: {option.words}" for option in found.others),
            *(f"refused: {option.words}" for option in found.refused),
        ),
        source=_SOURCE,
    )
    return site.model_copy(update={"hosts": hosts}), (note,)


def _offloaded(need: Need, count: int, found: Chosen) -> list[str]:
    """The cheapest machine that holds the workload with states in host memory, which is not chosen unasked."""
    if need.workload.layout.offload is not None or need.workload.placement is not None:
        return []
    for option in sorted(found.refused, key=lambda item: (item.gpus, item.watts)):
        tried = on(need, option.candidate, count)
        if isinstance(tried.found, Estimate) and tried.verdict != "does not fit":
            what = "all" if tried.found.layout.offload_params else "optimizer"
            return [f"fits with layout.offload {what} on {tried.cost}"]
    return []


def _nowhere(need: Need, count: int, found: Chosen) -> ProvisionError:
    """What the nearest machine lacks, what would have to shrink on it, and how many machines would do."""
    nearest = found.refused[-1]
    hints = _offloaded(need, count, found)
    if need.workload.placement is None and count == 1:
        hints.append(shrink_hint(need, nearest.candidate.hardware))
    more = choose(need, sold(), tuple(number for number in _COUNTS if number > count))
    hints += [f"as it is on {more.best.cost}"] if more.best is not None else []
    return DoesNotFit(
        f"no machine is named, and {need.model.title} fits none of the catalogue: {nearest.words}",
        "; ".join(hints) or "see llmhw-provision compare",
    )
