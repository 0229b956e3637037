"""Memory, cores and GPUs by use: the parts are the host, tmpfs is not Slurm's, servers and jobs do not share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.documents import check
from llmhw_provision.errors import DoesNotFit
from llmhw_provision.machine import Machine
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.model import HostPlan, Plan, Reservation
from llmhw_provision.plan.reservations import RULE
from llmhw_provision.site import Site
from llmhw_provision.units import GIB, MIB
from tests.unit.machines import drives, machine, need, site

MIXED = {"serving": {"concurrency": 8, "context": 4096}, "placement": "serve=2"}


def told(**changes: Any) -> Site:
    data = site().model_dump(mode="json", by_alias=True, exclude_unset=True)
    return check({**data, **changes}, Site, path=Path("site.yaml"))


def plan(of: Site | None = None, found: Machine | None = None, **changes: Any) -> Plan:
    return build_plan(need(**changes), of or site(), {"ga660m-01": found or machine(*drives())})


def uses(host: HostPlan) -> dict[str, Reservation]:
    return {item.use: item for item in host.reservations}


def note(found: Plan) -> str:
    return next(item.choice for item in found.notes if item.rule == RULE)


@pytest.mark.parametrize("changes", [{}, {"dataset": None}, MIXED])
def test_the_parts_are_the_host(changes: dict[str, Any]) -> None:
    (host,) = plan(**changes).hosts
    parts = host.reservations
    left = host.memory_bytes - sum(item.memory_bytes for item in parts)
    assert 0 <= left < MIB
    assert sum(item.cores for item in parts) == 64
    assert sorted(index for item in parts for index in item.gpus) == [0, 1, 2, 3]


def test_tmpfs_is_subtracted_from_what_slurm_may_give() -> None:
    with_hot, without = plan(told(software={"slurm": True})), plan(told(software={"slurm": True}), dataset=None)
    tmpfs = uses(with_hot.hosts[0])["tmpfs"].memory_bytes
    assert tmpfs == with_hot.hosts[0].roles.tmpfs.mounts[0].size_mib * MIB  # type: ignore[union-attr]
    jobs, more = uses(with_hot.hosts[0])["jobs"], uses(without.hosts[0])["jobs"]
    assert more.memory_bytes - jobs.memory_bytes == tmpfs
    assert f"RealMemory of Slurm {jobs.memory_bytes // MIB} MiB" in note(with_hot)
    assert jobs.memory_bytes % MIB == 0


@pytest.mark.parametrize("kept", [None, "20 GiB"])
@pytest.mark.parametrize("changes", [{}, {"dataset": None}, MIXED])
def test_slurm_declares_what_the_reservations_leave_to_jobs(changes: dict[str, Any], kept: str | None) -> None:
    more = {"scheduler": {"reserve_memory": kept}} if kept else {}
    found = plan(told(software={"slurm": True}, **more), **changes)
    (host,) = found.hosts
    jobs = host.reservations[-1]
    assert host.node is not None
    assert host.node.slurm is not None
    assert found.cluster is not None
    node, files = host.node.slurm, found.cluster.files
    assert (jobs.use, node.real_memory_mib) == ("jobs", jobs.memory_bytes // MIB)
    assert tuple(place.index for place in node.gpus) == jobs.gpus
    assert node.kept_cores == 64 - jobs.cores
    assert f" CoreSpecCount={64 - jobs.cores} RealMemory={jobs.memory_bytes // MIB} " in files["slurm.conf"]
    assert f"Gres=gpu:h100:{len(jobs.gpus)} " in files["slurm.conf"]
    assert ("File=/dev/nvidia[0-1]\n" in files["gres.conf"]) == ("placement" in changes)
    assert uses(host)["system"].memory_bytes == (20 * GIB if kept else 512 * GIB * 2 // 100)


def test_servers_and_jobs_have_their_own_gpus_cores_and_memory() -> None:
    found = plan(**MIXED)
    parts = uses(found.hosts[0])
    assert parts["serving"].gpus == (2, 3)
    assert parts["jobs"].gpus == (0, 1)
    assert parts["serving"].cores in (4, 6)  # two for each server, one for each GPU
    assert parts["serving"].memory_bytes > 15 * GIB  # the weights stay in the page cache
    assert parts["jobs"].memory_bytes < uses(plan().hosts[0])["jobs"].memory_bytes
    assert "serving" in note(found)
    assert "cores, GPU 2-3; jobs" in note(found)


def test_memory_that_nobody_has_seen_yet_is_less_than_what_was_sold() -> None:
    bought = site().model_copy(update={"hosts": (site().hosts[0].model_copy(update={"machine": "ga660m"}),)})
    seen, sold = uses(plan().hosts[0])["jobs"], uses(build_plan(need(), bought, {}).hosts[0])["jobs"]
    assert 7 * GIB < seen.memory_bytes - sold.memory_bytes < 8 * GIB  # 512 GiB / 64


def test_a_server_alone_is_the_only_use_unless_slurm_starts_it() -> None:
    serve = {"job": "serve", "method": "full", "serving": {"concurrency": 8, "context": 4096}}
    assert set(uses(plan(**serve).hosts[0])) == {"system", "tmpfs", "serving"}
    assert set(uses(plan(told(software={"slurm": True}), **serve).hosts[0])) == {"system", "tmpfs", "jobs"}


def test_a_small_machine_keeps_half_for_work() -> None:
    small = machine(*drives(), memory=3 * GIB).model_copy(update={"gpus": (), "virtualization": "kvm"})
    parts = uses(plan(found=small, dataset=None).hosts[0])
    assert parts["jobs"].memory_bytes == 3 * GIB // 2


def test_a_hot_set_that_leaves_nothing_is_refused_with_the_parts() -> None:
    of = site(tmpfs={"size": "30 GiB", "beyond_tenth": True})
    with pytest.raises(DoesNotFit, match=r"system 4\.0 GiB and 1 core, tmpfs 30\.0 GiB leave no memory for jobs"):
        plan(of, machine(*drives(), memory=32 * GIB).model_copy(update={"gpus": ()}), method="qlora")


def test_a_change_of_the_parts_is_named_by_use() -> None:
    lines = differences(plan(), plan(**MIXED))
    assert "  reservations" in lines
    assert any(line.startswith("    serving is new: ") for line in lines)
