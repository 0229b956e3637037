"""A thousand cards as one plan: AlphaPro660 with controller, accounting, logins."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import yaml

from llmhw_provision.cli.plan import summary
from llmhw_provision.documents import dump_json, read
from llmhw_provision.errors import ProvisionError
from llmhw_provision.inventory import render_inventory
from llmhw_provision.plan.cluster import plan_cluster
from llmhw_provision.plan.model import Plan
from tests.unit.clusters import cluster_plan, cluster_site

NODES = 128


@cache
def thousand() -> Plan:
    return cluster_plan(NODES)


def compute(plan: Plan) -> list[str]:
    return [host.name for host in plan.hosts if host.node and "compute" in host.node.roles]


def test_a_thousand_gpus_with_their_heads() -> None:
    plan = thousand()
    cluster = plan.cluster
    assert cluster is not None
    assert (cluster.controllers, cluster.accounting, cluster.logins) == (("ctl-01",), "ctl-01", "login-[1-2]")
    assert cluster.computes == "ap660-[0001-0128]"
    gpus = sum(host.expected.gpus.count for host in plan.hosts if host.expected and host.expected.gpus)
    assert gpus == 1024
    assert "1024× NVIDIA H100" in next(note.choice for note in plan.notes if "GPU memory at its peak" in note.rule)


def test_every_node_has_eight_rails_and_scratch_of_its_own() -> None:
    plan = thousand()
    for host in plan.hosts:
        node, storage = host.node, host.roles.nvme_raid0
        assert node is not None
        assert storage is not None
        if host.name in compute(plan):
            assert [(rail.index, rail.gpu) for rail in node.rails] == [(index, index) for index in range(8)]
            assert [volume.mount for volume in storage.volumes] == ["/scratch"]
            assert host.roles.python_env is not None
        else:
            assert node.rails == ()
            assert (storage.volumes, host.roles.tmpfs, host.roles.python_env) == ((), None, None)


def test_one_decision_about_the_subnet_manager() -> None:
    cluster = thousand().cluster
    assert cluster is not None
    assert cluster.fabric is not None
    assert cluster.fabric.subnet_manager == "hosts"
    assert [(item.host, item.priority) for item in cluster.fabric.managers] == [("ctl-01", 14)]
    notes = [note for note in thousand().notes if "subnet manager" in note.rule]
    assert [note.choice for note in notes] == ["opensm on ctl-01 (14)"]


def test_four_scalable_units_under_one_spine() -> None:
    cluster = thousand().cluster
    assert cluster is not None
    assert cluster.files["topology.conf"].splitlines()[1:] == [
        "SwitchName=leaf1 Nodes=ap660-[0001-0032]",
        "SwitchName=leaf2 Nodes=ap660-[0033-0064]",
        "SwitchName=leaf3 Nodes=ap660-[0065-0096]",
        "SwitchName=leaf4 Nodes=ap660-[0097-0128]",
        "SwitchName=spine Switches=leaf[1-4]",
    ]
    assert "NodeName=ap660-[0001-0128] CPUs=512" in cluster.files["slurm.conf"]


def test_shared_storage_is_said_and_project_lies_on_it() -> None:
    cluster = thousand().cluster
    assert cluster is not None
    assert cluster.shared is not None
    assert (cluster.shared.source, cluster.shared.mount) == ("10.0.9.1:/export", "/shared")
    for host in thousand().hosts:
        assert host.roles.nvme_raid0 is not None
        assert host.roles.nvme_raid0.directories == (), "a folder there would lie under the mount"


def test_slurms_ports_pass_the_firewall() -> None:
    base = thousand().hosts[0].roles.site_base
    assert base is not None
    assert "6817-6819/tcp" in base.firewall.ports


def test_the_file_says_once_what_hosts_share() -> None:
    data = json.loads(dump_json(thousand()))
    assert [profile["name"] for profile in data["profiles"]] == ["profile_1", "profile_2", "profile_3"]
    assert all("roles" not in host for host in data["hosts"])
    assert [note["host"] for note in data["notes"] if note["rule"] == "RAID0 has no redundancy"] == [
        "ap660-[0001-0128]"
    ]
    assert len(dump_json(thousand())) < 1_000_000


def test_the_file_read_back_is_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(dump_json(thousand()))
    found = read(path, Plan)
    assert dump_json(found) == path.read_text()
    assert found == thousand()  # else apply would take the site's files for changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda host: host | {"profile": "profile_9"}, "has profile 'profile_9', which is not there"),
        (lambda host: host | {"members": {}}, "names no disks for the volume 'scratch' of its profile"),
        (lambda host: host | {"name": "{{ x }}"}, "'{{ x }}' is not accepted"),
        (lambda host: host | {"name": "../../etc/x"}, "'../../etc/x' is not accepted"),
        (lambda host: host | {"user": "{{ x }}"}, "'{{ x }}' is not accepted"),
    ],
)
def test_a_damaged_file_is_refused(change: object, words: str, tmp_path: Path) -> None:
    data = json.loads(dump_json(thousand()))
    data["hosts"][0] = change(data["hosts"][0])  # type: ignore[operator]
    (tmp_path / "plan.json").write_text(json.dumps(data))
    with pytest.raises(ProvisionError, match=r"plan\.json") as caught:
        read(tmp_path / "plan.json", Plan)
    assert words in str(caught.value)


def test_the_inventory_has_three_profiles_and_every_host() -> None:
    files = render_inventory(thousand())
    groups = yaml.safe_load(files["hosts.yml"])["all"]["children"]
    assert len(groups["profile_1"]["hosts"]) == NODES
    assert list(groups["profile_2"]["hosts"]) == ["ctl-01"]
    assert len([name for name in files if name.startswith("host_vars/")]) == NODES + 3


def test_problems_of_a_kind_are_told_of_every_host() -> None:
    with pytest.raises(ProvisionError) as caught:
        cluster_plan(3, software={"distro": "ubuntu2404", "slurm": True, "driver": "570"})
    text = [problem.message for problem in caught.value.problems if "driver 570: support ended" in problem.message]
    assert [line.partition(":")[0] for line in text] == ["ap660-0001", "ap660-0002", "ap660-0003"]


def test_a_subnet_managers_host_without_a_port_is_refused() -> None:
    with pytest.raises(ProvisionError, match="ctl-01: is to run the subnet manager, and has no InfiniBand adapter"):
        cluster_plan(2, port=False)


def test_one_version_of_slurm_for_all_hosts() -> None:
    plan = cluster_plan(2)
    nodes = {host.name: host.node for host in plan.hosts if host.node}
    compute, heads = plan.stacks
    assert (compute.hosts, heads.hosts) == (("ap660-0001", "ap660-0002"), ("ctl-01", "login-1", "login-2"))
    other = heads.model_copy(update={"slurm": "24.11.5"})
    with pytest.raises(ProvisionError) as caught:
        plan_cluster(cluster_site(2), nodes, (compute, other))
    assert str(caught.value) == (
        "one version of Slurm for all hosts; the plan has 23.11 on ap660-[0001-0002], 24.11.5 on ctl-01,login-[1-2]"
    )


def test_a_thousand_gpus_are_told_on_a_few_screens() -> None:
    text = summary(thousand(), Path("plan.json"))
    assert "cluster  controller ctl-01; accounting ctl-01; login login-[1-2]; compute ap660-[0001-0128]" in text
    assert "why      one subnet manager, or one with a standby: opensm on ctl-01 (14)" in text
    assert "\nap660-[0001-0128]  128 hosts alike  alphapro660\n" in text
    assert "\nctl-01,login-[1-2]  3 hosts alike  Debian 12" in text
    assert len(text.splitlines()) < 100
