"""apply is cut in every way that containers allow: the message names the cause, and a resumed run ends equal."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmhw_provision.run.process import kill_tree
from tests.containers.base import private_key
from tests.containers.commands import call
from tests.containers.container import Container
from tests.containers.mirror import Mirror
from tests.containers.play import ansible
from tests.containers.plugin import StartMany
from tests.containers.site import Site, state

pytestmark = pytest.mark.proof

KILLS, CUT_S, FLEET = 10, 90, 32
_RESET = """systemctl disable --now mnt-hot.mount; chattr -i /mnt/hot; rmdir /mnt/hot
rm -rf /etc/systemd/system/mnt-hot.mount /etc/llmhw /scratch /srv/project /run/llmhw; systemctl daemon-reload"""


@pytest.fixture(scope="module")
def site(module_container: Container, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("long") / "site", [module_container]).planned()


@pytest.fixture(scope="module")
def whole(site: Site) -> tuple[str, float]:
    """The end state of an undisturbed run, and how many seconds its roles took."""
    (container,) = site.containers
    done = site.call("apply", "--yes")
    assert done.returncode == 0, done.stderr
    return state(container), float(site.result()["seconds"])


@pytest.fixture
def bare(site: Site, whole: tuple[str, float]) -> Container:
    """The container as it was before any run."""
    (container,) = site.containers
    container.run(_RESET, check=False)
    assert state(container) != whole[0]
    return container


def test_killed_at_ten_random_moments(site: Site, bare: Container, whole: tuple[str, float]) -> None:
    chance = random.Random(4)  # the moments differ from machine to machine all the same
    for attempt in range(KILLS):
        process = site.start("apply", "--yes") if attempt == 0 else site.start("apply", "--yes", "--resume")
        _until(lambda before=attempt: len(_runs(site)) > before + 1)
        time.sleep(chance.uniform(0.2, 0.8 * whole[1]))
        kill_tree(process.pid)
        process.communicate()
        assert not (site.last() / "result.json").exists()
    assert site.runs("list").count("cut off") == KILLS
    done = site.call("apply", "--yes", "--resume")
    assert done.returncode == 0, done.stderr
    assert "going on with " in done.stderr
    assert state(bare) == whole[0]
    again = site.call("apply", "--yes", "--resume")
    assert again.returncode == 1
    assert "is done: nothing is left to do" in again.stderr


def test_only_the_controller_is_killed_and_its_ansible_is_named(
    site: Site, bare: Container, whole: tuple[str, float]
) -> None:
    before = len(_runs(site))
    process = site.start("apply", "--yes")
    _until(lambda: len(_runs(site)) > before and "nvme_raid0" in _log(site))
    process.kill()
    process.communicate()
    refused = site.call("apply", "--yes", "--resume")
    assert refused.returncode == 1
    found = re.search(r"died; its ansible-playbook \(pid (\d+)\) still works", refused.stderr)
    assert found, refused.stderr
    os.kill(int(found[1]), signal.SIGINT)
    _until(lambda: not Path(f"/proc/{found[1]}").exists())
    done = site.call("apply", "--yes", "--resume")
    assert done.returncode == 0, done.stderr
    assert state(bare) == whole[0]


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(site: Site, bare: Container, whole: tuple[str, float], times: int) -> None:
    before = len(_runs(site))
    with site.start("apply", "--yes") as process:
        _until(lambda: len(_runs(site)) > before and "nvme_raid0" in _log(site))
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "apply --resume goes on" in err
    assert site.result()["state"] == "unfinished"
    done = site.call("apply", "--yes", "--resume")
    assert done.returncode == 0, done.stderr
    assert state(bare) == whole[0]


def test_network_away_for_90_seconds(site: Site, bare: Container, whole: tuple[str, float]) -> None:
    before, link = len(_runs(site)), bare.identity.machine(bare.number)
    with site.start("apply", "--yes") as process:
        _until(lambda: len(_runs(site)) > before and "nvme_raid0" in _log(site))
        call("ip", "link", "set", link, "down")
        time.sleep(CUT_S)
        call("ip", "link", "set", link, "up")
        _, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert state(bare) == whole[0]


def test_power_cut(site: Site, bare: Container, whole: tuple[str, float]) -> None:
    before = len(_runs(site))
    with site.start("apply", "--yes") as process:
        _until(lambda: len(_runs(site)) > before and "tmpfs" in _log(site))
        bare.run("systemctl reboot --force --force", check=False)
        _, err = process.communicate(timeout=900)
    bare.wait()
    if process.returncode:  # it was back before we gave up, or it was not: then the message says how to go on
        assert "apply --resume goes on" in err
        done = site.call("apply", "--yes", "--resume")
        assert done.returncode == 0, done.stderr
    assert state(bare) == whole[0]


@pytest.fixture
def mirror(module_container: Container) -> Iterator[Mirror]:
    with Mirror.of(module_container) as made:
        yield made


def test_a_busy_mirror_is_named_and_then_serves(site: Site, mirror: Mirror) -> None:
    mirror.busy = True
    done = site.call("apply", "--yes")
    assert done.returncode == 3
    assert re.search(r"package sources answer: http://[0-9.:]+/\./In?Release: 503 +Service Unavailable", done.stderr)
    assert "hint: see /etc/apt/sources.list" in done.stderr
    mirror.busy = False
    done = site.call("apply", "--yes")
    assert done.returncode == 0, done.stderr


def test_a_package_that_arrives_cut_off_is_refused_and_then_installed(site: Site, mirror: Mirror) -> None:
    (container,) = site.containers
    modules = {"name": "the modules and what they share", "import_role": {"name": "host_modules"}}
    tasks = [modules, {"name": "install", "deferred_packages": {"name": ["llmhw-tiny"]}}]

    def install(*, may_fail: bool = False) -> tuple[str, ...]:
        return ansible(container, tasks, facts=False, may_fail=may_fail).failed

    mirror.half = True
    (said,) = install(may_fail=True)
    assert "llmhw-tiny" in said
    assert container.run("dpkg --audit; dpkg-query -W llmhw-tiny", check=False).stdout == ""
    mirror.half = False
    assert install() == ()
    assert "llmhw-tiny" in container.run("dpkg-query -W llmhw-tiny").stdout


def test_through_a_jump_host(containers: StartMany, tmp_path: Path) -> None:
    jump, inner = containers(2)
    gateway = inner.address.rpartition(".")[0] + ".1"  # this machine, which then has no way to `inner`
    call("ip", "-n", inner.identity.machine(inner.number), "route", "add", "prohibit", f"{gateway}/32")
    site = Site(tmp_path / "site", [])
    key = private_key()
    (site.folder / "site.yaml").write_text(
        f"schema: 1\nsite: lab\njump: {{address: {jump.address}, identity_file: {key}}}\n"
        f"hosts:\n  - {{name: {inner.name}, address: {inner.address}, identity_file: {key}}}\n"
    )
    site.planned()
    direct = subprocess.run(
        ["ssh", "-F", str(site.folder / "ssh_config"), "-o", "ProxyJump=none", "-o", "ControlPath=none",
         "-o", "ConnectTimeout=3", inner.name, "true"], capture_output=True, check=False,
    )  # fmt: skip
    assert direct.returncode == 255
    over = subprocess.run(
        ["ssh", "-F", str(site.folder / "ssh_config"), inner.name, "echo $SSH_CONNECTION"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert over.stdout.split()[0] == jump.address
    listed = (site.folder / "known_hosts").read_text().splitlines()
    assert {line.split()[0] for line in listed} == {jump.address, inner.address}


def test_one_fails_one_is_slow_one_is_gone_and_the_others_finish(containers: StartMany, tmp_path: Path) -> None:
    machines = containers(FLEET)
    site = Site(tmp_path / "site", machines).planned()
    failing, slow, gone, *others = machines
    failing.run("touch /srv/project")
    slow.run("echo 'sleep 1 </dev/null' >/root/.ssh/rc")  # sshd runs it before each command
    with site.start("apply", "--yes") as process:
        _until(lambda: len(_runs(site)) > 0)
        call("ip", "link", "set", gone.identity.machine(gone.number), "down")
        _, err = process.communicate(timeout=3000)
    assert process.returncode == 4, err
    states = {host["host"]: host["state"] for host in site.result()["hosts"]}
    assert states[failing.name] == "failed"
    assert states[gone.name] == "unreachable"
    assert {states[machine.name] for machine in (slow, *others)} == {"done"}
    assert len({_without_names(state(machine)) for machine in (slow, *others)}) == 1
    assert f"failed: {failing.name}\n  task: nvme_raid0 · Make the folders on existing mounts" in err
    assert f"unreachable: {gone.name}" in err


def _without_names(text: str) -> str:
    """The state without the hash of the record, which holds the host's name."""
    return "\n".join(line for line in text.splitlines() if not line.endswith("  /etc/llmhw/applied.json"))


def _runs(site: Site) -> list[Path]:
    return sorted((site.folder / "runs").glob("*-apply*"))


def _log(site: Site) -> str:
    path = site.last() / "ansible.log"
    return path.read_text() if path.is_file() else ""


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
