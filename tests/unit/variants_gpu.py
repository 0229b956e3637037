"""Layouts of other versions of the GPU tools, written after their sources and recordings, and what is read in them."""

from __future__ import annotations

import json

_GPU = "| {}      | Name: NVIDIA H100 80GB HBM3                                            |\n"
_REST = (
    "|        | PCI Bus ID: 00000000:{}B:00.0                                           |\n"
    "|        | Device UUID: GPU-00000000-0000-0000-0000-00000000000{}                  |\n"
    "+--------+------------------------------------------------------------------------+\n"
)
_TABLE = (
    "+--------+------------------------------------------------------------------------+\n"
    "| GPU ID | Device Information                                                     |\n"
    "+--------+------------------------------------------------------------------------+\n"
)
DISCOVERY = (
    "2 GPUs found (Active).\nNote: Use -a flag to show all GPUs, including those that are not active.\n" + _TABLE
)
DISCOVERY += _GPU.format(0) + _REST.format(1, 0) + _GPU.format(1) + _REST.format(4, 1)
DISCOVERY += "4 NvSwitches found.\n+-----------+\n| Switch ID |\n+-----------+\n| 0         |\n+-----------+\n"
DISCOVERY += "0 ConnectX found.\n0 CPUs found.\n"
LINK_STATUS = """+----------------------+
|  NvLink Link Status  |
+----------------------+
GPUs:
    gpuId 0:
        U U D U
    Link Entities: 0:0000 1:0256 2:0512
                   3:0768
NvSwitches:
    No NvSwitches found.

Key: Up=U, Down=D, Disabled=X, Not Supported=_
"""
LINK_ERRORS = """+-----------------------------+------------------------------------------------+
| NVLINK Error Counts                                                          |
| GPU 0                                                                        |
+=============================+================================================+
| Link 0                      |                                                |
| -> CRC FLIT Error           | 0                                              |
| -> Replay Error             | 3                                              |
+-----------------------------+------------------------------------------------+
"""
HEALTH = """+---------------------------+----------------------------------------------------------+
| Health Monitor Report                                                                |
+===========================+==========================================================+
| Overall Health            | Warning                                                  |
| GPU                       |                                                          |
| -> 0                      | Warning                                                  |
+---------------------------+----------------------------------------------------------+
"""
DIAG_4_JSON = json.dumps(
    {
        "DCGM Diagnostic": {
            "test_categories": [
                {
                    "category": "Hardware",
                    "tests": [
                        {
                            "name": "eud",
                            "results": [
                                {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
                                {"entity_group": "CPU", "entity_group_id": 7, "entity_id": 0, "status": "Fail"},
                            ],
                            "test_summary": {"status": "Fail"},
                        },
                        {"name": "memory", "results": [], "test_summary": {"status": "Fail"}},
                    ],
                }
            ]
        },
        "metadata": {"version": "4.5.0", "Driver Version Detected": "580.126.09"},
    },
    indent=2,
)
NVIDIA_384 = """Mon Nov 30 10:00:00 2026
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 384.81                 Driver Version: 384.81                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 0000:06:00.0     Off |                    0 |
| N/A   36C    P0    44W / 300W |     10MiB / 16152MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""
INFOROM = "WARNING: infoROM is corrupted at gpu 0000:06:00.0\n"
NCCL = """# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 34359738368 step: 2(factor) warmup iters: 5 iters: 20
# Reducing maxBytes to 25571491840 due to memory limitation
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  1073741824     268435456     float     sum      -1   4053.3  264.90  463.58      0   4057.4  264.64  463.12      0
 17179869184    4294967296     float     sum      -1    62000  277.10  484.92      0    62010  277.05  484.84      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 474.115
#
"""
NCCL_JSON = json.dumps(
    {
        "version": 1,
        "start_time": "2026-11-30T10:00:00",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-J", "out.json"],
        "config": {"nthreads": 1, "ngpus": 1, "minimum_bytes": 1024, "maximum_bytes": 1024, "step_factor": 2},
        "results": [
            {
                "size": 1024,
                "count": 256,
                "redop": "sum",
                "root": "-1",
                "out_of_place": {"alg_bw": 1.5, "bus_bw": 2.5, "nwrong": 0.0},
                "in_place": {"alg_bw": 1.5, "bus_bw": 2.25, "nwrong": 0.0},
            }
        ],
        "out_of_bounds": {"count": 0, "okay": True},
        "average_bus_bandwidth": {"bandwidth": 2.375, "okay": "unchecked"},
    },
    separators=(",", ":"),
)
SHMOO = """[CUDA Bandwidth Test] - Starting...
Running on...

 Device 0: Tesla V100-PCIE-32GB
 Shmoo Mode

bandwidthTest-H2D-Pinned, Bandwidth = 12.1 GB/s, Time = 0.00137 s, Size = 16776192 bytes, NumDevsUsed = 1
bandwidthTest-H2D-Pinned, Bandwidth = 12.3 GB/s, Time = 0.00546 s, Size = 67186688 bytes, NumDevsUsed = 1
Result = PASS
"""


DMESG_ISO = (
    "kern  :warn  : 2026-11-30T10:00:00,285060+00:00 NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    "kern  :err   : 2026-11-30T10:00:01,000000+00:00 nvidia: module verification failed: signature and/or required key "
    "missing - tainting kernel\n"
)
KMSG = "6,3964,206764307,-;nvidia-nvswitch2: open\n4,3965,206764310,-;NVRM: Xid (PCI:0000:9b:00): 63, Row Remapper\n"


_CYAN, _END = "\x1b[1;36m", "\x1b[0;0m"
VLLM = f"""{_CYAN}(APIServer pid=1){_END} INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.11.0
{_CYAN}(Worker rank=0 pid=9){_END} INFO 11-30 10:00:40 [kv_cache_utils.py:1087] GPU KV cache size: 620,944 tokens
{_CYAN}(APIServer pid=1){_END} INFO:     Application startup complete.
"""


THROUGHPUT = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)
""" + "".join(f"\t Link {n}: Data Tx: {n} KiB\n\t Link {n}: Data Rx: 0 KiB\n" for n in range(18))


HOT = """index, clocks_event_reasons.hw_thermal_slowdown, remapped_rows.pending, ecc.errors.uncorrected.volatile.total
0, Active, No, 0
1, Not Active, Yes, 2
2, Not Active, No, [N/A]
"""
GERMAN = "    Clocks Event Reasons\n        HW Slowdown                       : Nicht aktiv\n"
GPU_CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "DCGM 4.6 discovery": (DISCOVERY, "dcgmi discovery", {"nvswitches": 4, "inactive_gpus": True}),
    "link entities": (LINK_STATUS, "dcgmi nvlink --link-status", {"down": 1, "up": 3, "verdict": "fail"}),
    "link errors": (LINK_ERRORS, "dcgmi nvlink -e", {"errors": 3, "nonzero": {"Link 0": {"Replay Error": 3}}}),
    "health": (HEALTH, "dcgmi health", {"overall_health": "Warning", "verdict": "warn"}),
    "DCGM 4 JSON": (DIAG_4_JSON, "dcgmi diag -j", {"fail": ["eud CPU0", "memory"], "dcgm": "4.5.0", "verdict": "fail"}),
    "driver 384": (NVIDIA_384, "nvidia-smi", {"driver": "384.81", "cuda": None, "gpus": ["GPU0"]}),
    "damaged infoROM": (
        NVIDIA_384 + INFOROM,
        "nvidia-smi",
        {"error": "inforom_corrupted", "inforom_corrupted": ["0000:06:00.0"], "verdict": "fail"},
    ),
    "less memory": (NCCL, "nccl-tests", {"complete": True, "verdict": "pass", "max_size": 17179869184}),
    "nccl JSON": (NCCL_JSON, "nccl-tests -J", {"complete": True, "avg_busbw": 2.375, "nwrong": 0}),
    "shmoo": (SHMOO, "bandwidthTest", {"h2d": 12.3, "verdict": "pass"}),
    "dmesg -x --time-format=iso": (DMESG_ISO, "dmesg", {"xids": [79], "fallen_off_bus": ["0000:9b:00"], "errors": []}),
    "/dev/kmsg": (KMSG, "dmesg", {"xids": [63], "verdict": "warn"}),
    "hot and faulty GPUs": (
        HOT,
        "nvidia-smi --query-gpu",
        {
            "faults": {
                "0": ["clocks_event_reasons.hw_thermal_slowdown"],
                "1": ["remapped_rows.pending", "ecc.errors.uncorrected.volatile.total"],
            },
            "verdict": "fail",
        },
    ),
    "nvlink -gt d": (
        THROUGHPUT,
        "nvidia-smi nvlink",
        {"links_per_gpu": 18, "data_tx": 153, "nonzero": {}, "errors": 0},
    ),
    "coloured log": (VLLM, "vLLM log", {"ready": True, "kv_cache_tokens": 620944, "version": "0.11.0"}),
}
