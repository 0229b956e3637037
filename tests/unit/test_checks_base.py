"""Every check of site_base and host_tuning: passes on a host as it was made, fails on one that was broken.

The reading is that of a container that both roles were applied to; clock, limits of a session, policy and processor,
which a container shares with its host, are written as a server answers.
"""

from __future__ import annotations

import pytest

from llmhw_provision.checks import table
from llmhw_provision.checks.texts import TEXTS
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_base import (
    AptMirror,
    Certificate,
    Firewall,
    HostEntry,
    HostTuningConfig,
    Limits,
    Proxy,
    ServiceUser,
    SiteBaseConfig,
)
from llmhw_provision.probes import tuning
from tests.roles.checked import AREAS, planned
from tests.unit.recordings import recorded, replaced, swapped

BASE = SiteBaseConfig(
    certificates=(Certificate(name="site", file="ca/site.pem"),),
    apt_mirrors=(
        AptMirror(name="mirror", uri="http://127.0.0.1:8000", suites=("./",), components=(), key_file="keys/site.asc"),
    ),
    dnf_mirrors=(),
    mirrors_only=False,
    python_index="https://pypi.example.org/simple",
    proxy=Proxy(url="http://proxy.example.org:3128", no_proxy=(), credentials_file="secrets/proxy"),
    host_entries=(HostEntry(name="node8", address="192.0.2.8"), HostEntry(name="node9", address="192.0.2.9")),
    time_servers=("192.0.2.123",),
    packages=("llmhw-probe",),
    users=(ServiceUser(name="slurm", uid=64030, gid=64030), ServiceUser(name="munge", uid=64130, gid=64130)),
    firewall=Firewall(ports=("22/tcp", "29500/tcp", "32768-60999/tcp"), sources=("192.0.2.2", "192.0.2.3")),
)
TUNING = HostTuningConfig(
    profile="server",
    sysctl={"net.core.somaxconn": "8192", "vm.swappiness": "10"},
    limits=Limits(memlock_kib=None, nofile_soft=65536, nofile_hard=1048576),
    governor="performance",
    hugepages="madvise",
    command_line=("iommu=pt", "transparent_hugepage=madvise"),
    acs="report",
    mask=("sleep.target", "suspend.target"),
)
HOST = planned(RoleConfigs(site_base=BASE, host_tuning=TUNING))


def bridge(address: str, control: int) -> bytes:
    """A line of the reading: a bridge with AER at 0x100 and ACS at 0x140."""
    config = bytearray(4096)
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x140 << 20).to_bytes(4, "little")
    config[0x140:0x144] = (0x000D | 1 << 16).to_bytes(4, "little")
    config[0x146:0x148] = control.to_bytes(2, "little")
    return f"{address} {config.hex()}\n".encode()


def acs(*lines: bytes) -> Evidence:
    return replaced(recorded("based"), "acs", Result(0, b"gpus 2\n" + b"".join(lines), b"", 0.1))


GOOD = acs(bridge("0000:00:01.0", 0), bridge("0000:40:01.0", 0))
BROKEN: list[tuple[str, Evidence, str, str]] = [
    ("base-user slurm", swapped(GOOD, "site-users", "slurm:x:64030:64030", "slurm:x:999:64030"), "fail", "uid 999"),
    ("base-user munge", swapped(GOOD, "site-users", "munge:x:64130:\n", "munge:x:1:\n"), "fail", "gid 1"),
    ("base-user munge", swapped(GOOD, "site-users", "munge:", "other:"), "fail", "no such user"),
    ("base-names", swapped(GOOD, "host-names", "192.0.2.8\n", ""), "fail", "node8 is unknown, not 192.0.2.8"),
    ("base-names", swapped(GOOD, "host-names", "192.0.2.8", "192.0.2.77"), "fail", "node8 is 192.0.2.77"),
    ("base-names", swapped(GOOD, "host-names", "192.0.2.9", "127.0.1.1\n192.0.2.9"), "warn", "node9 is also loopback"),
    ("base-ca site", swapped(GOOD, "ca-trust", "trusted\n", ""), "fail", "not trusted"),
    ("base-source mirror", swapped(GOOD, "package-sources", "key-there\n", ""), "fail", "missing"),
    ("base-source mirror", swapped(GOOD, "package-sources", ":8000", ":8001"), "fail", "http://127.0.0.1:8001"),
    ("base-source mirror", swapped(GOOD, "package-sources", "uri=", "none="), "fail", "no such source"),
    ("base-package llmhw-probe", swapped(GOOD, "packages", " installed", " config-files"), "fail", "config-files"),
    (
        "base-credentials",
        swapped(GOOD, "proxy-files", "proxy|root|root|600", "proxy|root|root|644"),
        "fail",
        "mode 0644",
    ),
    ("base-package llmhw-probe", swapped(GOOD, "packages", "installed", "triggers-pending"), "pass", "pending"),
    ("base-credentials", swapped(GOOD, "proxy-files", "env|root", "env|joe"), "fail", "joe"),
    ("base-index", swapped(GOOD, "pip-conf", "index-url", "# index-url"), "fail", "the public index"),
    ("base-clock", swapped(GOOD, "clock", "== ntp\nyes", "== ntp\nno"), "pass", "0.000 s off"),
    ("base-clock", swapped(GOOD, "clock", "Normal", "Not synchronised"), "fail", "not synchronised"),
    ("base-clock", swapped(GOOD, "clock", "-0.000021457", "-3600.1"), "fail", "3600.100 s off"),
    ("base-clock", swapped(GOOD, "clock", "-0.000021457", "0.25"), "warn", "0.250 s off"),
    (
        "base-firewall",
        swapped(GOOD, "firewall", '{"jump": {"target": "llmhw"}}', '{"accept": null}'),
        "fail",
        "all of them",
    ),
    ("base-firewall", swapped(GOOD, "firewall", '"192.0.2.3"', '"192.0.2.4"'), "fail", "22/tcp from 192.0.2.3"),
    ("base-firewall", swapped(GOOD, "firewall", "29500", "29501"), "fail", "29500/tcp from 192.0.2.2"),
    ("base-firewall", swapped(GOOD, "firewall", "== ufw\n", "== ufw\n(None)\n"), "fail", "ufw lets nothing in"),
    ("base-firewall", swapped(GOOD, "firewall", "== firewalld\n", "== firewalld\nllmhw\n"), "fail", "not 22/tcp"),
    ("tuning-sysctl vm.swappiness", swapped(GOOD, "sysctl", "swappiness=10", "swappiness=60"), "fail", "60"),
    (
        "tuning-sysctl vm.swappiness",
        swapped(GOOD, "sysctl", "swappiness=10", "swappiness=?"),
        "warn",
        "no such setting",
    ),
    ("tuning-limits", swapped(GOOD, "limits", "memlock=unlimited", "memlock=8192"), "fail", "memlock 8192"),
    (
        "tuning-limits",
        swapped(GOOD, "limits", "MEMLOCK=infinity", "MEMLOCK=8388608"),
        "fail",
        "DefaultLimitMEMLOCK 8388608",
    ),
    (
        "tuning-governor",
        swapped(GOOD, "policy", "    128 performance", "  4 powersave\n124 performance"),
        "fail",
        "on 4",
    ),
    ("tuning-governor", swapped(GOOD, "policy", "    128 performance\n", ""), "warn", "no CPU frequency"),
    ("tuning-hugepages", swapped(GOOD, "policy", "always [madvise]", "[always] madvise"), "fail", "always"),
    ("tuning-command-line", swapped(GOOD, "policy", "iommu=pt ", ""), "fail", "without iommu=pt"),
    (
        "tuning-sleep suspend.target",
        swapped(GOOD, "sleep", "suspend.target=masked", "suspend.target=static"),
        "fail",
        "static",
    ),
    ("tuning-acs", acs(bridge("0000:00:01.0", 0x1D), bridge("0000:40:01.0", 0)), "warn", "1 of 2 bridges"),
    ("tuning-cpu", swapped(GOOD, "cpu-care", "0x12f", "0x11d"), "warn", "microcode 0x11d"),
    ("tuning-cpu", swapped(GOOD, "cpu-care", "253000000", "4095999878"), "warn", "4096 W"),
]


def findings(evidence: Evidence) -> dict[str, table.Finding]:
    found = [table.judge(item, evidence) for item in table.items(HOST, "quick") if item.check.area in AREAS]
    return {f"{item.check} {item.subject}".strip(): item for item in found}


def test_every_check_passes_on_the_host_as_it_was_made_and_is_broken_here() -> None:
    found = findings(GOOD)
    assert {key: item.found for key, item in found.items() if item.status != "pass"} == {}
    checks = {check.id for check in table.CHECKS if check.area in AREAS}
    assert {item.check for item in found.values()} == checks
    assert {key.split()[0] for key, _, status, _ in BROKEN if status != "pass"} == checks


@pytest.mark.parametrize(("key", "evidence", "status", "says"), BROKEN, ids=[f"{c[0]}: {c[3]}" for c in BROKEN])
def test_what_is_broken_is_found(key: str, evidence: Evidence, status: str, says: str) -> None:
    finding = findings(evidence)[key]
    assert (finding.status, says in finding.found) == (status, True), finding.found
    assert status == "pass" or (finding.cause and finding.next_step)


@pytest.mark.parametrize("item", [i for i in table.items(HOST, "quick") if i.check.area in AREAS], ids=lambda i: i.name)
def test_a_check_without_its_evidence_could_not_run(item: table.Item) -> None:
    nothing = table.judge(item, Evidence("vm-01", "machine", {}))
    cut = table.judge(item, replaced(GOOD, item.check.evidence, Result(0, b"== half a li", b"", 0.1)))
    assert (nothing.status, cut.status) == ("could-not-run", "could-not-run")


def test_acs_that_was_to_be_cleared_is_a_failure() -> None:
    host = planned(RoleConfigs(host_tuning=TUNING.model_copy(update={"acs": "clear"})))
    evidence = acs(bridge("0000:00:01.0", 0x1D))
    (item,) = (item for item in table.items(host, "quick") if item.check.id == "tuning-acs")
    finding = table.judge(item, evidence)
    assert (finding.status, finding.next_step) == ("fail", TEXTS["tuning-acs/planned"].next_step)
    assert "SrcValid ReqRedir CmpltRedir UpstreamFwd" in finding.found


def test_the_control_bits_are_found_behind_other_capabilities_and_loops_end() -> None:
    assert tuning.parse_acs(bytes.fromhex(bridge("x", 0x5D).decode().split()[1])) == (
        "SrcValid",
        "ReqRedir",
        "CmpltRedir",
        "UpstreamFwd",
        "DirectTrans",
    )
    assert tuning.parse_acs(bytes(64)) is None
    assert tuning.parse_acs(bytes(4096)) is None
    loop = bytearray(4096)
    loop[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert tuning.parse_acs(bytes(loop)) is None


def test_one_gpu_has_no_other_to_talk_to() -> None:
    one = swapped(acs(bridge("0000:00:01.0", 0x1D)), "acs", "gpus 2", "gpus 1")
    assert findings(one)["tuning-acs"].status == "pass"


def test_no_role_no_question() -> None:
    assert [i for i in table.items(planned(RoleConfigs()), "quick") if i.check.area in AREAS] == []


def test_a_processor_that_is_not_concerned_passes() -> None:
    epyc = swapped(GOOD, "cpu-care", "Intel(R) Core(TM) i9-14900K", "AMD EPYC 9755 128-Core Processor")
    assert findings(swapped(epyc, "cpu-care", "0x12f", "0x1"))["tuning-cpu"].status == "pass"


def test_addresses_of_the_other_family_are_not_asked_of_a_table_that_never_sees_them() -> None:
    base = BASE.model_copy(update={"firewall": Firewall(ports=("22/tcp",), sources=("192.0.2.2", "2001:db8::2"))})
    host = planned(RoleConfigs(site_base=base))
    (item,) = (item for item in table.items(host, "quick") if item.check.id == "base-firewall")
    assert "22/tcp from 2001:db8::2" in table.judge(item, GOOD).found
    ip = swapped(GOOD, "firewall", '"family": "inet"', '"family": "ip"')
    assert table.judge(item, ip).status == "pass"
