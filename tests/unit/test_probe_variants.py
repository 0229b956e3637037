"""Layouts of other versions of the tools, written after their sources and recordings: read right, or not at all."""

from __future__ import annotations

import contextlib
import json

import pytest

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of, form_of

PERFTEST_MIB = """                    RDMA_Write Bidirectional BW Test
 Dual-port       : OFF          Device         : mlx5_0
 Link type       : IB
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      5000             46303.10            46302.22                 0.740836
---------------------------------------------------------------------------------------
"""
PERFTEST_QOS = """ #bytes    #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      3           5000           389.10            388.42                 0.740836
---------------------------------------------------------------------------------------
"""
PERFTEST_JSON = """{
"test_info": {
"test": "RDMA_Write_BW_Test",
"Device": "mlx5_0"
},
"results": {
"MsgSize": 65536,
"n_iterations": 5000,
"BW_peak": 389.10,
"BW_average": 388.42,
"MsgRate": 0.740836
}
}
"""
PERFTEST_LATENCY_JSON = """{
"test_info": {
"test": "RDMA_Write_Latency_Test"
},
"results": {
"MsgSize": 2,
"n_iterations": 1000,
"t_min": 0.97,
"t_max": 4.10,
"t_typical": 1.01,
"t_avg": 1.02
}
}
"""
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
FIO_TEXT = """seqread: (g=0): rw=read, bs=(R) 1024KiB-1024KiB, (W) 1024KiB-1024KiB, (T) 1024KiB-1024KiB, ioengine=libaio
...
fio-3.36
Starting 8 processes

seqread: (groupid=0, jobs=8): err= 0: pid=4711: Mon Nov 30 10:00:00 2026
  read: IOPS=88.1k, BW=86.0GiB/s (92.4GB/s)(5163GiB/60006msec)

Run status group 0 (all jobs):
   READ: bw=86.0GiB/s (92.4GB/s), 86.0GiB/s-86.0GiB/s (92.4GB/s-92.4GB/s), io=5163GiB (5544GB), run=60006-60006msec

Disk stats (read/write):
    md0: ios=5286912/0, merge=0/0, ticks=0/0, in_queue=0, util=0.00%
"""
DMESG_ISO = (
    "kern  :warn  : 2026-11-30T10:00:00,285060+00:00 NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    "kern  :err   : 2026-11-30T10:00:01,000000+00:00 nvidia: module verification failed: signature and/or required key "
    "missing - tainting kernel\n"
)
KMSG = "6,3964,206764307,-;nvidia-nvswitch2: open\n4,3965,206764310,-;NVRM: Xid (PCI:0000:9b:00): 63, Row Remapper\n"
SMART_WORN = json.dumps(
    {
        "smartctl": {"version": [7, 3], "exit_status": 0},
        "model_name": "VENDOR",
        "smart_status": {"passed": True},
        "nvme_smart_health_information_log": {
            "critical_warning": 0,
            "available_spare": 5,
            "available_spare_threshold": 10,
        },
    }
)
MLXLINK_JSON = json.dumps(
    {
        "result": {
            "output": {
                "Operational Info": {
                    "State": "Active",
                    "Physical state": "LinkUp",
                    "Speed": "IB-NDR",
                    "Width": "4x",
                },
                "Troubleshooting Info": {"Status Opcode": "0", "Recommendation": "No issue was observed"},
            }
        }
    }
)
RDMA_JSON = '[{"ifindex":0,"ifname":"mlx5_0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"ib0"}]\n'
SMINFO = "sminfo: sm lid 1 sm guid 0xe8ebd30300a1b2c3, activity count 12345 priority 14 state 3 SMINFO_MASTER\n"
CARDS = "mlx5_0 port 1 ==> ibp24s0 (Down)\n"
MDSTAT = """Personalities : [raid0] [raid1]
md0 : broken raid0 nvme1n1[1] nvme0n1[0]
      7501212672 blocks super 1.2 512k chunks

md1 : active raid1 sda1[0]
      1046528 blocks super 1.2 [2/1] [U_]

unused devices: <none>
"""
EXAMINE = """/dev/nvme0n1:
          Magic : a92b4efc
        Version : 1.2
     Array UUID : 7e81a856:abb9c1c2:4b71237a:9778cc66
           Name : node01:scratch  (local to host node01)
     Raid Level : raid0
   Raid Devices : 8
          State : clean
   Device Role : Active device 3
   Array State : AAAAAAAA ('A' == active, '.' == missing, 'R' == replacing)
"""
SCAN = "ARRAY /dev/md/scratch metadata=1.2 name=node01:scratch UUID=7e81a856:abb9c1c2:4b71237a:9778cc66\n"
TIMEDATECTL = """                      Local time: Mon 2026-11-30 10:00:00 UTC
                  Universal time: Mon 2026-11-30 10:00:00 UTC
                       Time zone: Etc/UTC (UTC, +0000)
       System clock synchronized: no
"""
DPKG_ON_A_SCREEN = """||/ Name              Version          Architecture         Description
+++-=================-================-====================-==================================
ii  acl               2.2.52-3build1   amd64                Access control list utilities
ii  amd64-microcode   3.20191021.1+rea amd64                Processor microcode firmware
"""
GRES = (
    "slurmd: Gres Name=gpu Type=h100 Count=3 Index=0-2 ID=7696487 File=/dev/nvidia[0-1,7] Links=-1,0 Flags=HAS_FILE\n"
)
NO_NODES = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*         up   infinite      0    n/a \n"
FDR10 = 'CA: node01 mlx5_0:\n  0x1  1  1[  ] ==( 4X           FDR10 Active/  LinkUp)==>  2  13[  ] "switch" ( )\n'
_TAB = "\t\t\t"
VERBOSE = f"""hca_id:\tmlx5_0
\ttransport:{_TAB}InfiniBand (0)
\tdevice_cap_flags:\t\t0x25361c36
{_TAB}\t\tBAD_PKEY_CNTR
\tphys_port_cnt:{_TAB}1
\t\tport:\t1
{_TAB}state:{_TAB}PORT_ACTIVE (4)
{_TAB}port_lmc:\t\t0x00
{_TAB}link_layer:\t\tInfiniBand
{_TAB}GID[  0]:\t\tfe80:0000:0000:0000:e8eb:d303:00a1:b2c3
"""
_CYAN, _END = "\x1b[1;36m", "\x1b[0;0m"
VLLM = f"""{_CYAN}(APIServer pid=1){_END} INFO 11-30 10:00:00 [api_server.py:1896] vLLM API server version 0.11.0
{_CYAN}(Worker rank=0 pid=9){_END} INFO 11-30 10:00:40 [kv_cache_utils.py:1087] GPU KV cache size: 620,944 tokens
{_CYAN}(APIServer pid=1){_END} INFO:     Application startup complete.
"""
SMART_ABSENT = """smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-18-amd64] (local build)

Smartctl open device: /dev/nvme9 failed: No such device
"""
SENSORS = "Fan1 | 9000 RPM | ok\nUnable to send command: Invalid argument\nECC | Not Readable | ns\n"
POWER = """
    Instantaneous power reading:                   4167 Watts
    Minimum during sampling period:                124 Watts
    Maximum during sampling period:                9422 Watts
    Average power reading over sample period:      3156 Watts
    Power reading state is:                   activated
"""
THROUGHPUT = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)
""" + "".join(f"\t Link {n}: Data Tx: {n} KiB\n\t Link {n}: Data Rx: 0 KiB\n" for n in range(18))
DRAINED = json.dumps(
    {
        "meta": {"plugin": {"type": "openapi"}, "slurm": {"version": {"major": "24"}}},
        "sinfo": [{"node": {"state": ["IDLE", "DRAIN"]}}, {"node": {"state": ["IDLE"]}}],
        "errors": [],
    }
)
OLD_DRAINED = json.dumps({"meta": {"Slurm": {}}, "nodes": [{"name": "n1", "state": "idle", "state_flags": ["DRAIN"]}]})
HOT = """index, clocks_event_reasons.hw_thermal_slowdown, remapped_rows.pending, ecc.errors.uncorrected.volatile.total
0, Active, No, 0
1, Not Active, Yes, 2
2, Not Active, No, [N/A]
"""
CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "MiB/sec": (PERFTEST_MIB, "perftest", {"mib_s": 46302.22, "gbps": 388.41, "size": 65536}),
    "service level": (PERFTEST_QOS, "perftest table", {"gbps": 388.42, "size": 65536}),
    "perftest JSON": (PERFTEST_JSON, "perftest --out_json", {"average": 388.42, "peak": 389.1}),
    "perftest latency JSON": (PERFTEST_LATENCY_JSON, "perftest --out_json", {"lat_us": 1.01, "size": 2}),
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
    "fio text": (FIO_TEXT, "fio", {"read_bw_bytes": 92_400_000_000, "gb_s": 92.4, "jobs": 1, "verdict": "pass"}),
    "dmesg -x --time-format=iso": (DMESG_ISO, "dmesg", {"xids": [79], "fallen_off_bus": ["0000:9b:00"], "errors": []}),
    "/dev/kmsg": (KMSG, "dmesg", {"xids": [63], "verdict": "warn"}),
    "worn drive": (SMART_WORN, "smartctl -j", {"passed": True, "avail_spare": 5, "verdict": "fail"}),
    "mlxlink JSON": (MLXLINK_JSON, "mlxlink --json", {"width": "4x", "verdict": "pass"}),
    "rdma JSON": (RDMA_JSON, "rdma -j link", {"mlx5_0": "ACTIVE", "mlx5_0.netdev": "ib0"}),
    "sminfo": (SMINFO, "sminfo", {"sm_lid": 1, "state": "MASTER"}),
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
    "drained": (DRAINED, "sinfo --json", {"states": ["idle+drain", "idle"]}),
    "drained in 22.05": (OLD_DRAINED, "sinfo --json", {"states": ["idle+drain"], "nodes": ["n1"]}),
    "broken mdstat": (MDSTAT, "/proc/mdstat", {"verdict": "fail"}),
    "mdadm --examine": (
        EXAMINE,
        "mdadm --examine",
        {"level": "raid0", "devices": 8, "role": 3, "name": "node01:scratch"},
    ),
    "mdadm --scan": (SCAN, "mdadm --detail --scan", {"arrays": ["/dev/md/scratch"]}),
    "no array": ("mdadm: cannot open /dev/md0: No such file or directory\n", "mdadm error", {"error": True, "rc": 1}),
    "timedatectl": (TIMEDATECTL, "timedatectl", {"synchronised": False, "timezone": "Etc/UTC"}),
    "dpkg on a screen": (
        DPKG_ON_A_SCREEN,
        "dpkg -l",
        {"acl": "2.2.52-3build1", "amd64-microcode": "(missing)", "cut": ["amd64-microcode"], "packages": 2},
    ),
    "gres": (GRES, "slurmd -G", {"count": 3, "files": ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia7"]}),
    "partition without nodes": (NO_NODES, "sinfo", {"states": ["n/a"]}),
    "FDR10": (FDR10, "iblinkinfo", {"active": 1}),
    "ibv_devinfo -v": (VERBOSE, "ibv_devinfo", {"mlx5_0": "ACTIVE", "state": "PORT_ACTIVE"}),
    "coloured log": (VLLM, "vLLM log", {"ready": True, "kv_cache_tokens": 620944, "version": "0.11.0"}),
    "no drive": (SMART_ABSENT, "smartctl", {"error": True, "rc": 2}),
    "unsent": (SENSORS, "ipmitool sdr", {"sensors": ["Fan1", "ECC"], "verdict": "pass"}),
    "power": (POWER, "ipmitool dcmi power reading", {"power_w": 4167, "power_max_w": 9422}),
    "no NUMA": ("No NUMA support available on this system.\n", "numactl without NUMA", {"error": True}),
    "ibdev2netdev": (CARDS, "ibdev2netdev", {"mlx5_0": "ibp24s0"}),
}


@pytest.mark.parametrize("name", CASES)
def test_variant(name: str) -> None:
    text, form, expected = CASES[name]
    found = form_of(text.encode())
    assert found is not None
    assert found.name == form
    facts = facts_of(text.encode())
    assert {key: facts.get(key, "(missing)") for key in expected} == expected


@pytest.mark.parametrize(
    "text",
    [
        "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n[1594978465.914536] 64 bytes from 192.0.2.1: icmp_seq=1\n",
        "P: /devices/pci0000:00/0000:00:10.0/block/sda\nE: DEVNAME=/dev/sda\n",
    ],
)
def test_what_only_looks_like_one_of_our_tools(text: str) -> None:
    assert form_of(text.encode()) is None


@pytest.mark.parametrize("name", CASES)
def test_other_line_ends_marks_and_blanks_change_no_fact(name: str) -> None:
    raw = CASES[name][0].encode()
    whole = facts_of(raw)
    for dressed in (raw.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + raw, raw.replace(b"\n", b"  \n")):
        with contextlib.suppress(ProbeError):
            assert facts_of(dressed) == whole


GERMAN = "    Clocks Event Reasons\n        HW Slowdown                       : Nicht aktiv\n"
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 1
\t\tSM lid: 1
\t\tPort GUID: 0x1
\t\tLink layer: InfiniBand
"""
METRICS = 'vllm:num_requests_running{engine="0"} 3.0\n'
NODE = "NodeName=n1 Arch=x86_64 \n   Gres=gpu:8\n   RealMemory=1\n   State=IDLE\n   CfgTRES=cpu=2\n   AllocTRES=\n"


@pytest.mark.parametrize("text", [IBSTAT, VERBOSE, METRICS, NODE, GRES, HOT, NO_NODES, THROUGHPUT])
def test_an_output_that_is_there_twice_is_not_counted_twice(text: str) -> None:
    facts_of(text.encode())
    with pytest.raises(ProbeError, match="could not read"):
        facts_of((text + text).encode())


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (IBSTAT, "State: Active", "State: Aktiv"),
        (FDR10, "Active", "Aktiv"),
        (NVIDIA_384, "384.81", "384,81"),
        ("GPU 00000000:18:00.0\n" + GERMAN, "", ""),
        ("    Fabric\n        State : N/A\n    FB Memory Usage\n        Used : 12,5 MiB\n", "", ""),
        ("==============NVSMI LOG==============\nGPU 00000000:18:00,0\n    Product Name : X\n", "", ""),
    ],
)
def test_other_words_and_commas_are_not_taken_for_values(text: str, old: str, new: str) -> None:
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.replace(old, new).encode())


def test_what_is_quoted_is_short_and_does_nothing_to_a_terminal() -> None:
    with pytest.raises(ProbeError) as refused:
        facts_of(SENSORS.replace("| ok", "| " + "\x1b]0;title\x07\x1b[" * 300 + "ok").encode())
    said = str(refused.value)
    assert said.startswith("could not read output of an unknown tool: Fan1 | 9000 RPM | ")
    assert said.isprintable()
    assert len(said) < 400


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (NCCL.replace("25571491840", "255714918400"), "complete"),  # the memory would have sufficed for 32 GiB
        (NCCL.replace("# Reducing maxBytes to 25571491840 due to memory limitation\n", ""), "complete"),
    ],
)
def test_a_run_without_its_last_size_is_incomplete(text: str, why: str) -> None:
    assert facts_of(text.encode())[why] is False
    assert facts_of(text.encode())["verdict"] == "error: incomplete"


@pytest.mark.parametrize(
    "text",
    [
        PERFTEST_MIB.replace("MiB/sec", "Mpps"),
        FIO_TEXT + FIO_TEXT,
        FIO_TEXT.partition("Run status")[0],
        NCCL_JSON.replace('"nwrong":0.0', '"nwrong":"nan"'),
        NCCL_JSON.replace("2.5", "NaN"),
        NCCL.replace("463.58", "9" * 5000),
        NVIDIA_384.replace("N/A   36C", "a" * 70000),
        RDMA_JSON.replace("[{", "[" * 100_000 + "{"),
    ],
)
def test_what_is_not_read(text: str) -> None:
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.encode())
