"""The disks are judged by their own module, in check mode, before anything is asked. It really runs, here."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from llmhw_provision.content import content_root
from llmhw_provision.documents import dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.evidence import Evidence
from llmhw_provision.inventory import write_inventory
from llmhw_provision.plan.model import Plan
from llmhw_provision.run import folder, lock, orders, preflight, process
from llmhw_provision.run.command import Choice
from llmhw_provision.run.outcome import Failure
from llmhw_provision.run.playing import Playing
from llmhw_provision.run.progress import Lines
from llmhw_provision.site import Host, Site
from tests.unit.recordings import plan

SITE = Site(schema=1, site="reading", hosts=(Host(name="other", address="192.0.2.9"),))


def prepared(site: Path, made: Plan) -> orders.Order:
    site.mkdir()
    (site / "plan.json").write_text(dump_json(made))
    write_inventory(made, site / "inventory")
    with (site / "inventory" / "group_vars" / "all.yml").open("a") as file:
        file.write("ansible_connection: local\n")
    return orders.prepare(site, choice=Choice())


def refused(order: orders.Order, evidence: Evidence) -> tuple[Failure, ...]:
    runs = order.site / "runs"
    with lock.held(runs, verb="preflight") as held:
        made = folder.create(runs, verb="preflight")
        work = Playing(order, content_root(), made, held, process.Stops(), Lines(io.StringIO()))
        return preflight.refused_disks(work, {"vm-01": evidence})


def test_the_module_refuses_the_disks_that_are_not_there(tmp_path: Path) -> None:
    order = prepared(tmp_path / "site", plan())
    (failure,) = refused(order, Evidence("vm-01", "machine", {}))
    assert failure.host == "vm-01"
    said = "\n".join(problem.message for problem in failure.problems)
    for serial in ("LAB0", "LAB1", "LAB2", "LAB3"):
        assert f"nvme-QEMU_NVMe_Ctrl_{serial}" in said
    result = preflight.Preflight(
        plan="p", folder="f", seconds=1, hosts=("vm-01",), allow_interrupt=False, findings=(), disks=(failure,)
    )
    assert len(result.refusals) == len(failure.problems) >= 4
    assert all(problem.message.startswith("vm-01: nvme_raid0: ") for problem in result.refusals)


def test_a_host_that_gave_no_answer_is_not_asked_about_its_disks(tmp_path: Path) -> None:
    order = prepared(tmp_path / "site", plan())
    assert refused(order, Evidence("vm-01", "machine", {}, problem="cannot be reached")) == ()


def test_a_host_that_left_site_yaml_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    order = prepared(tmp_path / "site", plan())
    with pytest.raises(InputError, match=r"host 'vm-01' of plan\.json is not in site\.yaml"):
        preflight.look(preflight.Look(order, SITE, content_root()))
    assert not (tmp_path / "site" / "runs").exists()
