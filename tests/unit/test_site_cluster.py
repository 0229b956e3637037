"""site.yaml of a cluster: ranges, roles and fabric; every contradiction at once, at its place in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.cli.schema import command as schema
from llmhw_provision.documents import check
from llmhw_provision.errors import InputError
from llmhw_provision.site import Site
from llmhw_provision.site_cluster import roles_of
from tests.unit.clusters import cluster_data, cluster_site


def refusals(data: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        check(data, Site, path=Path("site.yaml"))
    return [problem.message.removeprefix("site.yaml: ") for problem in caught.value.problems]


def managed(**choice: Any) -> dict[str, Any]:
    return cluster_data(4, fabric={"subnet_manager": choice})


def by(*hosts: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"host": host, "priority": priority} for host, priority in hosts]


def test_a_range_becomes_hosts_with_their_addresses() -> None:
    site = cluster_site(300)
    assert len(site.hosts) == 303
    found = {host.name: host.address for host in site.hosts}
    assert (found["ap660-0001"], found["ap660-0255"], found["ap660-0256"]) == ("10.0.0.1", "10.0.0.255", "10.0.1.0")
    assert (found["login-2"], found["ctl-01"]) == ("10.0.8.12", "10.0.8.1")
    assert {host.machine for host in site.hosts} == {"alphapro660", None}


def test_all_contradictions_come_at_once() -> None:
    data = managed(switch=True, hosts=by(("x", 3), ("ap660-0001", 3)))
    data["hosts"] = [
        data["hosts"][0],
        {"name": "ap660-0002"},
        {"name": "b", "address": "10.0.0.1"},
    ]
    assert refusals(data) == [
        "hosts[1].address: missing",
        "hosts[1].name: 'ap660-0002' is already hosts[0]",
        "hosts[2].address: '10.0.0.1:22' is already hosts[0]",
        "hosts: software.slurm: true, and no host has the role controller",
        (
            "fabric.subnet_manager: the switch manages the subnet, and x and ap660-0001 run it too: two managers "
            "(dell/omnia#422)"
        ),
        "fabric.subnet_manager.hosts: x and ap660-0001 have the same priority: which is master is chance",
        "fabric.subnet_manager.hosts[0].host: 'x' is not one of the hosts",
    ]


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"name": "n[1-3]", "address": "10.0.0.[1-2]"}, "hosts[0]: n[1-3] are 3 hosts, 10.0.0.[1-2] are 2 addresses"),
        ({"name": "n[3-1]", "address": "10.0.0.[1-3]"}, "hosts[0].name: 'n[3-1]' counts backward (3-1)"),
        ({"name": "n[1-3]", "address": "10.0.0.3-10.0.0.1"}, "is no range of up to 4096 addresses"),
        ({"name": "N[1-3]", "address": "10.0.0.[1-3]"}, "hosts[0].name: 'N1' is not accepted"),
        ({"name": "n[1,1]", "address": "10.0.0.[1-2]"}, "hosts[0].name: 'n1' is already in this entry"),
        ({"name": "a", "address": "{{ lookup('pipe','id') }}"}, "hosts[0].address: \"{{ lookup('pipe'"),
        ({"name": "{{ x }}", "address": "10.0.0.1"}, "hosts[0].name: '{{ x }}' is not accepted"),
        ({"name": "a", "address": "10.0.0.1", "roles": ["boss"]}, "hosts[0].roles[0]: 'boss'"),
    ],
)
def test_an_entry_that_is_wrong_is_named(host: dict[str, Any], words: str) -> None:
    said = refusals({"schema": 1, "site": "s", "hosts": [host]})
    assert len(said) == 1
    assert words in said[0]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({}, "InfiniBand needs one decision: the switch, or one or two hosts"),
        (
            {"hosts": by(("ctl-01", 14), ("login-1", 10), ("login-2", 3))},
            "3 hosts; a master and one standby are enough",
        ),
        ({"hosts": by(("ctl-01", 14), ("ctl-01", 10))}, "'ctl-01' stands there twice"),
    ],
)
def test_one_decision_about_the_subnet_manager(choice: dict[str, Any], words: str) -> None:
    said = refusals(managed(**choice))
    assert len(said) == 1
    assert said[0].startswith("fabric.subnet_manager")
    assert words in said[0]


@pytest.mark.parametrize("choice", [{"switch": True}, {"hosts": by(("ctl-01", 14), ("login-1", 10))}])
def test_a_switch_or_two_ranked_hosts_are_accepted(choice: dict[str, Any]) -> None:
    check(managed(**choice), Site, path=Path("site.yaml"))


def test_ethernet_has_no_subnet_manager() -> None:
    data = cluster_data(4, fabric={"layer": "roce", "subnet_manager": {"switch": True}})
    assert refusals(data) == ["fabric.subnet_manager: Ethernet has no subnet manager; layer is roce"]


def test_roles_need_slurm_and_slurm_needs_them() -> None:
    data = cluster_data(4, software={"distro": "ubuntu2404"})
    said = refusals(data)
    assert said[0] == "hosts: ctl-01 has the role controller, and software.slurm is not true"
    data = cluster_data(4)
    data["hosts"][2] = {**data["hosts"][2], "roles": ["controller", "accounting"]}
    assert refusals(data) == [
        "hosts: 3 hosts have the role controller; a primary and one backup are used",
        "hosts: 3 hosts have the role accounting; one database is used",
    ]


def test_a_backup_controller_needs_shared_storage() -> None:
    data = cluster_data(4, storage={})
    data["hosts"][2] = {"name": "ctl-02", "address": "10.0.8.2", "roles": ["controller"]}
    assert refusals(data) == ["hosts: two controllers (ctl-01, ctl-02) need a shared file system for their state"]


def test_every_node_is_at_one_leaf() -> None:
    leaves = [{"name": "a", "hosts": "ap660-[0001-0002]"}, {"name": "b", "hosts": "ap660-0002,ctl-01"}]
    data = cluster_data(4, fabric={"subnet_manager": {"switch": True}, "leaves": leaves})
    assert refusals(data) == [
        "fabric.leaves[1].hosts: 'ap660-0002' is already at leaf 'a'",
        "fabric.leaves[1].hosts: 'ctl-01' is not one of the compute hosts",
        "fabric.leaves: ap660-[0003-0004] at no leaf",
    ]


def test_shared_storage_has_a_mount_of_its_own() -> None:
    data = cluster_data(4, storage={"shared": {"source": "10.0.9.1:/x", "mount": "/scratch"}})
    assert refusals(data) == ["storage.shared.mount: '/scratch' is the mount of scratch or tmpfs already"]


def test_a_machine_alone_is_its_own_controller() -> None:
    host = {"name": "a", "address": "10.0.0.1"}
    site = check({"schema": 1, "site": "s", "hosts": [host], "software": {"slurm": True}}, Site, path=Path("x"))
    assert roles_of(site.hosts[0], site) == ("controller", "compute")


def test_the_schema_still_asks_for_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    schema.main(["site"], standalone_mode=False)
    assert '"required": [\n        "name",\n        "address"\n      ]' in capsys.readouterr().out
