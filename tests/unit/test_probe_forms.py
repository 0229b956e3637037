"""Output forms of which no recording is kept here: constructed in the tools' documented layout, cut and altered."""

from __future__ import annotations

import json
import time

import pytest

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of, form_of

SMARTCTL = """smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-18-amd64] (local build)

=== START OF INFORMATION SECTION ===
Model Number:                       VENDOR GEN5 3.84TB
Serial Number:                      SERIAL0000

=== START OF SMART DATA SECTION ===
SMART overall-health self-assessment test result: {health}

SMART/Health Information (NVMe Log 0x02)
Critical Warning:                   0x00
Temperature:                        45 Celsius
Available Spare:                    100%
Percentage Used:                    3%
Power On Hours:                     1,340
Media and Data Integrity Errors:    0
"""
SMARTCTL_JSON = {
    "json_format_version": [1, 0],
    "smartctl": {"version": [7, 3], "argv": ["smartctl"], "exit_status": 8},
    "device": {"name": "/dev/nvme0", "type": "nvme"},
    "model_name": "VENDOR GEN5 3.84TB",
    "serial_number": "SERIAL0000",
    "smart_status": {"passed": False, "nvme": {"value": 4}},
    "nvme_smart_health_information_log": {"critical_warning": 4, "media_errors": 12, "percentage_used": 104},
    "temperature": {"current": 45},
}
NVME_TABLE = """Node                  Generic      SN           Model        Namespace Usage     Format  FW Rev
--------------------- --------------------- -------------------- ------------ --------- --------- ------- --------
/dev/nvme0n1          /dev/ng0n1  SERIAL0000  VENDOR GEN5  0x1  3.84  TB /   3.84  TB  512   B + 0 B FW1
/dev/nvme1n1          /dev/ng1n1  SERIAL0001  VENDOR GEN5  0x1  3.84  TB /   3.84  TB  512   B + 0 B FW1
"""
NVME_SMART = """Smart Log for NVME device:nvme0 namespace-id:ffffffff
critical_warning                        : 0x1
temperature                             : 38 °C (311 K)
available_spare                         : 9%
available_spare_threshold               : 10%
percentage_used                         : 3%
endurance group critical warning summary: 0
media_errors                            : 2
num_err_log_entries                     : 17
"""
IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
	default gid:	 fe80:0000:0000:0000:0000:0000:0000:0001
	base lid:	 0x30
	sm lid:		 0x1
	state:		 4: ACTIVE
	phys state:	 5: LinkUp
	rate:		 400 Gb/sec (4X NDR)
	link_layer:	 InfiniBand

"""
LATENCY = """---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 2       1000          0.97           4.10         1.01              1.02            0.05
---------------------------------------------------------------------------------------
"""
DMIDECODE = """# dmidecode 3.4
Getting SMBIOS data from sysfs.
SMBIOS 3.3.0 present.

Handle 0x0001, DMI type 1, 27 bytes
System Information
	Manufacturer: VENDOR
	Product Name: AlphaPro660
	Serial Number: SERIAL0000

Handle 0x0011, DMI type 17, 92 bytes
Memory Device
	Size: 64 GB
	Locator: A1
	Configured Memory Speed: 4800 MT/s

Handle 0x0012, DMI type 17, 92 bytes
Memory Device
	Size: No Module Installed
	Locator: A2

"""
TRACKING = """Reference ID    : C0A80001 (ntp.example)
Stratum         : 3
Ref time (UTC)  : Mon Nov 30 10:00:00 2026
System time     : 0.000120000 seconds slow of NTP time
Last offset     : -0.000010000 seconds
Leap status     : Normal
"""
SOURCES = """MS Name/IP address         Stratum Poll Reach LastRx Last sample
===============================================================================
^* 192.0.2.1                     2   6   377    34    -12us[  -15us] +/-   11ms
^- 192.0.2.2                     3   6   377    33   +102us[ +102us] +/-   31ms
"""
DPKG = """Desired=Unknown/Install/Remove/Purge/Hold
| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend
|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)
||/ Name                 Version          Architecture Description
+++-====================-================-============-===========
hi  nvidia-driver        580.126.09-1     amd64        driver
ii  libc6:amd64          2.36-9           amd64        library
iF  nvidia-dkms          580.126.09-1     amd64        module
rc  old-tool             1.0              amd64        gone
"""
FALLEN = """[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0
               NVRM: (PCI ID: 10de:26b5) installed in this system has
               NVRM: fallen off the bus and is not responding to commands.
"""
SXID = """[   10.000000] nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted
[   11.000000] nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
[   11.000001] nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00
"""
AER = """[  100.000000] pcieport 0000:40:01.1: AER: Corrected error message received from 0000:41:00.0
[  100.000010] nvme 0000:41:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)
[  200.000000] nvidia 0000:51:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)
"""
SENSOR = """CPU1 Temp        | 45.000 | degrees C  | ok | 5.000 | 5.000 | 10.000 | 90.000 | 95.000 | 95.000
PS2 Status       | 0x9        | discrete   | 0x0100| na        | na        | na        | na        | na        | na
"""
FAILED = """  UNIT                LOAD   ACTIVE SUB    DESCRIPTION
● nvidia-fabricmanager.service loaded failed failed NVIDIA fabric manager service

LOAD   = Reflects whether the unit definition was properly loaded.
1 loaded units listed.
"""
STATUS = """● nvidia-persistenced.service - NVIDIA Persistence Daemon
     Loaded: loaded (/lib/systemd/system/nvidia-persistenced.service; enabled; preset: enabled)
     Active: inactive (dead)
  Condition: start condition failed at Mon 2026-11-30 10:00:00 UTC; 1min ago
"""
DNF = """Error:
 Problem: cannot install the best candidate for the job
  - nothing provides dkms >= 3.1.8 needed by kmod-nvidia-open-dkms-3:580.126.09-1.el9.noarch from cuda
(try to add '--skip-broken' to skip uninstallable packages)
"""
NODES = "".join(
    f"NodeName={name} Arch=x86_64 CoresPerSocket=2 \n   Gres=gpu:h100:8(S:0-1)\n   RealMemory=20000 AllocMem=0\n"
    f"   State={state} ThreadsPerCore=1\n   CfgTRES=cpu=2\n   AllocTRES=\n{reason}\n"
    for name, state, reason in (("n1", "MIXED", ""), ("n2", "DOWN*", "   Reason=Not responding [slurm@2026]\n"))
)
BENCH = """============ Serving Benchmark Result ============
Successful requests:                     1024
Benchmark duration (s):                  63.81
Output token throughput (tok/s):         2993.85
Total Token throughput (tok/s):          6455.63
---------------Time to First Token----------------
P99 TTFT (ms):                           2301.28
==================================================
"""
METRICS = """vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:gpu_cache_usage_perc{model_name="m"} 0.5
"""

CASES: tuple[tuple[str, dict[str, object]], ...] = (
    (SMARTCTL.format(health="PASSED"), {"passed": True, "temp_c": 45, "media_errors": 0, "power_on_hours": 1340}),
    (SMARTCTL.format(health="FAILED!"), {"passed": False, "verdict": "fail", "serial": "SERIAL0000"}),
    (json.dumps(SMARTCTL_JSON, indent=2), {"rc": 8, "passed": False, "media_errors": 12, "percent_used": 104}),
    (NVME_TABLE, {"drives": 2, "serials": ["SERIAL0000", "SERIAL0001"]}),
    (NVME_SMART, {"temp_c": 38, "critical_warning": 1, "avail_spare": 9, "media_errors": 2}),
    (IBSTATUS, {"mlx5_0": "400 Gb/sec (4X NDR)", "mlx5_0.state": "4: ACTIVE"}),
    (LATENCY, {"lat_us": 1.01, "size": 2}),
    (DMIDECODE, {"product": "AlphaPro660", "slots": 2, "dimms": 1, "memory_mib": 65536, "speeds": ["4800 MT/s"]}),
    (TRACKING, {"offset_s": -0.00012, "stratum": 3, "synchronised": True}),
    (TRACKING.replace("Normal", "Not synchronised"), {"synchronised": False, "verdict": "fail"}),
    (SOURCES, {"sources": ["192.0.2.1", "192.0.2.2"], "selected": "192.0.2.1"}),
    ("506 Cannot talk to daemon\n", {"error": True, "rc": 1}),
    (DPKG, {"nvidia-driver": "580.126.09-1", "held": ["nvidia-driver"], "broken": ["nvidia-dkms"], "packages": 2}),
    (
        "fm:\n  Installed: 580.1-1\n  Candidate: 590.4-1\n  Version table:\n",
        {"installed": "580.1-1", "candidate": "590.4-1"},
    ),
    (FALLEN, {"xids": [], "fallen": True, "fallen_off_bus": ["0000:b3:00"], "verdict": "fail"}),
    (SXID, {"sxids": [12028, 20034], "fatal": True, "verdict": "fail"}),
    (AER, {"aer_corrected": 1, "aer_uncorrected": 1, "aer": ["0000:41:00.0", "0000:51:00.0"], "verdict": "fail"}),
    ("[    1.0] usb 1-1: new device\n", {"xids": [], "verdict": "pass"}),
    (SENSOR, {"sensors": ["CPU1 Temp", "PS2 Status"], "psu_fault": ["PS2 Status"], "bad": ["PS2 Status"]}),
    (FAILED, {"failed": ["nvidia-fabricmanager.service"], "verdict": "fail"}),
    (STATUS, {"state": "inactive", "sub": "dead", "active": False}),
    ("inactive\n", {"state": "inactive", "rc": 3}),
    (DNF, {"error": "nothing_provides", "what": "dkms >= 3.1.8", "rc": 1}),
    (
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 9 (apt)\n",
        {"error": "lock", "rc": 100},
    ),
    ("E: Conflicting values set for option Signed-By regarding source https://d.example/ /\n", {"error": "signed_by"}),
    (NODES, {"nodes": {"n1": "MIXED", "n2": "DOWN+NOT_RESPONDING"}, "verdict": "fail"}),
    ("unmunge: Error: Expired credential\n", {"rc": 15}),
    ('munge: Error: Failed to access "/run/munge/munge.socket.2": No such file or directory\n', {"rc": 6}),
    (
        "slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory\n",
        {"error": "can't stat gres.conf file"},
    ),
    (
        "sminfo: sm lid 1 sm guid 0x1, activity count 9 priority 14 state 3 SMINFO_MASTER\n",
        {"sm_lid": 1, "state": "MASTER"},
    ),
    ("No IB devices found\n", {"rc": 255, "devices": []}),
    (BENCH, {"successful": 1024, "out_tok_s": 2993.85, "total_tok_s": 6455.63, "p99_ttft_ms": 2301.28}),
    (METRICS, {"running": 3.0, "kv_cache_usage": 0.5, "engines": 2}),
    ("", {"cas": [], "rc": 0}),
)


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text.strip()[:24] for text, _ in CASES])
def test_form(text: str, expected: dict[str, object]) -> None:
    got = facts_of(text.encode())
    assert {key: got.get(key, "absent") for key in expected} == expected


@pytest.mark.parametrize("text", [text for text, _ in CASES if len(text) > 30], ids=lambda text: text.strip()[:24])
def test_cut_within_the_last_line(text: str) -> None:
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.rstrip()[:-2].encode())


# What the tools print in a German locale: translated labels, decimal commas.
@pytest.mark.parametrize(
    "text",
    [
        "Architektur:                     x86_64\nCPU(s):                          2\n",
        LATENCY.replace(".", ","),
        TRACKING.replace("0.000120000", "0,000120000"),
        BENCH.replace("2993.85", "2.993,85"),
        METRICS.replace("2.0", "2,0"),
        NVME_SMART.replace("9%", "9,5%"),
    ],
    ids=["lscpu", "perftest", "chrony", "bench", "metrics", "nvme"],
)
def test_another_locale_is_refused(text: str) -> None:
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.encode())


@pytest.mark.parametrize("unit", [b"\n", b" ", b"\t\n"], ids=repr)
def test_ten_megabytes_of_blanks_end_soon(unit: bytes) -> None:
    start = time.perf_counter()
    assert form_of(unit * (10_000_000 // len(unit))) is None
    assert time.perf_counter() - start < 2
