"""A whole life of an AlphaPro660: bare, planned, checked, provisioned, provisioned again, rebooted, verified, broken.

The board, the packages and the tools are stand-ins (tests/rehearsal/gpu); kernel, DKMS, apt, systemd and the initramfs
are real. The tests are one story and run in this order on one machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks.machine_logs import transactions
from tests.rehearsal.gpu.site import GpuSite, gpu_site
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import HOST, run
from tests.rehearsal.test_thin_path import apply, changed, state

pytestmark = pytest.mark.vm

PRODUCT = "AlphaPro660"
VERSION = "580.159.03"


@pytest.fixture(scope="module")
def site(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuSite]:
    with gpu_site(machine, tmp_path_factory.mktemp("gpu"), driver=VERSION) as made:
        yield made


def findings(site: GpuSite, *, expect: int = 0) -> dict[str, dict[str, str]]:
    """What a quick verify says, by check."""
    report = json.loads(run("verify", site.folder, "--level", "quick", "--json", expect=expect).stdout)
    return {item["check"]: item for item in report["findings"]}


def test_discover_reads_the_board(site: GpuSite) -> None:
    run("discover", site.folder, "--accept-host-keys")
    observed = json.loads((site.folder / f"observed/{HOST}.json").read_text())
    assert [(item["kind"], item["count"]) for item in observed["gpus"]] == [("h100-sxm", 8)]


def test_plan_names_driver_and_fabric_manager(site: GpuSite) -> None:
    text = run("plan", site.folder).stdout
    assert f"driver {VERSION} (open modules) with fabric manager, held with the kernel" in text


def test_check_alters_nothing_and_lists_what_apply_changes(site: GpuSite, machine: Machine) -> None:
    before = state(machine)
    listed = apply(site.folder, "--check", "--diff")
    assert state(machine) ^ before == set()
    assert changed(apply(site.folder, "--yes")) == changed(listed)


def test_driver_cuda_and_nccl_came_in_one_transaction(site: GpuSite, machine: Machine) -> None:
    planned = json.loads((site.folder / "plan.json").read_text())["profiles"][0]["roles"]
    asked = [item["name"] for item in planned["nvidia_driver"]["packages"]]
    asked += [item.partition("=")[0] for item in (*planned["cuda"]["packages"], *planned["nccl"]["packages"])]
    log = machine.run("sudo cat /var/log/apt/history.log").stdout
    (all_of_it,) = (item for item in transactions(log) if set(asked) & item.packages.keys())
    assert set(asked) <= all_of_it.packages.keys()


def test_second_apply_and_second_check_change_nothing(site: GpuSite) -> None:
    assert changed(apply(site.folder, "--yes")) == set()
    assert changed(apply(site.folder, "--check")) == set()


def test_reboot_and_verify(site: GpuSite, machine: Machine) -> None:
    third = apply(site.folder, "--yes", "--allow-reboot")
    assert (third["state"], changed(third)) == ("done", {("", "Restart the machine")})
    assert machine.run("cat /sys/module/nvidia/version").stdout == f"{VERSION}\n"
    assert machine.run("lsmod | grep -c ^nouveau", check=False).stdout == "0\n"
    assert machine.run("nvidia-smi -L | grep -c H100").stdout == "8\n"
    run("verify", site.folder, "--level", "quick")
