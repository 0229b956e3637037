"""Layouts of other versions of network, storage and host tools, after their sources, and what is read in them."""

from __future__ import annotations

import json

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


DRAINED = json.dumps(
    {
        "meta": {"plugin": {"type": "openapi"}, "slurm": {"version": {"major": "24"}}},
        "sinfo": [{"node": {"state": ["IDLE", "DRAIN"]}}, {"node": {"state": ["IDLE"]}}],
        "errors": [],
    }
)
OLD_DRAINED = json.dumps({"meta": {"Slurm": {}}, "nodes": [{"name": "n1", "state": "idle", "state_flags": ["DRAIN"]}]})


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
OTHER_CASES: dict[str, tuple[str, str, dict[str, object]]] = {
    "MiB/sec": (PERFTEST_MIB, "perftest", {"mib_s": 46302.22, "gbps": 388.41, "size": 65536}),
    "service level": (PERFTEST_QOS, "perftest table", {"gbps": 388.42, "size": 65536}),
    "perftest JSON": (PERFTEST_JSON, "perftest --out_json", {"average": 388.42, "peak": 389.1}),
    "perftest latency JSON": (PERFTEST_LATENCY_JSON, "perftest --out_json", {"lat_us": 1.01, "size": 2}),
    "fio text": (FIO_TEXT, "fio", {"read_bw_bytes": 92_400_000_000, "gb_s": 92.4, "jobs": 1, "verdict": "pass"}),
    "worn drive": (SMART_WORN, "smartctl -j", {"passed": True, "avail_spare": 5, "verdict": "fail"}),
    "mlxlink JSON": (MLXLINK_JSON, "mlxlink --json", {"width": "4x", "verdict": "pass"}),
    "rdma JSON": (RDMA_JSON, "rdma -j link", {"mlx5_0": "ACTIVE", "mlx5_0.netdev": "ib0"}),
    "sminfo": (SMINFO, "sminfo", {"sm_lid": 1, "state": "MASTER"}),
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
    "no drive": (SMART_ABSENT, "smartctl", {"error": True, "rc": 2}),
    "unsent": (SENSORS, "ipmitool sdr", {"sensors": ["Fan1", "ECC"], "verdict": "pass"}),
    "power": (POWER, "ipmitool dcmi power reading", {"power_w": 4167, "power_max_w": 9422}),
    "no NUMA": ("No NUMA support available on this system.\n", "numactl without NUMA", {"error": True}),
    "ibdev2netdev": (CARDS, "ibdev2netdev", {"mlx5_0": "ibp24s0"}),
}
