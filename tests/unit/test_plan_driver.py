"""Role nvidia_driver in the plan: what the stack has decided, for each distribution and board."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.documents import check
from llmhw_provision.machine import Gpus
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.nvidia_driver import plan_driver
from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from llmhw_provision.site import Site
from tests.unit.machines import drives, machine, need, site
from tests.unit.stacks import stack

MACHINE = machine(*drives()).model_copy(update={"gpus": (Gpus(kind="h100-sxm", count=8),)})


def planned(gpu: str = "h100-sxm", distro: str = "debian12", **changes: Any) -> NvidiaDriverConfig:
    found = plan_driver("node-01", MACHINE, stack(gpu, distro, **changes), site()).config
    assert found is not None
    return found


def names(config: NvidiaDriverConfig) -> list[str]:
    return [f"{item.name}={item.version}" if item.version else item.name for item in config.packages]


def test_driver_and_fabric_manager_have_one_version() -> None:
    config = planned()
    assert names(config) == [
        "nvidia-open=580.159.03",
        "nvidia-fabricmanager=580.159.03",
        "libnvidia-nscq=580.159.03",
        "nvidia-driver-pinning-580.159.03",
    ]
    assert (config.board, config.gpus, config.modules_load) == ("nvswitch", 8, ())
    assert (config.needs, config.dkms, config.headers_prefix) == (
        ("dkms", "gcc", "g++", "make", "pciutils"),
        True,
        "linux-headers-",
    )


def test_nvlink_5_boards_get_nvlsm_and_its_modules() -> None:
    config = planned("b200-sxm")
    assert {"nvlsm", "infiniband-diags", "libnvsdm=580.159.03"} <= set(names(config))
    assert (config.board, config.modules_load) == ("nvlink5", ("mlx5_core", "mlx5_ib", "ib_umad"))


def test_no_fabric_manager_without_nvswitch() -> None:
    config = planned("h100-pcie")
    assert config.board == "none"
    assert not [name for name in names(config) if "fabric" in name or "nscq" in name]


def test_el_has_a_stream_and_other_headers() -> None:
    config = planned(distro="el9")
    assert (config.stream, config.headers_prefix) == ("nvidia-driver:580-open", "kernel-devel-")
    assert config.needs == ("dkms>=3.1.8", "gcc-c++", "make", "pciutils")
    assert not [name for name in names(config) if "pinning" in name]


def test_prebuilt_modules_need_no_dkms() -> None:
    config = planned("h100-pcie", "ubuntu2404", software={"sources": {"driver": "distribution"}})
    assert (config.dkms, config.needs) == (False, ("pciutils",))
    assert "nvidia-headless-580-server-open=580.173.02" in names(config)


@pytest.mark.parametrize(("software", "there"), [({}, True), ({"install": False}, False), ({"install": True}, True)])
def test_the_site_decides_whether_it_is_planned(software: dict[str, Any], there: bool) -> None:
    data = {"schema": 1, "site": "customer-a", "hosts": [{"name": "ga660m-01", "address": "192.0.2.11"}]}
    where = check({**data, "software": software}, Site, path=Path("site.yaml"))
    plan = build_plan(need(), where, {host.name: machine(*drives()) for host in where.hosts})
    (host,) = plan.hosts
    assert (host.roles.nvidia_driver is not None) is there
    assert (any("driver 580" in text for text in host.creates), host.reboots) == (there, 1)
