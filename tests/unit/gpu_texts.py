"""Outputs of the GPU tools of which no recording is at hand, written after the tools' sources."""

from __future__ import annotations

from llmhw_provision.probes.registry import facts_of, form_of


def read(text: str) -> dict[str, object]:
    """What is read in an output."""
    return facts_of(text.encode())


def form(text: str) -> str:
    """The name of the output's form; empty when none knows it."""
    found = form_of(text.encode())
    return found.name if found else ""


def gpu(index: int, name: str = "NVIDIA H100 80GB HBM3") -> str:
    """The line above the links of a GPU."""
    return f"GPU {index}: {name} (UUID: GPU-00000000-0000-0000-0000-{index:012})\n"


TABLE = """Wed Aug 12 21:53:45 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.90.12              Driver Version: 550.90.12      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   32C    P0             69W /  700W |     437MiB /  81559MiB |      3%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:43:00.0 Off |                 ERR! |
|ERR!  ERR!  ERR!            N/A  /  N/A  |     437MiB /  81559MiB |     N/A         ERR! |
|                                         |                        |                 ERR! |
+-----------------------------------------+------------------------+----------------------+
"""


def counters(replay: int) -> str:
    """Error counters of two GPUs' links; one counts `replay`."""
    return "".join(
        gpu(index)
        + "".join(
            f"\t Link {link}: {name} Errors: {replay if (index, link, name) == (1, 4, 'Replay') else 0}\n"
            for link in range(18)
            for name in ("Replay", "Recovery", "CRC")
        )
        for index in range(2)
    )


MATRIX = """\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-55\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t56-111\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_0
"""


QUERY = """
==============NVSMI LOG==============

Timestamp                                 : Wed Jun  7 19:32:16 2023
Driver Version                            : 535.104.12
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Clocks Throttle Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    Fabric
        State                             : Completed
        Status                            : Success
    Processes                             : None
GPU 00000000:43:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Clocks Throttle Reasons
        Idle                              : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    Fabric
        State                             : In Progress
        Status                            : N/A
    Processes                             : None
"""


HEAD = "#       size         count      type   redop    root  " + "     time   algbw   busbw #wrong" * 2
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.5 \n#\n"
ROW = "  1073741824  268435456  float  sum  -1   4053.3  264.90  463.58      0   4057.4  264.64  463.12      0"


DIAG4 = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 4.4.2                                          |
| Driver Version Detected   | 580.105.08                                     |
| GPU Device IDs Detected   | 2237, 2237                                     |
|-----  Deployment  --------+------------------------------------------------|
| software                  | Pass                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Pass                                     |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Fail                                     |
| Warning: GPU1             | Error in memory te                             |
+-----  Stress  ------------+------------------------------------------------+
| targeted_power            | Skip                                           |
|                           | GPU0: Skip                                     |
|                           | GPU1: Skip                                     |
+---------------------------+------------------------------------------------+
"""


STATUS = """● nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; vendor preset: enabled)
     Active: active (running) since Mon 2026-11-30 10:00:00 UTC; 2min ago
   Main PID: 1120 (nv-fabricmanage)

Nov 30 10:00:00 node01 nv-fabricmanager[1120]: Connected to 1 node.
"""


BANDWIDTH = """nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 13000
CUDA Driver Version: 13000
Driver Version: 580.95.05

node01
Device 0: NVIDIA H100 80GB HBM3 (00000000:1b:00)
Device 1: NVIDIA H100 80GB HBM3 (00000000:43:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.30     55.10

&&&& PERF host_to_device_memcpy_ce 110.40 +GB/s

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    377.20
 1    377.10       N/A

SUM device_to_device_memcpy_read_ce 754.30

MIN device_to_device_memcpy_read_ce 377.10
Running multinode_device_to_device_memcpy_read_ce.
Waived:
Running host_device_latency_sm.
memory latency SM CPU(row) <-> GPU(column) (ns)
           0         1
 0    772.58    773.20

SUM host_device_latency_sm 1545.78
"""
