"""Faults of fabric, drives, management controller and packages."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from llmhw_provision.evidence import Result
from llmhw_provision.expected import Expected, ExpectedFabric
from llmhw_provision.plan.model import RoleConfigs
from tests.assembled import RAILS, Assembled, h100, sample
from tests.fault import Fault, logged, shown
from tests.unit.recordings import host_plan, recorded
from tests.unit.test_checks_base import HOST as TUNED
from tests.unit.test_checks_base import acs, bridge

_OURS = "written by us"


def _virtual() -> Assembled:
    """One adapter shows what the sample of a virtual function shows."""
    name = "ib/ibstat_vf_down_linkup.txt"
    state = re.search(r"State: (\w+)\n\s+Physical state: (\w+)", sample(name))
    assert state
    return h100().edited("ibstat", r"(CA 'mlx5_6'(?:\n.*)+?\n\s+State): \w+", rf"\1: {state[1]}", count=1)


def _direct(way: str) -> Assembled:
    machine = h100()
    expected = machine.plan.expected
    assert expected
    assert expected.fabric
    fabric = expected.fabric.model_copy(update={"gpu_direct": way})
    plan = machine.plan.model_copy(update={"expected": expected.model_copy(update={"fabric": fabric})})
    return replace(machine, title=f"8× H100, {way}", plan=plan)


def roce(index: int | None) -> Assembled:
    """One RoCE port whose address of IPv4 has index 3."""
    fabric = ExpectedFabric(
        ports=("mlx5_1",), rate_gbit=100, link_layer="Ethernet", subnet_manager=False, gid_index=index
    )
    machine = h100()
    plan = machine.plan.model_copy(update={"expected": Expected(fabric=fabric)})
    tree = machine.evidence.results["ib-sysfs"].stdout.decode()
    for place, (gid, kind) in enumerate(
        (
            ("fe80:0000:0000:0000:0a00:00ff:fe00:0001", "IB/RoCE v1"),
            ("fe80:0000:0000:0000:0a00:00ff:fe00:0001", "RoCE v2"),
            ("0000:0000:0000:0000:0000:ffff:c000:0205", "IB/RoCE v1"),
            ("0000:0000:0000:0000:0000:ffff:c000:0205", "RoCE v2"),
        )
    ):
        tree += f"mlx5_1/ports/1/gids/{place}:{gid}\nmlx5_1/ports/1/gid_attrs/types/{place}:{kind}\n"
    machine = replace(machine, title=f"RoCE port, index {index}", plan=plan)
    for key in ("ib-sysfs", "ib-sysfs-later"):
        machine = machine.answered(key, tree, _OURS)
    return machine


def _crossed() -> Assembled:
    """The recorded container with a bridge above the GPUs whose ACS bits are set."""
    evidence = acs(bridge("0000:00:01.0", 0x1D), bridge("0000:40:01.0", 0))
    plan = TUNED.model_copy(update={"roles": TUNED.roles.model_copy(update={"site_base": None})})
    base = recorded("provisioned")
    kept = ("os-release", "uname", "meminfo", "failed-units")
    results = {**evidence.results, **{key: base.results[key] for key in kept}, "virt": Result(1, b"none\n", b"", 0.1)}
    return Assembled("container with two GPUs", plan, replace(evidence, results=results), {"acs": _OURS})


def _fresh(refusal: str) -> Assembled:
    """A machine before apply whose package tool gives this answer."""
    plan = host_plan().model_copy(update={"expected": Expected(packages=("nvidia-open-580",))})
    before = recorded("before")
    results = {**recorded("provisioned").results, **before.results}
    evidence = replace(recorded("provisioned"), results=results, read_at=before.read_at)
    machine = Assembled("machine before apply", plan, evidence, {})
    machine = machine.answered("dmesg", "[    0.000000] Linux version 6.8.0\n", _OURS)
    return machine.answered("package-solution", refusal, _OURS)


def sata(passed: bool) -> Assembled:
    """A machine whose one disk is no NVMe drive, with what smartctl says of it."""
    base = recorded("provisioned")
    disk = (
        host_plan()
        .disks[3]
        .model_copy(update={"by_id": "/dev/disk/by-id/ata-DISK_LAB3", "purpose": "kept", "signatures": ()})
    )
    plan = host_plan().model_copy(update={"disks": (disk,), "roles": RoleConfigs(), "expected": Expected(smart=True)})
    document = {"smartctl": {"exit_status": 0 if passed else 8}, "smart_status": {"passed": passed}}
    machine = Assembled("one SATA disk", plan, base, {})
    machine = machine.answered("dmesg", "[    0.000000] Linux version 6.8.0\n", _OURS)
    return machine.answered(f"smartctl:{disk.by_id}", json.dumps(document) + "\n", _OURS)


def _worn(field: str, value: int) -> Assembled:
    disk = h100().plan.disks[1]
    return h100().edited(f"nvme-smart:{disk.by_id}", rf'"{field}": \d+', f'"{field}": {value}')


_DKMS = """Error:
 Problem: cannot install the best candidate for the job
  - nothing provides dkms >= 3.1.8 needed by kmod-nvidia-open-dkms-3:580.126.09-1.el9.noarch from cuda
"""
_RDMA = """Error:
 Problem: cannot install both libibverbs-2501.0-1.el9.x86_64 from doca and libibverbs-54.0-1.el9.x86_64 from baseos
"""
_UNMET = """The following packages have unmet dependencies:
 cuda-drivers-580 : Depends: nvidia-driver-580 (= 580.126.09-1) but 580.95.05-0ubuntu1 is to be installed
E: Unable to correct problems, you have held broken packages.
"""
_STANDBY = "sminfo: sm lid 7 sm guid 0xa088c20300000009, activity count 12 priority 0 state 2 SMINFO_STANDBY\n"
_FABRIC = (
    shown(
        "one port without a cable",
        "ib/ibstat_h100_one_polling.txt",
        "ibstat",
        {"ib-ports": ("", "mlx5_10: Down, Polling, 10 Gbit/s")},
    ),
    shown(
        "no subnet manager",
        "ib/ibstat_h100_all_initializing_no_sm.txt",
        "ibstat",
        {"ib-ports": ("no-manager", "mlx5_0: Initializing")},
    ),
    shown(
        "one port at 200",
        "ib/ibstat_h100_one_at_200.txt",
        "ibstat",
        {"ib-ports": ("rate", "mlx5_5: Active, LinkUp, 200")},
    ),
    shown(
        "ibstat breaks off",
        "ib/ibstat_h100_partial_then_panic.txt",
        "ibstat",
        {"ib-adapters": ("panic", "mlx5_8")},
        rc=255,
    ),
    Fault(
        "no adapter, and ibstat ends with 0",
        "ib/errors/ibstat_no_device.txt",
        lambda: h100().answered("ibstat", "", "ib/errors/ibstat_no_device.txt"),
        {"ib-adapters": ("none", "no adapter at all")},
    ),
    Fault(
        "link up, port down",
        "ib/ibstat_vf_down_linkup.txt",
        _virtual,
        {"ib-ports": ("address", "mlx5_6: Down, LinkUp")},
    ),
    shown(
        "ib_umad not loaded",
        "ib/errors/sminfo_no_umad.txt",
        "sminfo",
        {"ib-manager": ("umad", "Failed to open")},
        rc=255,
    ),
    shown("no subnet manager answers", "ib/sminfo_query_failed.txt", "sminfo", {"ib-manager": ("", "query")}, rc=255),
    Fault(
        "two subnet managers",
        "B050",
        lambda: h100().answered("sminfo", _STANDBY, _OURS),
        {"ib-manager": ("several", "STANDBY")},
    ),
    shown(
        "half width, no issue observed",
        "ib/mlxlink_ndr_2x.txt",
        f"mlxlink:{RAILS[3]}",
        {"ib-cable": ("width", "2x: No issue")},
    ),
    shown("no cable", "ib/mlxlink_no_cable.txt", f"mlxlink:{RAILS[0]}", {"ib-cable": ("", "able")}),
    Fault(
        "two of four lanes",
        _OURS,
        lambda: h100().edited("ib-sysfs", r"(mlx5_9/ports/1/rate:).*", r"\g<1>200 Gb/sec (2X NDR)"),
        {"ib-width": ("", "mlx5_9: 200 Gb/sec (2X NDR)")},
    ),
    Fault(
        "one adapter with older firmware",
        _OURS,
        lambda: h100().edited("ib-sysfs", r"(mlx5_9/fw_ver:).*", r"\g<1>28.36.1010"),
        {"ib-firmware": ("", "28.36.1010 on 1")},
    ),
    Fault(
        "a counter that rises",
        _OURS,
        lambda: h100().edited("ib-sysfs-later", r"(mlx5_4/ports/1/counters/symbol_error:)0", r"\g<1>40"),
        {"ib-counters": ("", "mlx5_4 symbol_error: +40")},
    ),
    Fault(
        "ib_core without peer clients",
        "B044",
        lambda: _direct("peermem"),
        {"ib-gpu-direct": ("", "no peer clients")},
    ),
    Fault(
        "nvidia_peermem refused by the kernel",
        "B044",
        lambda: logged(
            _direct("peermem").edited("nvidia-driver", r"== peer-client\n0", "== peer-client\n1"),
            "[ 20.1] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n",
            _OURS,
        ),
        {"ib-gpu-direct": ("rebuild", "refused")},
    ),
    Fault("fixed GID index", "B059", lambda: roce(1), {"ib-gid": ("", "index 3, the launch files say 1")}),
    Fault("ACS bits set above GPUs", "B055", _crossed, {"tuning-acs": ("", "1 of 2 bridges")}),
)
_MACHINE = (
    Fault("a SATA drive fails its own test", _OURS, lambda: sata(False), {"drive-test": ("", "its own test fails")}),
    Fault("drive unreliable", _OURS, lambda: _worn("critical_warning", 4), {"drive-health": ("", "unreliable")}),
    Fault("drive too hot", _OURS, lambda: _worn("critical_warning", 2), {"drive-health": ("hot", "too hot")}),
    Fault("media errors", _OURS, lambda: _worn("media_errors", 12), {"drive-health": ("media", "12 media errors")}),
    Fault("drive worn out", _OURS, lambda: _worn("percent_used", 104), {"drive-health": ("worn", "104 %")}),
    Fault(
        "drive does not answer",
        _OURS,
        lambda: logged(h100(), "[9.1] nvme nvme3: controller is down; will reset: CSTS=0xffffffff\n", _OURS),
        {"drive-log": ("", "nvme down")},
    ),
    Fault(
        "drive in a slot of two lanes",
        "nhc#90",
        lambda: h100().edited("lspci", r"(18:00.0 (?:.*\n)+?.*LnkSta:.*Width) x4", r"\1 x2", count=1),
        {"pcie-links": ("width", "18:00.0: drive at 16GT/s x2")},
    ),
    Fault(
        "adapter at an older generation",
        "l2fwd-nv#6",
        lambda: h100().edited("lspci", r"(1a:00.0 (?:.*\n)+?.*LnkSta:\tSpeed )32GT/s", r"\g<1>16GT/s", count=1),
        {"pcie-links": ("", "1a:00.0: network adapter at 16GT/s")},
    ),
    shown(
        "fan stopped, power supply failed", "ipmi/sdr_mixed.txt", "ipmi-sdr", {"bmc-sensors": ("power", "FAN7: 0 RPM")}
    ),
    Fault(
        "no management controller",
        "ipmi/errors/no_device.txt",
        lambda: (
            h100()
            .answered("ipmi-sdr", "", "ipmi/errors/no_device.txt", rc=1, stderr=sample("ipmi/errors/no_device.txt"))
            .answered("ipmi-sel", "", "ipmi/errors/no_device.txt", rc=1, stderr=sample("ipmi/errors/no_device.txt"))
        ),
        {"bmc-sensors": ("", "ended with status 1"), "bmc-events": ("", "ended with status 1")},
    ),
    shown(
        "uncorrectable memory error in the event log",
        "ipmi/sel_ecc.txt",
        "ipmi-sel",
        {"bmc-events": ("", "1 uncorrectable")},
    ),
    Fault(
        "nothing provides dkms",
        "B014",
        lambda: _fresh(_DKMS),
        {"package-solution": ("nothing-provides", "dkms >= 3.1.8")},
        "before",
    ),
    Fault(
        "rdma-core of two sources",
        "B047",
        lambda: _fresh(_RDMA),
        {"package-solution": ("conflict", "libibverbs")},
        "before",
    ),
    Fault(
        "driver packages of two sources",
        "B012",
        lambda: _fresh(_UNMET),
        {"package-solution": ("unmet", "unmet")},
        "before",
    ),
)
MACHINE_FAULTS = (*_FABRIC, *_MACHINE)
