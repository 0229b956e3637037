"""The module python_env refuses: missing wheels, other hashes, what does not fit, folders of others."""

from __future__ import annotations

import hashlib
import os

import pytest

from tests.packaging.python_env_host import fake_uv, index, managed, refused, upgrade, value
from tests.packaging.python_envs import PYTHON, Host, digest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the module gives its files to root")


def test_a_folder_that_lacks_wheels_names_them_all_before_anything_is_installed(host: Host) -> None:
    made = [host.wheel(name, "1.0") for name in ("alpha", "beta", "gamma")]
    host.want(*made)
    made[0].unlink()
    made[2].unlink()
    lines = [f"{host.house}: lacks alpha==1.0", f"{host.house}: lacks gamma==1.0"]
    assert refused(host.apply(check=True)) == lines
    assert refused(host.apply()) == lines
    assert not host.store.exists()


def test_a_wheel_with_another_hash_in_the_folder_is_named(host: Host) -> None:
    made = host.wheel("alpha", "1.0")
    host.want(made)
    host.wheel("alpha", "1.0", body="VALUE = 'not what was locked'\n")
    (line,) = refused(host.apply())
    assert line == f"{made}: SHA-256 {digest(made)} is not one that the lock allows for alpha==1.0"
    assert not host.store.exists()


def test_a_wheel_with_another_hash_from_the_index_is_refused_and_named(host: Host) -> None:
    upgrade(host)
    host.wheel("alpha", "2.0", body="VALUE = 'not what was locked'\n")
    index(host)
    answer = host.apply()
    assert answer["failed"]
    assert "the file of alpha==2.0 has SHA-256" in answer["msg"]
    assert "which the lock does not allow" in answer["msg"]
    assert "the environments in use are the ones from before" in answer["msg"]
    assert value(host) == "1"


def test_uv_that_cannot_be_had_is_named(host: Host) -> None:
    host.want(host.wheel("alpha", "1.0"))
    made = fake_uv(host)
    made.unlink()
    assert refused(host.apply()) == [f"{host.house}: lacks {made.name}"]
    index(host)
    answer = host.apply()
    assert f"python_env: {made.name} cannot be had from {host.config['index']}" in answer["msg"]


def test_packages_that_do_not_fit_are_not_switched_to(host: Host) -> None:
    upgrade(host)
    host.want(host.wheel("alpha", "2.0", "delta>=1"))
    answer = host.apply()
    assert "lab: The package `alpha` requires `delta>=1`, but it's not installed" in answer["msg"]
    assert value(host) == "1"


def test_an_import_that_fails_is_quoted_and_not_switched_to(host: Host) -> None:
    upgrade(host)
    host.want(host.wheel("alpha", "2.0", body="raise RuntimeError('operator nms does not exist')\n"))
    answer = host.apply()
    assert "lab: import alpha fails: RuntimeError: operator nms does not exist" in answer["msg"]
    assert value(host) == "1"


def test_torch_for_another_cuda_is_not_switched_to(host: Host) -> None:
    body = "class version:\n    cuda = '12.9'\n"
    host.want(host.wheel("torch", "2.14.0", body=body), cuda="13.0")
    assert "lab: torch is built for CUDA 12.9, planned 13.0" in host.apply()["msg"]
    assert not host.link().exists()


def test_another_lock_than_the_planned_one_and_two_cuda_majors_are_refused_at_once(host: Host) -> None:
    host.want(host.wheel("alpha", "1.0"))
    host.want(host.wheel("x_cu12", "1.0"), host.wheel("y_cu13", "1.0"), name="both", cuda="13.0")
    host.locks["both"] = host.locks["both"].replace("x_cu12", "x-cu12").replace("y_cu13", "y-cu13")
    host.environments[1]["sha256"] = hashlib.sha256(host.locks["both"].encode()).hexdigest()
    host.locks["lab"] += "# altered\n"
    lines = refused(host.apply())
    assert lines[0].startswith("lock lab: SHA-256 ")
    assert lines[1] == "both brings cu12 and cu13; one CUDA major per environment"


def test_another_cpython_than_uv_knows_is_refused_by_its_hash(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = managed(host, monkeypatch)
    archive.write_bytes(archive.read_bytes() + b"\0")
    host.want(host.wheel("alpha", "1.0"))
    assert f"the file of cpython-{PYTHON}-linux-" in host.apply()["msg"]
    assert not host.link().exists()


def test_a_folder_that_others_may_change_is_no_place_for_environments(host: Host) -> None:
    host.want(host.wheel("alpha", "1.0"))
    (host.root / "scratch").mkdir(mode=0o1777)
    theirs = host.root / "scratch/cache"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    assert refused(host.apply()) == [f"{theirs} is not a folder of root; move it away"]
    os.chown(theirs, 0, 0)
    theirs.chmod(0o777)
    assert refused(host.apply()) == [f"{theirs} can be written by others (mode 0777); chmod go-w"]
    theirs.chmod(0o755)
    assert host.apply()["changed"]
