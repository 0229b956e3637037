"""The role python_env in a Debian 12 container: check, apply, apply, reboot, switch, cut off, wrong and missing wheels.

The environments are small ones of wheels made here; those of the committed locks are in test_python_env_locks.
"""

import hashlib
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.catalogue.software import software
from llmhw_provision.checks import python_envs, table
from llmhw_provision.documents import check as checked
from llmhw_provision.evidence import read
from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_python import PythonEnvConfig
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.packaging.python_envs import digest, lock_of, wheel
from tests.roles.checked import planned

pytestmark = pytest.mark.container

ROLE = Path(__file__).resolve().parents[2] / "roles/python_env"
TASK = "python_env : Make the environments and switch to them"
HOUSE, LINK = "/srv/wheels", "/opt/llmhw/envs/lab"
STATE = "find /opt /scratch /srv -xdev -printf '%p %l %m %s\n' | sort | sha256sum; dpkg -l | sha256sum"


class Lab:
    """A copy of the role with a lock of its own, and wheels that only tests have."""

    def __init__(self, folder: Path, container: Container) -> None:
        self.container = container
        self.role = folder / "roles/python_env"
        shutil.copytree(ROLE, self.role)
        (folder / "locks").mkdir()
        self._lock, self._wheels = folder / "locks/lab.txt", folder / "wheels"
        self.use = "planned"

    def want(self, version: str) -> None:
        """The environment holds llmhw_alpha of that version and llmhw_beta."""
        made = [wheel(self._wheels, "llmhw_alpha", version, body=f"VALUE = '{version}'\n")]
        made.append(wheel(self._wheels, "llmhw_beta", "1.0", "llmhw-alpha>=1"))
        self._lock.write_text(lock_of(*made))
        self.put(*made)

    def put(self, *wheels: Path) -> None:
        target = self.container.root / HOUSE.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        for path in wheels:
            shutil.copy(path, target)

    def config(self) -> dict[str, Any]:
        uv = software().uv
        chosen = uv.wheels["x86_64"]
        environment = {
            "name": "lab",
            "lock": "lab",
            "sha256": hashlib.sha256(self._lock.read_bytes()).hexdigest(),
            "interpreter": "3.11",
            "cuda": "",
            "build_after": [],
            "imports": ["llmhw_alpha", "llmhw_beta"],
            "accepts": [],
            "use": self.use,
        }
        return {
            "root": "/opt/llmhw",
            "store": "/scratch/.llmhw/python-envs",
            "cache": "/scratch/.llmhw/uv-cache",
            "index": uv.index,
            "wheels": {"path": HOUSE, "only": False},
            "uv": {"version": uv.version, "wheel": chosen.file, "sha256": chosen.sha256},
            "interpreters": [{"version": "3.11", "source": "distribution", "packages": ["python3", "python3-dev"]}],
            "environments": [environment],
        }

    def apply(self, **more: Any) -> Result:
        return ansible(self.container, str(self.role), {"python_env_config": self.config()}, **more)

    def actions(self, **more: Any) -> tuple[str, ...]:
        result = self.apply(**more)
        (event,) = result.of(TASK)
        return tuple(event.result["actions"])

    def value(self) -> str:
        """What anybody who is not root finds in the environment."""
        code = "import llmhw_alpha; print(llmhw_alpha.VALUE)"
        done = self.container.run(["runuser", "-u", "nobody", "--", f"{LINK}/bin/python", "-I", "-c", code])
        return done.stdout.strip()

    def amiss(self) -> dict[str, str]:
        """The shipped checks that are not a pass, as verify reads them."""
        config = checked(self.config(), PythonEnvConfig, path=Path("python_env"))
        host = planned(RoleConfigs(python_env=config))
        commands = python_envs.commands(host, "standard")
        container = self.container
        evidence = read(container.name, commands, container.ssh_config, sudo=False, address=container.address)
        found = [table.judge(i, evidence) for i in table.items(host, "standard") if i.check.area == "python"]
        return {item.check: item.found for item in found if item.status != "pass"}


@pytest.fixture(scope="module")
def lab(module_container: Container, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    module_container.run("mkdir -m 1777 /scratch")
    made = Lab(tmp_path_factory.mktemp("lab"), module_container)
    made.want("1.0")
    return made


def test_check_apply_apply_reboot(lab: Lab) -> None:
    container = lab.container
    before = container.run(STATE, check=False).stdout
    foreseen = lab.actions(check=True)
    assert container.run(STATE, check=False).stdout == before
    done = lab.apply()
    (event,) = done.of(TASK)
    assert tuple(event.result["actions"]) == foreseen
    assert [action.split(" into ")[0].split(" to ")[0] for action in foreseen] == [
        f"install uv {software().uv.version}",
        "install lab (2 packages)",
        "switch lab",
    ]
    assert event.result["environments"]["lab"]["linked"] >= 4
    assert "locks" not in json.dumps(event.result["actions"])
    assert lab.apply().changed == ()
    assert lab.apply(check=True).changed == ()
    assert (lab.value(), lab.amiss()) == ("1.0", {})
    written = container.run(f"runuser -u nobody -- touch {LINK}/lib/mine {LINK}/bin/mine", check=False)
    assert written.stderr.count("Permission denied") == 2
    container.restart()
    assert (lab.value(), lab.amiss(), lab.apply().changed) == ("1.0", {}, ())


def test_broken_by_hand_the_check_fails_and_apply_repairs(lab: Lab) -> None:
    lab.container.run(f"rm {LINK}/lib/python3.11/site-packages/llmhw_beta/__init__.py")
    assert lab.amiss()["python-env"] == "llmhw_beta/__init__.py is missing"
    (action,) = lab.actions()
    assert action.endswith(": llmhw_beta/__init__.py is missing")
    assert (lab.amiss(), lab.apply().changed) == ({}, ())


def test_killed_while_it_installs_and_between_the_links(lab: Lab) -> None:
    old = lab.container.run(f"readlink {LINK}").stdout.strip()
    lab.want("2.0")
    kill = threading.Thread(target=_kill_module, args=(lab.container,))
    kill.start()
    assert lab.apply(may_fail=True).failed
    kill.join()
    assert (lab.container.run(f"readlink {LINK}").stdout.strip(), lab.value()) == (old, "1.0")
    # what a run leaves that dies after the first link, with the second under its temporary name
    lab.container.run(f"ln -s {old} {LINK}.previous; ln -s /nowhere /opt/llmhw/envs/.llmhw-x")
    assert lab.value() == "1.0"
    assert lab.actions()[-1].startswith("switch lab to ")
    assert (lab.value(), lab.amiss(), lab.apply().changed) == ("2.0", {}, ())
    assert lab.container.run("ls -A /opt/llmhw/envs").stdout.split() == ["lab", "lab.previous"]


def _kill_module(container: Container) -> None:
    """Kills the module and its uv as soon as that begins to install."""
    line = "until p=$(pgrep -f '[u]v pip install'); do :; done; kill -9 $(ps -o ppid= -p $p) $p"
    container.run(line, check=False, timeout=300)


def test_the_way_back_is_only_a_switch(lab: Lab) -> None:
    lab.use = "previous"
    assert len(lab.actions()) == 1
    assert (lab.value(), lab.amiss(), lab.apply().changed) == ("1.0", {}, ())
    lab.use = "planned"
    began = time.monotonic()
    assert len(lab.actions()) == 1
    assert (lab.value(), time.monotonic() - began < 120) == ("2.0", True)


def test_a_wheel_with_another_hash_or_none_at_all_is_named_and_nothing_changes(lab: Lab) -> None:
    lab.want("3.0")
    before = lab.container.run(STATE).stdout
    target = lab.container.root / HOUSE.lstrip("/")
    made = wheel(target, "llmhw_alpha", "3.0", body="VALUE = 'another'\n")
    state = lab.container.run(STATE).stdout
    (line,) = lab.apply(may_fail=True).failed
    assert f"{HOUSE}/{made.name}: SHA-256 {digest(made)} is not one that the lock allows for llmhw_alpha==3.0" in (
        line.replace("llmhw-alpha", "llmhw_alpha")
    )
    assert (lab.container.run(STATE).stdout, before != state) == (state, True)
    made.unlink()
    (line,) = lab.apply(may_fail=True).failed
    assert "llmhw-alpha" in line.replace("_", "-")
    assert lab.value() == "2.0"
