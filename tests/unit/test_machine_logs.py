"""What the comparison of apply with a script by hand reads out of a machine's logs."""

from __future__ import annotations

import pytest

from benchmarks.gpu_apply import Spent, State, table, unlike, wanted
from benchmarks.machine_logs import (
    Transaction,
    added,
    by_source,
    dpkg_runs,
    sessions_and_logins,
    sources,
    transactions,
    unpacked,
)
from llmhw_provision.plan.model import RoleConfigs
from tests.unit.test_gpu_stack import cuda, nccl, plan
from tests.unit.test_plan_driver import planned

VENDOR, DEBIAN = "http://127.0.0.1:8000", "http://deb.debian.org/debian"
HISTORY = """
Start-Date: 2026-12-01  02:08:50
Commandline: apt-get install -y kmod
Install: kmod:amd64 (30+20221128-1)
End-Date: 2026-12-01  02:09:29
"""
MORE = """
Start-Date: 2026-12-01  02:11:21
Commandline: apt-get install -y dkms=3.0.10-8+deb12u1 nvidia-open=580.159.03-1
Requested-By: vagrant (1000)
Install: patch:amd64 (2.7.6-7+deb12u1, automatic), dkms:amd64 (3.0.10-8+deb12u1), nvidia-open:amd64 (580.159.03-1)
End-Date: 2026-12-01  02:11:39

Start-Date: 2026-12-01  02:12:10
Commandline: apt-get install -y libnccl2=2.30.7-1+cuda13.0
Downgrade: libnccl2:amd64 (2.32.3-1+cuda13.1, 2.30.7-1+cuda13.0)
Remove: libnccl-dev:amd64 (2.32.3-1+cuda13.1)
Error: Sub-process /usr/bin/dpkg returned an error code (1)
End-Date: 2026-12-01  02:12:12

Start-Date: 2026-12-01  02:13:00
Commandline: apt-get purge bzip2
Purge: bzip2:amd64 (1.0.8-5+b1)
"""
POLICY = """\
dkms:
  Installed: 3.0.10-8+deb12u1
  Candidate: 3.0.10-8+deb12u1
  Version table:
 *** 3.0.10-8+deb12u1 500
        500 http://deb.debian.org/debian bookworm/main amd64 Packages
        100 /var/lib/dpkg/status
nvidia-open:
  Installed: 580.159.03-1
  Candidate: 580.159.03-1
  Version table:
     590.48.01-1 500
        500 http://127.0.0.1:8000 ./ Packages
 *** 580.159.03-1 1001
        500 http://127.0.0.1:8000 ./ Packages
        100 /var/lib/dpkg/status
libnccl2:
  Installed: 2.30.7-1+cuda13.0
  Candidate: 2.32.3-1+cuda13.1
  Version table:
     2.32.3-1+cuda13.1 500
        500 http://127.0.0.1:8000 ./ Packages
 *** 2.30.7-1+cuda13.0 500
        500 http://127.0.0.1:8000 ./ Packages
        100 /var/lib/dpkg/status
"""
DPKG = """\
2026-12-01 02:11:21 startup archives unpack
2026-12-01 02:11:21 install patch:amd64 <none> 2.7.6-7+deb12u1
2026-12-01 02:11:21 status half-installed patch:amd64 2.7.6-7+deb12u1
2026-12-01 02:11:21 status unpacked patch:amd64 2.7.6-7+deb12u1
2026-12-01 02:11:21 status unpacked dkms:all 3.0.10-8+deb12u1
2026-12-01 02:11:22 startup packages configure
2026-12-01 02:11:22 configure patch:amd64 2.7.6-7+deb12u1 <none>
2026-12-01 02:11:22 status unpacked patch:amd64 2.7.6-7+deb12u1
2026-12-01 02:11:22 status half-configured patch:amd64 2.7.6-7+deb12u1
2026-12-01 02:11:22 status installed patch:amd64 2.7.6-7+deb12u1
"""
SSHD = """\
Server listening on 0.0.0.0 port 22.
Connection from 192.0.2.1 port 56236 on 192.0.2.10 port 22 rdomain ""
Accepted key ED25519 SHA256:kSOy found at /home/vagrant/.ssh/authorized_keys:1
Postponed publickey for vagrant from 192.0.2.1 port 56236 ssh2 [preauth]
Accepted key ED25519 SHA256:kSOy found at /home/vagrant/.ssh/authorized_keys:1
Accepted publickey for vagrant from 192.0.2.1 port 56236 ssh2: ED25519 SHA256:kSOy
Starting session: command for vagrant from 192.0.2.1 port 56236 id 0
Close session: user vagrant from 192.0.2.1 port 56236 id 0
Starting session: subsystem 'sftp' for vagrant from 192.0.2.1 port 56236 id 1
Accepted publickey for vagrant from 192.0.2.1 port 36416 ssh2: ED25519 SHA256:kSOy
Starting session: command for vagrant from 192.0.2.1 port 36416 id 0
Starting session: shell on pts/0 for vagrant from 192.0.2.1 port 5623 id 0
"""


def test_a_run_is_what_the_log_has_gained() -> None:
    assert [one.command for one in transactions(added(HISTORY, HISTORY + MORE))] == [
        "apt-get install -y dkms=3.0.10-8+deb12u1 nvidia-open=580.159.03-1",
        "apt-get install -y libnccl2=2.30.7-1+cuda13.0",
        "apt-get purge bzip2",
    ]
    assert transactions(added(HISTORY, HISTORY)) == ()
    with pytest.raises(ValueError, match="replaced"):
        added(HISTORY, MORE)


def test_a_transaction_names_what_comes_in_the_version_that_comes() -> None:
    first, second, third = transactions(MORE)
    assert first.packages == {
        "patch": "2.7.6-7+deb12u1",
        "dkms": "3.0.10-8+deb12u1",
        "nvidia-open": "580.159.03-1",
    }
    assert second.packages == {"libnccl2": "2.30.7-1+cuda13.0"}
    assert third.packages == {}


def test_transactions_are_counted_for_each_source_that_they_drew_on() -> None:
    offered = sources(POLICY)
    assert offered["nvidia-open", "590.48.01-1"] == VENDOR
    assert by_source(transactions(MORE)[:2], offered) == {VENDOR: 2, DEBIAN: 1, "unknown": 1}
    whole = {**offered, ("patch", "2.7.6-7+deb12u1"): DEBIAN}
    assert by_source(transactions(MORE), whole) == {DEBIAN: 1, VENDOR: 2}
    assert by_source((Transaction("apt-get install x", {"nvidia-open": "1"}),), offered) == {"unknown": 1}


def test_dpkg_says_unpacked_again_as_it_configures() -> None:
    assert unpacked(DPKG) == (3, 2)
    assert dpkg_runs(DPKG) == 2


def test_the_looks_own_connection_is_not_counted() -> None:
    assert sessions_and_logins(SSHD, ()) == (4, 2)
    assert sessions_and_logins(SSHD, {("192.0.2.1", "36416")}) == (3, 1)
    assert sessions_and_logins(SSHD, {("192.0.2.1", "36416"), ("192.0.2.1", "56236")}) == (1, 0)


def test_the_script_is_told_what_the_plan_asks_for_as_it_is_installed() -> None:
    found = plan()
    roles = RoleConfigs(nvidia_driver=planned(), cuda=found.cuda, nccl=found.nccl)
    names = [*planned().needs, *(item.name for item in planned().packages)]
    names += [entry.partition("=")[0] for entry in (*cuda(found).packages, *nccl(found).packages)]
    installed = dict.fromkeys(names, "1-1")
    assert wanted(roles, installed) == tuple(f"{name}=1-1" for name in names)
    profiler = cuda(found).profiler[-1]
    assert f"{profiler}=2" in wanted(roles, {**installed, profiler: "2", "bzip2": "3"})
    with pytest.raises(KeyError, match="libnccl2"):
        wanted(roles, {name: "1-1" for name in names if name != "libnccl2"})
    with pytest.raises(KeyError, match="no GPU stack"):
        wanted(RoleConfigs(), installed)


def test_end_states_that_differ_are_named() -> None:
    ours, hand = State({"a": "1", "b": "2"}, frozenset({"a", "b"})), State({"b": "3", "c": "1"}, frozenset({"a"}))
    assert list(unlike(ours, ours)) == []
    assert list(unlike(ours, hand)) == [
        "a: 1 by apply, none by hand",
        "b: 2 by apply, 3 by hand",
        "c: none by apply, 1 by hand",
        "on hold by apply alone: b",
    ]
    assert State({"a": "1", "b": "3"}, frozenset({"a"})).since(State({"a": "1", "b": "2"}, frozenset())) == State(
        {"b": "3"}, frozenset({"a"})
    )


def test_what_was_not_counted_is_no_zero() -> None:
    row = Spent(
        what="reboot",
        seconds=61.25,
        changes=None,
        transactions=0,
        by_source={},
        packages=0,
        unpacked_lines=0,
        dpkg_runs=0,
        sessions=None,
        logins=None,
    )
    *_, last = table([row])
    assert last == "| reboot | 61.2 | - | 0 | - | 0 | 0 | - | - |"
