"""Which adapter is the rail of which GPU; NCCL's settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmhw_provision.documents import check, dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.expected import ExpectedFabric
from llmhw_provision.machine import Cpu, Gpus, Machine, PciDevice
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.fabric import (
    adapters_are_rails,
    expected_ports,
    gpu_places,
    leaves_of,
    nccl_text,
    rails_of,
    require_port,
)
from llmhw_provision.plan.model import Plan
from llmhw_provision.plan.purchase import catalogue_machine
from llmhw_provision.site import Site
from llmhw_provision.site_cluster import Fabric
from tests.unit.machines import drives, machine, need

# bus numbers of a two-socket machine whose adapters come in another order than its GPUs
GPUS = [("18", 0), ("2a", 0), ("3a", 0), ("5d", 0), ("9a", 1), ("ab", 1), ("ba", 1), ("db", 1)]
NICS = [("19", 0), ("29", 0), ("41", 0), ("50", 0), ("9b", 1), ("a0", 1), ("c1", 1), ("d9", 1)]


def observed(
    nics: list[tuple[str, int]] = NICS, *, kind: str = "h100-sxm", layer: str = "0207", numa: bool = True
) -> Machine:
    pci = [("10de", "0302", "2330", bus, node) for bus, node in GPUS] + [
        ("15b3", layer, "1021", bus, node) for bus, node in nics
    ]
    functions = tuple(
        PciDevice(
            address=f"0000:{bus}:00.0",
            class_id=code,
            vendor_id=vendor,
            device_id=device,
            numa_node=node if numa else -1,
        )
        for vendor, code, device, bus, node in pci
    )
    cpu = Cpu(model="EPYC", sockets=2, cores=256, threads=512, numa_nodes=2)
    return machine().model_copy(update={"pci": functions, "cpu": cpu, "gpus": (Gpus(kind=kind, count=8),)})


def test_of_a_catalogue_machine_every_gpu_has_its_adapter() -> None:
    rails = rails_of("a", catalogue_machine("alphapro660"), Fabric())
    assert [(rail.index, rail.gpu, rail.numa) for rail in rails] == [
        (0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 1), (5, 5, 1), (6, 6, 1), (7, 7, 1),
    ]  # fmt: skip


def test_an_observed_adapter_serves_a_gpu_of_its_own_numa_node() -> None:
    # the third and fourth adapter sit on the other socket: by order alone GPU 2 would get one from there
    nics = [("19", 0), ("29", 0), ("41", 1), ("50", 1), ("9b", 0), ("a0", 0), ("c1", 1), ("d9", 1)]
    rails = rails_of("a", observed(nics), Fabric())
    assert [rail.nic_pci[5:7] for rail in rails] == ["19", "29", "9b", "a0", "41", "50", "c1", "d9"]
    assert [rail.gpu_pci[5:7] for rail in rails] == [bus for bus, _ in GPUS]
    assert [rail.numa for rail in rails] == [0, 0, 0, 0, 1, 1, 1, 1]


def named(given: Machine) -> Machine:
    """The machine with a driver: its adapters are mlx5_0, mlx5_1, ... from the last one on the bus down."""
    buses = [bus for bus, _ in NICS]
    functions = tuple(
        item.model_copy(update={"rdma": f"mlx5_{7 - buses.index(item.address[5:7])}"})
        if item.vendor_id == "15b3"
        else item
        for item in given.pci
    )
    return given.model_copy(update={"pci": functions})


def test_a_rail_names_the_rdma_device_that_was_observed_and_verify_asks_for_its_port() -> None:
    rails = rails_of("a", named(observed()), Fabric())
    names = tuple(f"mlx5_{7 - index}" for index in range(8))
    assert [(rail.gpu, rail.rdma) for rail in rails] == list(enumerate(names))
    found = expected_ports(named(observed()), rails, Fabric())
    assert found == ExpectedFabric(ports=names, rate_gbit=400)
    ethernet = named(observed(layer="0200"))
    roce = Fabric(layer="roce")
    found = expected_ports(ethernet, rails_of("a", ethernet, roce), roce)
    assert found is not None
    assert (found.link_layer, found.subnet_manager) == ("Ethernet", False)


def test_ports_are_asked_for_only_where_all_have_a_name_and_a_known_rate() -> None:
    bare = observed()
    assert expected_ports(bare, rails_of("a", bare, Fabric()), Fabric()) is None
    sold = catalogue_machine("alphapro660")
    assert expected_ports(sold, rails_of("a", sold, Fabric()), Fabric()) is None
    other = named(observed())
    pci = tuple(
        item.model_copy(update={"device_id": "ffff"}) if item.vendor_id == "15b3" else item for item in other.pci
    )
    other = other.model_copy(update={"pci": pci})
    assert expected_ports(other, rails_of("a", other, Fabric()), Fabric()) is None


def test_without_numa_the_order_on_the_bus_decides() -> None:
    rails = rails_of("a", observed(numa=False), Fabric())
    assert [rail.nic_pci[5:7] for rail in rails] == [bus for bus, _ in NICS]
    assert {rail.numa for rail in rails} == {None}


def test_fewer_adapters_than_gpus_are_rails_all_the_same() -> None:
    rails = rails_of("a", observed([("29", 0), ("9b", 1)]), Fabric())
    assert [(rail.index, rail.gpu) for rail in rails] == [(0, 0), (1, 4)]


@pytest.mark.parametrize(
    ("given", "fabric", "words"),
    [
        (observed([*NICS, ("e1", 1)]), Fabric(), "a: 9 adapters for 8 GPUs: which are rails is not known"),
        (observed([]), Fabric(), "a: fabric: asks for rails, and the machine has no adapter"),
        (observed(), Fabric(layer="roce"), "the machine has no adapter"),
        (catalogue_machine("ga660m"), Fabric(), "the machine has no adapter"),
        (observed(), Fabric(adapters=("0000:ff:00.0",)), "fabric.adapters names 0000:ff:00.0, which is no infiniband"),
    ],
)
def test_what_cannot_be_decided_is_asked(given: Machine, fabric: Fabric, words: str) -> None:
    with pytest.raises(InputError) as caught:
        rails_of("a", given, fabric)
    assert words in str(caught.value)


def test_named_adapters_are_the_rails() -> None:
    nics = [*NICS, ("e1", 1)]
    named = Fabric(adapters=tuple(f"0000:{bus}:00.0" for bus, _ in nics if bus != "41"))
    rails = rails_of("a", observed(nics), named)
    assert [rail.nic_pci[5:7] for rail in rails] == ["19", "29", "50", "e1", "9b", "a0", "c1", "d9"]
    assert not adapters_are_rails(observed(nics), named)


def test_nvswitches_that_show_as_adapters_are_no_rails() -> None:
    assert adapters_are_rails(observed(), Fabric())
    assert not adapters_are_rails(observed(kind="b200-sxm"), Fabric())


def test_cores_beside_each_gpu() -> None:
    assert [place.cores for place in gpu_places(observed())] == ["0-127"] * 4 + ["128-255"] * 4
    assert {place.cores for place in gpu_places(observed(numa=False))} == {""}
    assert {place.cores for place in gpu_places(catalogue_machine("ga660m"))} == {""}


def test_a_subnet_manager_needs_a_port() -> None:
    require_port("a", observed())
    with pytest.raises(InputError, match="a: is to run the subnet manager, and has no InfiniBand adapter"):
        require_port("a", observed(layer="0200"))


def test_nccl_is_told_no_name_of_an_interface_and_no_gid() -> None:
    text = nccl_text(Fabric(layer="roce", traffic_class=106))
    assert text.splitlines()[1:] == ["NCCL_SOCKET_IFNAME=^lo,docker,virbr,veth", "NCCL_IB_TC=106"]
    assert "GID" not in text
    assert "TC" not in nccl_text(None)


def test_leaves_hold_thirty_two_nodes_each() -> None:
    names = tuple(f"n{index:03d}" for index in range(70))
    assert {name: len(hosts) for name, hosts in leaves_of(None, names).items()} == {
        "leaf1": 32,
        "leaf2": 32,
        "leaf3": 6,
    }


@pytest.mark.parametrize("told", [False, True])
def test_a_plan_of_an_observed_machine_verifies_its_rails_unless_site_yaml_says_which(told: bool) -> None:
    seen = named(observed())
    disks = machine(*drives()).disks
    own = {"ports": ["mlx5_0"], "rate_gbit": 200}
    host = {"name": "ga660m-01", "address": "192.0.2.11", **({"expect": {"fabric": own}} if told else {})}
    data = {"schema": 1, "site": "lab", "hosts": [host], "fabric": {"subnet_manager": {"switch": True}}}
    plan = build_plan(
        need(), check(data, Site, path=Path("site.yaml")), {"ga660m-01": seen.model_copy(update={"disks": disks})}
    )
    (found,) = plan.hosts
    assert found.node is not None
    assert [rail.rdma for rail in found.node.rails] == [f"mlx5_{7 - index}" for index in range(8)]
    assert found.expected is not None
    assert found.expected.fabric is not None
    assert found.expected.gpus is not None
    assert found.expected.fabric.ports == (("mlx5_0",) if told else tuple(rail.rdma for rail in found.node.rails))
    assert check(json.loads(dump_json(plan)), Plan, path=Path("plan.json")) == plan
