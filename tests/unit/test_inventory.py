"""Plan → inventory: profiles are shared, hosts keep only what identifies them."""

from __future__ import annotations

from pathlib import Path

import yaml

from llmhw_provision.documents import check
from llmhw_provision.inventory import render_inventory, write_inventory
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from tests.unit.machines import drives, machine, need


def plan(*counts: int) -> Plan:
    hosts = [{"name": f"node-{index}", "address": f"192.0.2.{index}"} for index in range(len(counts))]
    site = check({"schema": 1, "site": "rack", "hosts": hosts}, Site, path=Path("site.yaml"))
    return build_plan(need(), site, {f"node-{index}": machine(*drives(count)) for index, count in enumerate(counts)})


def test_equal_hosts_share_one_profile() -> None:
    files = render_inventory(plan(4, 4, 4))
    hosts = yaml.safe_load(files["hosts.yml"])["all"]["children"]
    assert list(hosts["profile_1"]["hosts"]) == ["node-0", "node-1", "node-2"]
    assert "profile_2" not in hosts


def test_hosts_that_differ_have_profiles_of_their_own() -> None:
    hosts = yaml.safe_load(render_inventory(plan(4, 1))["hosts.yml"])["all"]["children"]
    assert list(hosts["profile_2"]["hosts"]) == ["node-1"]


def test_every_role_has_a_group_even_when_it_is_empty() -> None:
    hosts = yaml.safe_load(render_inventory(plan(4))["hosts.yml"])["all"]["children"]
    assert {"nvme_raid0", "tmpfs", "initramfs"} <= set(hosts)


def test_disks_stand_in_host_vars_only() -> None:
    files = render_inventory(plan(4))
    assert "by-id" not in files["group_vars/profile_1.yml"]
    assert yaml.safe_load(files["host_vars/node-0.yml"])["host_disks"]["scratch"][0].endswith("_D1")


def test_files_of_an_earlier_plan_are_removed(tmp_path: Path) -> None:
    write_inventory(plan(4, 1), tmp_path)
    write_inventory(plan(4), tmp_path)
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.yml"))
    assert names == ["group_vars/all.yml", "group_vars/profile_1.yml", "host_vars/node-0.yml", "hosts.yml"]
