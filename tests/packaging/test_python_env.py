"""The module python_env with real uv in a folder: install, again, switch, back, cut off, damaged, wrong, missing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.python_envs import PYTHON, UV, VERSION, Host, digest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the module gives its files to root")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def value(host: Host, name: str = "lab", module: str = "alpha") -> str:
    """What the environment in use says of a package's VALUE."""
    code = f"import {module}; print({module}.VALUE)"
    python = host.link(name) / "bin/python"
    return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def upgrade(host: Host) -> None:
    """`lab` with alpha 1.0 is in use, alpha 2.0 is wanted."""
    host.want(host.wheel("alpha", "1.0"))
    assert host.apply()["changed"]
    host.want(host.wheel("alpha", "2.0", body="VALUE = 2\n"))


def folder(host: Host, name: str = "lab") -> str:
    return host.link(name).readlink().name


def test_check_apply_apply_and_what_is_there_then(host: Host) -> None:
    host.want(host.wheel("alpha", "1.0"), host.wheel("beta", "2.0", "alpha>=1"))
    foreseen = host.apply(check=True)
    assert not host.store.exists()
    assert not host.link().exists()
    done = host.apply()
    assert done["actions"] == foreseen["actions"]
    assert done["actions"][0].startswith("install lab (2 packages) into ")
    assert value(host) == "1"
    again = host.apply()
    assert (again["changed"], again["actions"]) == (False, [])
    assert host.apply(check=True)["changed"] is False
    facts = done["environments"]["lab"]
    assert Path(facts["folder"]) == host.link().readlink()
    assert facts["linked"] >= 4  # both packages, each with its metadata
    assert (host.link() / "lib").stat().st_mode & 0o022 == 0
    open_to_all = [path for path in host.store.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert open_to_all == []
    assert list(host.store.glob(f"{folder(host)}/lib/*/site-packages/alpha/__pycache__/*.pyc"))


def test_a_new_lock_is_switched_to_and_back_without_installing(host: Host) -> None:
    upgrade(host)
    old = folder(host)
    assert host.apply()["actions"][-1] == f"switch lab to {folder(host)} (before: {old})"
    assert (value(host), host.link("lab.previous").readlink().name) == ("2", old)
    host.environments[0]["use"] = "previous"
    assert host.apply()["actions"] == [f"switch lab to {old} (before: {Path(host.store, _other(host, old)).name})"]
    assert (value(host), host.apply()["changed"]) == ("1", False)
    host.environments[0]["use"] = "planned"
    assert len(host.apply()["actions"]) == 1
    assert value(host) == "2"
    host.want(host.wheel("alpha", "3.0", body="VALUE = 3\n"))
    assert host.apply()["actions"][-1] == f"remove {old}"
    assert (value(host), len(list(host.store.iterdir()))) == ("3", 2)


def _other(host: Host, name: str) -> str:
    (other,) = (path.name for path in host.store.iterdir() if path.name != name)
    return other


def test_there_is_nothing_to_go_back_to(host: Host) -> None:
    host.want(host.wheel("alpha", "1.0"), use="previous")
    answer = host.apply()
    assert "lab: there is no earlier environment to go back to\nhint: nothing was changed." in answer["msg"]
    assert not host.store.exists()


DIE = "from ansible.module_utils.python_env import work\nimport os\n"
CUTS = {
    "while installing": DIE + "work.Host._packages = lambda *a: os.kill(os.getpid(), 9)",
    "half of it installed": DIE
    + "real = work.Host._uv\n"
    + "def uv(self, words, *a, **k):\n    real(self, words, *a, **k)\n"
    + "    if words[:2] == ['pip', 'install']: os.kill(os.getpid(), 9)\n"
    + "work.Host._uv = uv",
    "before it is finished": DIE + "work.Host._accept = lambda *a: os.kill(os.getpid(), 9)",
    "before the switch": DIE + "work.Host._switch = lambda *a: os.kill(os.getpid(), 9)",
    "between the two links": DIE
    + "real = work.put\n"
    + "def put(file):\n    if file.path.endswith('/envs/lab'): os.kill(os.getpid(), 9)\n    real(file)\n"
    + "work.put = put",
    "with the new link still under its temporary name": DIE
    + "from ansible.module_utils.host_modules import files\nreal = os.rename\n"
    + "def rename(a, b):\n    if b.endswith('/envs/lab'): os.kill(os.getpid(), 9)\n    real(a, b)\n"
    + "files.os.rename = rename",
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_killed_the_old_one_works_and_the_next_run_finishes(host: Host, cut: str) -> None:
    upgrade(host)
    old = folder(host)
    assert host.apply(before=cut).get("died") == -9
    assert (folder(host), value(host)) == (old, "1")
    assert host.apply()["changed"]
    assert (value(host), host.link("lab.previous").readlink().name) == ("2", old)
    assert host.apply()["changed"] is False
    assert sorted(path.name for path in host.link().parent.iterdir()) == ["lab", "lab.previous"]


def test_an_alteration_by_hand_is_found_and_repaired_with_the_cache(host: Host) -> None:
    host.want(host.wheel("alpha", "1.0"), host.wheel("beta", "2.0"))
    host.apply()
    (file,) = host.link().resolve().glob("lib/*/site-packages/alpha/__init__.py")
    file.write_text("VALUE = 'altered in the cache as well: a hard link'\n")
    (gone,) = host.link().resolve().glob("lib/*/site-packages/beta/__init__.py")
    gone.unlink()
    (action,) = host.apply(check=True)["actions"]
    assert action.startswith(f"repair lab in {folder(host)}: ")
    assert "alpha/__init__.py has 52 bytes, not 10" in action
    assert "beta/__init__.py is missing" in action
    assert host.apply()["actions"] == [action]
    assert (value(host), value(host, module="beta"), host.apply()["changed"]) == ("1", "1", False)


def test_what_was_added_by_hand_is_taken_out_again(host: Host) -> None:
    host.want(host.wheel("alpha", "1.0"))
    host.apply()
    added = [str(UV), "pip", "install", "-q", "--python", str(host.link()), str(host.wheel("gamma", "1.0"))]
    subprocess.run(added, check=True, env={**os.environ, "UV_CACHE_DIR": str(host.root / "c"), "UV_NO_CONFIG": "1"})
    assert host.apply()["actions"] == [f"repair lab in {folder(host)}: has gamma besides"]
    assert host.apply()["changed"] is False


def refused(answer: dict[str, Any]) -> list[str]:
    assert answer["failed"]
    assert "hint: nothing was changed." in answer["msg"]
    found: list[str] = answer["refusals"]
    return found


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


def index(host: Host) -> str:
    """The house as a simple index."""
    names = {path.name.split("-")[0] for path in host.house.iterdir()}
    for name in names:
        page = host.root / "simple" / name / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        links = [f'<a href="{path.as_uri()}">{path.name}</a>' for path in host.house.glob(f"{name}-*")]
        page.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    host.config |= {"index": (host.root / "simple").as_uri(), "wheels": None}
    return str(host.config["index"])


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


def fake_uv(host: Host) -> Path:
    """A wheel of uv that hands on to the real one."""
    (host.root / f"llmhw/uv/{VERSION}/uv").unlink()
    made = host.house / f"uv-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"uv-{VERSION}.data/scripts/uv", f'#!/bin/sh\nexec "{UV}" "$@"\n')
    return made


@pytest.mark.parametrize("where", ["index", "folder"])
def test_uv_itself_comes_out_of_its_wheel_by_hash(host: Host, where: str) -> None:
    host.want(host.wheel("alpha", "1.0"))
    made = fake_uv(host)
    if where == "index":
        index(host)
    host.config["uv"] = {"version": VERSION, "wheel": made.name, "sha256": "0" * 64}
    assert f"{made.name}: SHA-256 {digest(made)}, planned is {'0' * 64}" in host.apply()["msg"]
    host.config["uv"]["sha256"] = digest(made)
    assert host.apply()["actions"][0] == f"install uv {VERSION}"
    assert (value(host), host.apply()["changed"]) == ("1", False)


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


def test_a_folder_in_use_is_not_removed(host: Host) -> None:
    upgrade(host)
    oldest = folder(host)
    host.apply()
    native = host.store / oldest / "lib/native.so"
    native.write_bytes(b"\0" * 4096)
    code = "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, prot=1); print(1, flush=True)"
    code += "; input()"
    with subprocess.Popen(
        ["/usr/bin/env", "python3", "-c", code, str(native)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        host.want(host.wheel("alpha", "3.0"))
        assert not any("remove" in action for action in host.apply()["actions"])
        assert host.apply()["changed"] is False
        process.communicate(b"\n")
    assert host.apply()["actions"] == [f"remove {oldest}"]


BACKEND = """import pathlib, zipfile
import torch

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "deepspeed-0.19.8-py3-none-any.whl"
    files = {
        "deepspeed/__init__.py": "BUILT_WITH = %r\\n" % torch.VALUE,
        "deepspeed-0.19.8.dist-info/METADATA": "Metadata-Version: 2.1\\nName: deepspeed\\nVersion: 0.19.8\\n",
        "deepspeed-0.19.8.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = "".join(f"{path},,\\n" for path in [*files, "deepspeed-0.19.8.dist-info/RECORD"])
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as archive:
        for path, text in [*files.items(), ("deepspeed-0.19.8.dist-info/RECORD", record)]:
            archive.writestr(path, text)
    return name
"""


def sdist(host: Host) -> Path:
    """A source archive that imports torch while it is built, as deepspeed and flash-attn do."""
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = '[project]\nname = "deepspeed"\nversion = "0.19.8"\n'
    info = "Metadata-Version: 2.2\nName: deepspeed\nVersion: 0.19.8\n"
    made = host.house / "deepspeed-0.19.8.tar.gz"
    with tarfile.open(made, "w:gz") as archive:
        for name, text in (("pyproject.toml", system + project), ("backend.py", BACKEND), ("PKG-INFO", info)):
            member = tarfile.TarInfo(f"deepspeed-0.19.8/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return made


def test_deepspeed_7616_and_flash_attention_1421_are_built_with_the_torch_that_is_locked(host: Host) -> None:
    """With build isolation: No module named 'torch', although it is installed."""
    torch = host.wheel("torch", "2.13.0", body="VALUE = 'locked'\n\n\nclass version:\n    cuda = None\n")
    source = sdist(host)
    host.want(torch, source, build_after=["deepspeed"], imports=["torch", "deepspeed"])
    isolated = "from ansible.module_utils.python_env import work\nreal = work.Host._uv\n"
    isolated += "work.Host._uv = lambda s, words, *a, **k: real(s, [w for w in words if 'isolation' not in w], *a, **k)"
    assert "No module named 'torch'" in host.apply(before=isolated)["msg"]
    assert not host.link().exists()
    assert host.apply()["changed"]
    python = [host.link() / "bin/python", "-I", "-c", "import deepspeed; print(deepspeed.BUILT_WITH)"]
    assert subprocess.run(python, capture_output=True, text=True, check=True).stdout.strip() == "locked"
    assert host.apply()["changed"] is False


def managed(host: Host, monkeypatch: pytest.MonkeyPatch) -> Path:
    """uv knows one CPython: an archive of this host's own behind a script, in a mirror."""
    shutil.rmtree(host.root / "llmhw/python")
    minor = ".".join(PYTHON.split(".")[:2])
    tree, home = host.root / "tree/python", Path(sys.base_prefix) / "bin/python3"
    (tree / "bin").mkdir(parents=True)
    (tree / f"lib/python{minor}").mkdir(parents=True)
    for path in (Path(sys.base_prefix) / f"lib/python{minor}").glob("_sysconfigdata_*.py"):
        shutil.copy(path, tree / f"lib/python{minor}")  # uv adapts it
    program = tree / f"bin/python{minor}"
    program.write_text(f'#!/bin/sh\nexec {home} "$@"\n')
    program.chmod(0o755)
    (tree / "bin/python3").symlink_to(program.name)
    archive = host.root / "mirror/build/cpython.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as out:
        out.add(tree, "python")
    known = {
        "name": "cpython",
        "arch": {"family": platform.machine(), "variant": None},
        "os": "linux",
        "libc": "gnu",
        **dict(zip(("major", "minor", "patch"), map(int, PYTHON.split(".")), strict=True)),
        "prerelease": "",
        "url": "https://github.com/astral-sh/python-build-standalone/releases/download/build/cpython.tar.gz",
        "sha256": digest(archive),
        "variant": None,
        "build": "build",
    }
    table = host.root / "downloads.json"
    table.write_text(json.dumps({f"cpython-{PYTHON}-linux-{platform.machine()}-gnu": known}))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS_JSON_URL", str(table))
    mirror = {"version": PYTHON, "source": "mirror", "mirror": (host.root / "mirror").as_uri(), "packages": []}
    host.config["interpreters"] = [mirror]
    return archive


def test_a_managed_cpython_comes_from_a_mirror_with_its_headers(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    managed(host, monkeypatch)
    host.want(host.wheel("alpha", "1.0"))
    done = host.apply()
    assert done["actions"], done["msg"]
    assert done["actions"][0] == f"install CPython {PYTHON} (mirror)"
    assert (value(host), host.apply()["changed"]) == ("1", False)
    assert [p for p in (host.root / "llmhw/python").rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o022] == []


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
