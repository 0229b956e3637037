"""The module python_env with real uv in a folder: install, again, switch, back, cut off, damaged, wrong, missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.packaging.python_env_host import fake_uv, folder, index, managed, sdist, upgrade, value
from tests.packaging.python_envs import PYTHON, UV, VERSION, Host, digest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the module gives its files to root")


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


def test_a_managed_cpython_comes_from_a_mirror_with_its_headers(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    managed(host, monkeypatch)
    host.want(host.wheel("alpha", "1.0"))
    done = host.apply()
    assert done["actions"], done["msg"]
    assert done["actions"][0] == f"install CPython {PYTHON} (mirror)"
    assert (value(host), host.apply()["changed"]) == ("1", False)
    assert [p for p in (host.root / "llmhw/python").rglob("*") if not p.is_symlink() and p.stat().st_mode & 0o022] == []
