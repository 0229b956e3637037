"""What verify is told to expect: seen on the machine, described by the catalogue, added by site.yaml."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmhw_provision.checks import table
from llmhw_provision.documents import check, dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.expected import HostExpect
from llmhw_provision.machine import Gpus, Machine, PciDevice
from llmhw_provision.plan.hardware import expected_of
from llmhw_provision.plan.purchase import catalogue_machine
from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from llmhw_provision.site import Host
from tests.unit.machines import machine
from tests.unit.recordings import host_plan

HOST = Host(name="a", address="192.0.2.1")
SWITCH = PciDevice(address="0000:83:00.0", class_id="0680", vendor_id="10de", device_id="22a3")


def of(kind: str, count: int, *devices: PciDevice) -> Machine:
    return machine().model_copy(update={"gpus": (Gpus(kind=kind, count=count),), "pci": devices})


def links(found: Machine) -> tuple[str, int, int]:
    expected, _ = expected_of(HOST, found)
    assert expected
    assert expected.gpus
    return expected.gpus.nvlink, expected.gpus.links, expected.gpus.links_per_pair


def test_links_follow_from_switches_on_the_bus_and_from_the_kind_of_card() -> None:
    assert links(of("h100-sxm", 8, SWITCH)) == ("switch", 18, 18)
    assert links(of("h100-sxm", 4)) == ("mesh", 18, 6)
    assert links(of("a100-sxm-80", 8, SWITCH)) == ("switch", 12, 12)
    assert links(of("b200-sxm", 8)) == ("switch", 18, 18)
    assert links(of("h100-pcie", 4)) == ("none", 0, 0)
    assert links(of("h100-sxm", 1)) == ("none", 0, 0)
    assert links(catalogue_machine("alphapro660")) == ("switch", 18, 18)


def test_cards_without_peer_access_and_ecc() -> None:
    expected, notes = expected_of(HOST, of("rtx-5090", 2))
    assert expected
    assert expected.gpus
    assert (expected.gpus.peer_access, expected.gpus.ecc, expected.gpus.power_limit_w, notes) == (False, False, 575, ())


def test_a_card_that_the_catalogue_does_not_know_is_counted() -> None:
    expected, _ = expected_of(HOST, of("10de:ffff", 2))
    assert expected
    assert expected.gpus
    assert (expected.gpus.pci_ids, expected.gpus.count, expected.gpus.memory_mib) == (("10de:ffff",), 2, None)


def test_nothing_is_expected_of_a_machine_without_gpus_and_its_plan_does_not_change() -> None:
    assert expected_of(HOST, machine().model_copy(update={"gpus": ()})) == (None, ())
    assert "expected" not in dump_json(host_plan())


def _driver(**changes: object) -> NvidiaDriverConfig:
    values: dict[str, object] = {
        "version": "580.159.03",
        "modules": "open",
        "packages": ({"name": "nvidia-open", "version": "580.159.03"},),
        "needs": ("dkms",),
        "dkms": True,
        "headers_prefix": "linux-headers-",
        "stream": "",
        "board": "nvswitch",
        "modules_load": (),
        "gpus": 8,
        "without_return": False,
    }
    return NvidiaDriverConfig.model_validate(values | changes)


def test_the_driver_that_apply_installs_is_the_one_that_verify_expects() -> None:
    found = of("h100-sxm", 8, SWITCH)
    expected, notes = expected_of(HOST, found, _driver())
    assert expected
    assert expected.gpus
    assert (expected.gpus.driver, expected.gpus.modules, notes) == ("580.159.03", "open", ())
    closed, _ = expected_of(HOST, found, _driver(modules="closed"))
    assert closed
    assert closed.gpus
    assert closed.gpus.modules == "proprietary"


def test_what_site_yaml_expects_wins_over_what_apply_installs() -> None:
    found = of("h100-sxm", 8, SWITCH)
    host = HOST.model_copy(update={"expect": HostExpect(driver="590.48.01")})
    expected, _ = expected_of(host, found, _driver())
    assert expected
    assert expected.gpus
    assert (expected.gpus.driver, expected.gpus.modules) == ("590.48.01", None)
    named = HOST.model_copy(update={"expect": HostExpect(mig=True)})
    expected, _ = expected_of(named, found, _driver())
    assert expected
    assert expected.gpus
    assert (expected.gpus.driver, expected.gpus.modules, expected.gpus.mig) == ("580.159.03", "open", True)


def test_the_gpu_software_is_asked_about_where_apply_installs_it() -> None:
    expected, _ = expected_of(HOST, of("h100-sxm", 8, SWITCH), _driver())
    plan = host_plan()
    asked = {item.check.id for item in table.items(plan.model_copy(update={"expected": expected}), "before")}
    assert not asked & {"gpu-board", "gpu-leftovers"}
    roles = plan.roles.model_copy(update={"nvidia_driver": _driver()})
    plan = plan.model_copy(update={"expected": expected, "roles": roles})
    asked = {item.check.id for item in table.items(plan, "before")}
    assert asked >= {"gpu-board", "gpu-leftovers", "gpu-signing", "gpu-solution"}
    assert "firmware-secure-boot" not in asked
    prebuilt = roles.model_copy(update={"nvidia_driver": _driver(dkms=False)})
    asked = {item.check.id for item in table.items(plan.model_copy(update={"roles": prebuilt}), "before")}
    assert "firmware-secure-boot" in asked
    assert not asked & {"gpu-signing", "gpu-headers", "gpu-tools"}
    quick = {item.check.id for item in table.items(plan, "quick")}
    assert quick >= {"gpu-version", "gpu-one-version", "gpu-held", "gpu-dkms", "gpu-image", "gpu-nodes"}
    assert not quick & {"cuda-toolkit", "gpu-subnet-manager"}


def test_without_a_driver_only_bus_and_kernel_log_are_asked() -> None:
    expected, _ = expected_of(HOST, of("h100-sxm", 8, SWITCH))
    plan = host_plan().model_copy(update={"expected": expected})
    asked = {item.check.id for item in table.items(plan, "quick") if item.check.area in ("gpu", "fabric", "services")}
    assert asked == {"gpu-present", "gpu-xid"}


def test_site_yaml_adds_the_driver_and_the_rest() -> None:
    text = {
        "name": "a",
        "address": "192.0.2.1",
        "expect": {
            "driver": "580.126.09",
            "modules": "open",
            "fabric": {"ports": ["mlx5_0"], "rate_gbit": 400},
            "services": {"slurm_node": "a", "munge": True},
        },
    }
    host = check(text, Host, path=Path("site.yaml"))
    expected, (note,) = expected_of(host, of("h100-sxm", 8, SWITCH))
    assert note.choice == "driver, fabric, modules, services"
    plan = host_plan().model_copy(update={"expected": expected})
    asked = {item.check.id for item in table.items(plan, "quick")}
    assert {"gpu-version", "gpu-modules", "gpu-fabric", "gpu-nvlink", "ib-ports", "ib-manager", "slurm-gres"} <= asked
    assert '"driver": "580.126.09"' in dump_json(plan)


def test_bridges_join_cards_in_pairs() -> None:
    host = HOST.model_copy(update={"expect": HostExpect(driver="580.126.09", bridges=True)})
    expected, _ = expected_of(host, of("h100-nvl", 2))
    assert expected
    assert expected.gpus
    assert (expected.gpus.nvlink, expected.gpus.links, expected.gpus.links_per_pair) == ("pairs", 12, 12)
    for kind, count in (("l40s", 4), ("h100-nvl", 3)):
        with pytest.raises(InputError, match="cannot be joined in pairs"):
            expected_of(host, of(kind, count))


def test_a_driver_for_a_machine_without_gpus_is_refused() -> None:
    host = HOST.model_copy(update={"expect": HostExpect(driver="580.126.09")})
    with pytest.raises(InputError, match="has no GPU"):
        expected_of(host, machine().model_copy(update={"gpus": ()}))


def test_a_driver_without_its_full_version_is_refused() -> None:
    with pytest.raises(InputError, match="driver"):
        check({"driver": "580"}, HostExpect, path=Path("site.yaml"))
