"""Limits: the table is checked as a whole, wins over percentages, and says what was promised beside what can be."""

from __future__ import annotations

import copy
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.catalogue.thresholds import PATH, thresholds
from llmhw_provision.cli.plan_text import explain
from llmhw_provision.documents import check, dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.expected import ExpectedGpus, HostExpect
from llmhw_provision.machine import Gpus, Machine, PciDevice
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.model import Plan, Threshold
from llmhw_provision.plan.thresholds import _of, _Parts
from llmhw_provision.site import Site
from tests.unit.machines import drives, machine, need, site
from tests.unit.test_machine_choice import hosts

HOST = "ga660m-01"
SWITCH = PciDevice(address="0000:07:00.0", class_id="0680", vendor_id="10de", device_id="22a3")
NDR = PciDevice(address="0000:18:00.0", class_id="0207", vendor_id="15b3", device_id="1021")
TABLE = yaml.load(PATH.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
BUSBW = "nccl_tests.all_reduce_busbw"


def gpu_host(kind: str, count: int, *pci: PciDevice, disks: int = 4, virtualization: str = "none") -> Machine:
    found = machine(*drives(disks), virtualization=virtualization)
    return found.model_copy(update={"gpus": (Gpus(kind=kind, count=count),), "pci": pci})


def plan(found: Machine, of: Site | None = None, *, machine_name: str | None = None, bridges: bool = False) -> Plan:
    told = of or site()
    expect = HostExpect(bridges=True) if bridges else None
    host = told.hosts[0].model_copy(update={"machine": machine_name, "expect": expect})
    told = told.model_copy(update={"hosts": (host,)})
    return build_plan(need(), told, {HOST: found})


def limits(*args: Any, **kwargs: Any) -> dict[str, Threshold]:
    return by_metric(plan(*args, **kwargs))


def by_metric(plan: Plan) -> dict[str, Threshold]:
    """The limits of the plan's first host."""
    return {item.metric: item for item in plan.hosts[0].thresholds}


def bought(name: str) -> dict[str, Threshold]:
    return by_metric(build_plan(need(dataset=None), _sold(name), {}))


def _sold(name: str, count: int = 1) -> Site:
    return site().model_copy(
        update={"hosts": tuple(host.model_copy(update={"machine": name}) for host in hosts(count))}
    )


def damaged(tmp_path: Path, change: Any) -> str:
    data = copy.deepcopy(TABLE)
    change(data)
    path = tmp_path / "thresholds.yml"
    path.write_text(yaml.dump(data, Dumper=yaml.CSafeDumper, allow_unicode=True), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        thresholds(path)
    return "\n".join(f"{item.message} | {item.hint}" for item in caught.value.problems)


def row(data: Any, metric: str = BUSBW, profile: str = "board-hgx-h100") -> Any:
    return data["profiles"][profile]["rows"][metric]


def test_a_row_without_unit_is_refused_by_file_path_and_row(tmp_path: Path) -> None:
    said = damaged(tmp_path, lambda data: row(data).pop("unit"))
    where = f"{tmp_path}/thresholds.yml: profiles.board-hgx-h100.rows.{BUSBW}.unit: missing"
    assert said == f"{where} | each row has reference, fail, unit, method, source and reason"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda data: row(data).update(unit="GBps"), f"rows.{BUSBW}.unit: 'GBps' should be 'GB/s'"),
        (lambda data: row(data).pop("source"), f"rows.{BUSBW}.source: missing"),
        (lambda data: row(data).pop("reason"), f"rows.{BUSBW}.reason: missing"),
        (lambda data: row(data).update(fail=470), "(480, 460, 470) do not go from good to bad where more is better"),
        (
            lambda data: row(data, "ipmi.wall_power", "machine-alphapro660").update(fail=9000),
            "(10200, 9000) do not go from good to bad where less is better",
        ),
        (lambda data: row(data).update(threshold=1), f"rows.{BUSBW}.threshold: unknown key"),
        (
            lambda data: data["profiles"]["card-l40s"]["applies"].update(kinds=["l40x"]),
            "profiles.card-l40s.applies.kinds: 'l40x' is not in the catalogue",
        ),
        (lambda data: data["promises"][0].update(unit="W"), "promises[0]: no row has fio.array_read in W"),
        (lambda data: data["profiles"]["pcie-5"].pop("date"), "profiles.pcie-5.date: missing"),
    ],
)
def test_a_damaged_table_is_refused(change: Any, expected: str, tmp_path: Path) -> None:
    assert expected in damaged(tmp_path, change)


def test_two_rows_without_unit_are_two_problems(tmp_path: Path) -> None:
    def change(data: Any) -> None:
        row(data).pop("unit")
        row(data, "fio.drive_read", "nvme-gen5-x4").pop("unit")

    assert damaged(tmp_path, change).count(".unit: missing") == 2


def test_eight_h100_must_show_nvls_all_links_and_gen5_under_load() -> None:
    found = limits(gpu_host("h100-sxm", 8, SWITCH, NDR))
    assert (found[BUSBW].reference, found[BUSBW].warn, found[BUSBW].fail) == (480, 460, 440)
    ring = found["nccl_tests.all_reduce_ring_busbw"]
    assert ring.reference < found[BUSBW].fail
    assert found["nvidia_smi.nvlink_links"].fail == 18
    assert found["nvbandwidth.host_to_device"].fail == 48
    assert found["nvidia_smi.pcie_generation_under_load"].fail == 5
    assert found["ib_write_bw.average"].fail == 380
    assert found["p2p_bandwidth.diagonal"].fail == 2250
    assert "nccl_tests.all_reduce_2_hosts_busbw" not in found


def test_half_a_board_is_never_held_to_the_nvls_figure() -> None:
    found = limits(gpu_host("h100-sxm", 4, SWITCH))
    assert found[BUSBW].profile == "percentages"
    assert found[BUSBW].reference == 360
    assert found["nvidia_smi.nvlink_links"].fail == 18


def test_bridged_pairs_have_twelve_links_and_bare_cards_none() -> None:
    pairs = limits(gpu_host("h100-pcie", 4), bridges=True)
    assert pairs["nvidia_smi.nvlink_links"].fail == 12
    assert pairs["nccl_tests.all_reduce_pair_busbw"].fail == 105
    assert pairs[BUSBW].fail == 25
    bare = limits(gpu_host("h100-pcie", 4))
    assert "nvidia_smi.nvlink_links" not in bare
    assert bare[BUSBW].fail == 15


def test_percentages_are_taken_only_where_there_is_no_row() -> None:
    found = limits(gpu_host("h100-sxm", 8, SWITCH))
    assert found["matmul.bf16_tuned"].profile == "card-h100-sxm"
    assert found["matmul.fp8_tuned"].profile == "percentages"
    assert found["matmul.fp8_tuned"].reference == 1403
    assert found["matmul.fp8_tuned"].warn == pytest.approx(1403 * 0.97, abs=0.1)
    assert found["matmul.fp8_tuned"].fail == pytest.approx(1403 * 0.93, abs=0.1)
    assert "97 % warns and 93 % fails" in found["matmul.fp8_tuned"].reason


def test_promises_stand_beside_what_physics_allows() -> None:
    found = bought("alphapro660")
    array, power = found["fio.array_read"], found["ipmi.wall_power"]
    assert (array.reference, array.fail) == (84, 58.8)
    assert [promise.value for promise in array.promised] == [60, 10]
    assert "94.5 GB/s" in array.promised[0].allowed
    assert power.better == "less"
    assert (power.fail, power.promised[0].value) == (10_200, 5_600)
    alone = bought("a330")["fio.drive_read"]
    assert alone.promised[0].value == 10 > alone.reference
    assert "7.88 GB/s, so 10 are out of reach" in alone.promised[0].allowed


def test_drives_that_the_catalogue_does_not_know_are_held_to_themselves() -> None:
    found = limits(gpu_host("h100-pcie", 4))
    assert found["fio.array_read_of_drives"].unit == "%"
    assert "fio.array_read" not in found
    assert "fio.array_read_of_drives" not in limits(gpu_host("h100-pcie", 4, disks=1))


def test_limits_between_hosts_need_hosts_and_ports() -> None:
    two = build_plan(need(dataset=None), _sold("alphapro660", 2), {})
    assert by_metric(two)["nccl_tests.all_reduce_2_hosts_busbw"].fail == 380
    assert "nccl_tests.all_reduce_8_hosts_busbw" not in by_metric(two)


def test_every_kind_and_number_of_gpus_has_one_limit_per_quantity() -> None:
    for kind, count, nvlink in product(names("gpus"), (1, 2, 4, 8), ("none", "switch", "pairs", "mesh")):
        card = find("gpus", kind, Gpu)
        gpus = ExpectedGpus(
            kind=kind, count=count, pci_ids=(), nvlink=nvlink, pcie_generation=card.pcie, links=card.nvlink_links
        )
        parts = _Parts(gpus, (400, "InfiniBand"), ("nvme-gen5-x4",), 4, "alphapro660", 8)
        rows = list(_of(parts))
        assert len({item.metric for item in rows}) == len(rows)
        for item in rows:
            steps = [value for value in (item.reference, item.warn, item.fail) if value is not None]
            assert steps == sorted(steps, reverse=item.better == "more")


def test_a_virtual_machine_is_held_to_no_speed() -> None:
    assert plan(gpu_host("h100-sxm", 8, SWITCH, virtualization="kvm")).hosts[0].thresholds == ()


def test_hosts_of_a_kind_share_their_limits_in_a_small_record() -> None:
    many = build_plan(need(dataset=None), _sold("alphapro660", 12), {})
    (only,) = {host.thresholds for host in many.hosts}
    assert all(host.thresholds is many.hosts[0].thresholds for host in many.hosts)
    assert sum(len(dump_json(item)) for item in only) < 16_000


def test_the_site_replaces_a_limit_with_its_reason_and_a_note() -> None:
    told = {"metric": BUSBW, "fail": 20, "unit": "GB/s", "reason": "the vendor's own acceptance"}
    data = {**site().model_dump(mode="json", by_alias=True, exclude_unset=True), "thresholds": [told]}
    found = plan(gpu_host("h100-pcie", 4), check(data, Site, path=Path("site.yaml")))
    changed = by_metric(found)[BUSBW]
    assert (changed.fail, changed.warn, changed.reason) == (20, None, "the vendor's own acceptance")
    assert changed.source == "site.yaml instead of 15 GB/s"
    assert any(note.choice == f"{BUSBW}: fail at 20 GB/s" for note in found.notes)
    lines = differences(plan(gpu_host("h100-pcie", 4)), found)
    assert f"    {BUSBW}, fail: was 15.0, is now 20.0" in lines


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{"unit": None}], "site.yaml: thresholds[0].unit: missing"),
        ([{"unit": "W"}], f"site.yaml: thresholds[0].unit: {BUSBW} is measured in GB/s, not W"),
        ([{"metric": "nccl_tests.all_reduce_busb"}], "site.yaml: thresholds[0].metric: ga660m-01 has no limit"),
        ([{"fail": 30}], "site.yaml: thresholds[0]: reference, warn and fail (21.8, 30) do not go from good to bad"),
        ([{}, {}], f"site.yaml: thresholds[1]: {BUSBW} has a limit above for the same host"),
        ([{"hosts": ["b-01"]}], "site.yaml: thresholds[0].hosts: 'b-01' is not one of the hosts"),
    ],
)
def test_limits_of_the_site_that_contradict_are_one_clear_error(changes: list[Any], expected: str) -> None:
    base = {"metric": BUSBW, "fail": 20, "unit": "GB/s", "reason": "agreed"}
    told = [{key: value for key, value in {**base, **change}.items() if value is not None} for change in changes]
    data = {**site().model_dump(mode="json", by_alias=True, exclude_unset=True), "thresholds": told}
    with pytest.raises(InputError) as caught:
        plan(gpu_host("h100-pcie", 4), check(data, Site, path=Path("site.yaml")))
    (problem,) = caught.value.problems
    assert expected in problem.message


def test_explain_shows_limits_with_method_reason_source_and_promise() -> None:
    text = explain(build_plan(need(dataset=None), _sold("alphapro660"), {}))
    assert f"  {BUSBW}: warns below 460, fails below 440 GB/s (reference 480; board-hgx-h100)" in text
    assert "because the ring alone gives 367, so 440 proves NVLS with 8 % to spare" in text
    assert "ipmi.wall_power: fails above 10200 W" in text
    assert 'promised: 5600 W, "about 5,600 W GPUs continuous"' in text
    assert "physics: eight GPUs of 700 W are 5,600 W alone" in text
