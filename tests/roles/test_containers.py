"""The containers that all role tests stand on: they are real machines, and nothing is left of them."""

import ipaddress
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import testinfra

from tests.containers.base import private_key
from tests.containers.commands import LabError, call
from tests.containers.container import CommandFailed, Container
from tests.containers.identity import Identity
from tests.containers.lab import Lab, obstacle
from tests.containers.leftovers import reap, traces
from tests.containers.machine import groups, processes
from tests.containers.network import free_subnet, nameservers
from tests.containers.play import PlayFailed, ansible
from tests.containers.plugin import StartMany
from tests.containers.settings import Settings

pytestmark = [
    pytest.mark.container,
    pytest.mark.skipif(obstacle() is not None, reason=obstacle() or "containers work here"),
]

_REPO = Path(__file__).resolve().parents[2]
# A pytest session of its own, which this one watches: "ready" gets the lab's identity, then the end happens.
_SESSION = """
import json, time
from pathlib import Path
from tests.containers.leftovers import traces
from tests.containers.play import ansible

def test_in_between(container_lab, containers):
    machines = containers(1)
    identity = container_lab.identity
    assert traces(identity)
    Path({ready!r}).write_text(json.dumps([identity.key, str(identity.work)]))
    {end}
"""
_PLAY = "ansible(machines, [{'ansible.builtin.command': 'sleep 60'}], facts=False)"


def test_one_container_is_a_whole_machine(container: Container) -> None:
    state = container.run("systemctl is-system-running && hostname && stat -c %U /root && id -u")
    assert state.stdout.split() == ["running", container.name, "root", "0"]
    (container.root / "etc/motd").write_text("written from outside\n")
    host = testinfra.get_host(f"ssh://{container.name}", ssh_config=str(container.ssh_config))
    assert host.file("/etc/motd").content_string == "written from outside\n"
    assert host.service("ssh").is_running
    assert host.system_info.codename == "bookworm"


def test_a_failing_command_shows_its_output(container: Container) -> None:
    with pytest.raises(CommandFailed, match=r"exit 3\nseen"):
        container.run("echo seen; exit 3")
    assert container.run(["sh", "-c", "exit 4"], check=False).returncode == 4
    assert container.run(["cat"], given="a b").stdout == "a b"


def test_several_reach_each_other_by_ssh(containers: StartMany) -> None:
    first, *others = containers(3)
    for container in (first, *others):
        key = container.root / "root/.ssh/id_ed25519"
        shutil.copy(private_key(), key)
        shutil.copy(first.ssh_config.with_name("known_hosts"), key.with_name("known_hosts"))
    for container in others:
        there = first.run(f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes {container.name} hostname")
        assert there.stdout.strip() == container.name
        back = container.run(f"ssh -o BatchMode=yes -o StrictHostKeyChecking=yes {first.address} hostname")
        assert back.stdout.strip() == first.name
    assert len({container.run("cat /etc/machine-id").stdout for container in (first, *others)}) == 3


def test_apt_installs_from_the_mirror(container: Container) -> None:
    container.run("apt-get update && apt-get install -y --no-install-recommends tree")
    assert "tree v" in container.run("tree --version").stdout


def test_ansible_tells_what_changed(containers: StartMany) -> None:
    machines = containers(2)
    tasks = [{"name": "greet", "ansible.builtin.copy": {"dest": "/etc/greeting", "content": "{{ word }}\n"}}]
    words = {machines[0].name: {"word": "one"}, machines[1].name: {"word": "two"}}
    names = {f"{machine.name}: greet" for machine in machines}

    def run(*, check: bool = False) -> set[str]:
        return set(ansible(machines, tasks, host_variables=words, facts=False, check=check).changed)

    assert run(check=True) == names
    assert not (machines[0].root / "etc/greeting").exists()
    assert run() == names
    assert run() == set()
    assert machines[1].run("cat /etc/greeting").stdout == "two\n"


def test_ansible_failure_names_host_and_task(container: Container) -> None:
    tasks = [{"name": "refuse", "ansible.builtin.fail": {"msg": "no {{ thing }} here"}}]
    with pytest.raises(PlayFailed, match=f"{container.name}: refuse: no disk here"):
        ansible(container, tasks, {"thing": "disk"}, facts=False)


def test_a_restart_keeps_the_disk_and_nothing_else(container: Container) -> None:
    container.run("touch /root/kept /run/lost")
    boot = container.run("systemctl show -P UserspaceTimestamp").stdout
    container.restart()
    assert container.run("ls /root/kept /run/lost", check=False).stdout == "/root/kept\n"
    assert container.run("systemctl show -P UserspaceTimestamp").stdout != boot


def test_a_role_may_reboot_a_container(container: Container) -> None:
    before = container.run("cat /proc/sys/kernel/random/boot_id").stdout
    ansible(container, [{"name": "reboot", "ansible.builtin.reboot": {"reboot_timeout": 60}}], facts=False)
    container.wait()
    assert container.run("cat /proc/sys/kernel/random/boot_id").stdout != before


def test_names_are_checked_before_anything_starts(container_lab: Lab) -> None:
    before = container_lab.containers
    with pytest.raises(LabError, match="in use or no host name"):
        container_lab.start_many(["fine", "not a name"])
    assert container_lab.containers == before


def test_nothing_is_left_of_a_closed_lab() -> None:
    with Lab() as lab:
        (container,) = lab.start_many(["short-lived"])
        container.run("touch /root/immutable && chattr +i /root/immutable")
        assert len(traces(lab.identity)) > 10
    assert traces(lab.identity) == ()


@pytest.mark.parametrize(
    ("end", "number", "status"),
    [("assert False", None, 1), ("time.sleep(60)", signal.SIGINT, 2), (_PLAY, signal.SIGTERM, 143)],
    ids=["failure", "ctrl-c", "sigterm"],
)
def test_nothing_is_left_of_a_session(tmp_path: Path, end: str, number: signal.Signals | None, status: int) -> None:
    with _session(tmp_path, end) as process:
        identity = _identity(tmp_path, process)
        if number is not None:
            if end == _PLAY:
                _wait_for_play(identity)
            process.send_signal(number)
        output = process.communicate(timeout=60)[0]
    assert process.returncode == status, output
    assert traces(identity) == ()


def test_what_a_killed_session_left_is_reaped(tmp_path: Path) -> None:
    with _session(tmp_path, _PLAY) as process:
        identity = _identity(tmp_path, process)
        _wait_for_play(identity)
        process.kill()
    left = "\n".join(traces(identity))
    for kind in ("folder", "process", "mount", "link", "network namespace", "nftables", "control group"):
        assert kind in left
    assert identity.key in reap()
    assert traces(identity) == ()


def test_a_live_session_is_not_reaped(container_lab: Lab) -> None:
    assert container_lab.identity.key not in reap()
    assert container_lab.identity.folder.is_dir()


@pytest.fixture
def interface() -> Iterator[str]:
    """An interface whose settings nobody else uses."""
    name = f"lct{os.getpid()}"
    call("ip", "link", "add", name, "type", "bridge")
    yield name
    call("ip", "link", "delete", name)


def test_settings_are_put_back_unless_someone_else_changed_them(tmp_path: Path, interface: str) -> None:
    settings = Settings(tmp_path / "settings.json")
    key = f"net/ipv6/conf/{interface}/hop_limit"
    value = Path("/proc/sys") / key
    for wanted, seen in ((10, "64"), (100, "100")):  # never lowered
        settings.raise_to(key, wanted)
        assert value.read_text().strip() == seen
    settings.restore()
    assert value.read_text().strip() == "64"
    settings.raise_to(key, 100)
    value.write_text("90")
    settings.restore()
    assert value.read_text().strip() == "90"


def test_the_subnet_is_free() -> None:
    used = [ipaddress.IPv4Network("198.19.0.0/17"), ipaddress.IPv4Network("198.19.128.0/24")]
    assert str(free_subnet(used, start=0)) == "198.19.129.0/24"
    with pytest.raises(LabError, match="overlaps"):
        free_subnet([ipaddress.IPv4Network("198.18.0.0/15")], start=0)


def test_a_name_server_on_this_machine_is_of_no_use_to_containers(tmp_path: Path) -> None:
    stub, real = tmp_path / "stub", tmp_path / "real"
    stub.write_text("nameserver 127.0.0.53\nsearch example.org\n")
    real.write_text("nameserver 192.0.2.1\n")
    assert nameservers((stub, real)) == "nameserver 192.0.2.1\n"


def test_without_root_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert obstacle() is None
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "root" in (obstacle() or "")


def _session(folder: Path, end: str) -> subprocess.Popen[str]:
    """A pytest process with one test that starts a container and then does ``end``."""
    test = folder / "test_session.py"
    test.write_text(_SESSION.format(ready=str(folder / "ready.json"), end=end))
    options = ["-q", "-p", "tests.containers.plugin", "-p", "no:cacheprovider", f"--rootdir={_REPO}"]
    interruptible = ["env", "--default-signal=INT,TERM"]  # a background job of a shell ignores SIGINT
    return subprocess.Popen(
        [*interruptible, sys.executable, "-m", "pytest", *options, "-c", str(_REPO / "pyproject.toml"), str(test)],
        cwd=_REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _identity(folder: Path, process: subprocess.Popen[str]) -> Identity:
    """The lab of the session, once its container runs."""
    ready, deadline = folder / "ready.json", time.monotonic() + 60
    while not (ready.is_file() and ready.read_text().endswith("]")):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"no container: {process.communicate()[0]}")
        time.sleep(0.05)
    key, work = json.loads(ready.read_text())
    return Identity(key, Path(work))


def _wait_for_play(identity: Identity) -> None:
    """Until ansible-playbook has started the workers that have to end with it."""
    deadline = time.monotonic() + 30
    running: set[int] = set()
    while len(running) < 3:
        assert time.monotonic() < deadline, "no ansible-playbook"
        time.sleep(0.05)
        running = {pid for lab in groups(identity) for play in lab.glob("play-*") for pid in processes(play)}
