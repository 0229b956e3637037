"""Faults that the table does not seed, by case or sample, and why."""

from __future__ import annotations

_LOAD = "shows under load: belongs to levels standard and burn-in, which have no checks of it yet; its probe reads it"
_OTHER = "output of a command that no check asks: "
_ARRAY = "the same fault, recorded with our own commands on our VM, is in tests/unit/test_checks.py"
ELSEWHERE = {
    "B112": "a package that the plan of DCGM must name; that role is not planned yet",
    "block/nvme_list_json_none.txt": _OTHER + "disks are listed by lsblk, and disk-present names a missing one",
    "bw/bandwidthTest_802.txt": _LOAD,
    "bw/nvbandwidth_h100_8gpu_gpu5_gen4.txt": _LOAD,
    "fio/fio333_missing_md0_creates_file.json": _LOAD,
    "ib/errors/ibstatus_no_device.txt": _OTHER + "ibstat and sysfs tell the same",
    "ib/errors/ibv_devinfo_no_device.txt": _OTHER + "ibstat and sysfs tell the same",
    "ib/ib_write_bw_timeout.txt": _LOAD,
    "ib/iblinkinfo_excerpt.txt": _OTHER + "it shows the whole fabric; each host's own ports are asked",
    "mdadm/detail_raid0_broken_failed.txt": _ARRAY,
    "mdadm/mdstat_inactive_raid0.txt": _ARRAY,
    "mdadm/mdstat_raid0_md127_7of8.txt": _ARRAY,
    "nccl/all_reduce_fatal_system_not_ready.txt": _LOAD,
    "nccl/all_reduce_h100_2node_fallback_2p7.txt": _LOAD,
    "nccl/all_reduce_h100_8gpu_truncated.txt": _LOAD,
    "nccl/all_reduce_nccl_unhandled_system_error.txt": _LOAD,
    "slurm/show_node_json_option_22.05.txt": _OTHER + "scontrol is asked without --json, which 22.05 does not know",
    "slurm/srun_unavailable.txt": _OTHER + "slurm-node tells why the node is not available",
    "stress/gpu_burn_faulty.txt": _LOAD,
    "stress/gpu_burn_system_not_ready.txt": _LOAD,
}
