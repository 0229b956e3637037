"""What the module python_env decides: locks, folders of wheels, steps, switches. Real installs: tests/packaging."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit import role_modules
from tests.unit.test_locks import FOLDER, NAMES

from ansible.module_utils.host_modules import way_out  # isort: skip
from ansible.module_utils.python_env import decide, installed, locks  # isort: skip
from ansible.module_utils.python_env.decide import Environment, Folder, State  # isort: skip

assert role_modules
SAME = installed.Difference((), {}, ())
WHOLE = Folder(finished=True, runs=True, differs=SAME)
NEW, OLD, OLDER = "/s/new-py3.12.16", "/s/old-py3.12.16", "/s/older-py3.12.16"


def pin(name: str, version: str = "1.0", digest: str = "a") -> locks.Pin:
    return locks.Pin(name, version, frozenset({digest * 64}), f"{name}=={version} --hash=sha256:{digest * 64}\n")


def environment(name: str = "lab", folder: str = NEW, *, back: bool = False) -> Environment:
    lock = locks.Lock("0" * 64, {"six": pin("six")}, ())
    return Environment(name, folder, lock, "3.12.16", "13.0", (), (), (), back)


def state(**changes: Any) -> State:
    found: dict[str, Any] = {"uv": True, "interpreters": {"3.12.16": True}, "folders": {}, "links": {}, "kept": ()}
    return State(**{**found, **changes})


def sentences(wanted: list[Environment], seen: State, **changes: Any) -> list[str]:
    rest: dict[str, Any] = {"uv": "0.13.9", "interpreters": {"3.12.16": "managed"}, "packaged": (), **changes}
    return [step.sentence for step in decide.steps(wanted, seen, **rest)]


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_locks_are_read_whole(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    lock = locks.parse(text)
    assert len(lock.pins) == text.count("==")
    assert "torch" in lock.pins
    assert locks.requirements(lock.pins.values()).count("==") == len(lock.pins)
    assert lock.indexes == (("https://download.pytorch.org/whl/cpu",) if name.endswith("-cpu") else ())
    cuda = "" if name.endswith("-cpu") else "13.0"
    assert locks.cuda_refusals(name, cuda, locks.cuda_majors(str(item) for item in lock.pins.values())) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("six==1.0\n", "six==1.0 has no hash"),
        ("six>=1.0 --hash=sha256:" + "0" * 64, "'six>=1.0 --hash=sha256:"),
        ("six @ https://example.org/six.whl\n", "pins no version"),
        ("", "it is empty"),
    ],
)
def test_a_lock_that_does_not_bind_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        locks.parse(text)


@pytest.mark.parametrize(
    ("cuda", "names", "line"),
    [
        ("13.0", ["torch==2.14.0+cu129", "nvidia-nccl-cu13==2.30.7"], "lab brings cu12 and cu13; one CUDA major"),
        ("13.0", ["nvidia-nccl-cu12==2.27.3"], "lab brings cu12, planned is CUDA 13.0"),
        ("", ["nvidia-nccl-cu13==2.30.7"], "lab is for CPUs, and brings cu13"),
    ],
)
def test_two_cuda_majors_are_refused(cuda: str, names: list[str], line: str) -> None:
    (text,) = locks.cuda_refusals("lab", cuda, locks.cuda_majors(names))
    assert text.startswith(line)


def test_a_folder_of_wheels_is_held_to_the_lock_and_names_every_file() -> None:
    pins = [pin("six"), pin("torch", "2.13.0+cpu", "b"), pin("deepspeed", "0.19.8", "c"), pin("PyYAML", "6.0.4", "d")]
    files = {
        "six-1.0-py2.py3-none-any.whl": "f" * 64,
        "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": "b" * 64,
        "deepspeed-0.19.8.tar.gz": "c" * 64,
        "six-0.9-py3-none-any.whl": "0" * 64,
        "notes.txt": "0" * 64,
    }
    wheels = [locks.Pin(locks.normalized(item.name), *item[1:]) for item in pins]
    assert locks.house_refusals(wheels, files, folder="/w", built=("deepspeed",), complete=True) == [
        f"/w/six-1.0-py2.py3-none-any.whl: SHA-256 {'f' * 64} is not one that the lock allows for six==1.0",
        "/w: lacks pyyaml==6.0.4",
    ]
    assert locks.house_refusals(wheels[1:], files, folder="/w", built=(), complete=True) == [
        "/w: lacks deepspeed==0.19.8",
        "/w: lacks pyyaml==6.0.4",
    ]
    assert locks.house_refusals(wheels[1:], files, folder="/w", built=(), complete=False) == []


def test_from_nothing_everything_is_made_in_order() -> None:
    assert sentences([environment()], state(uv=False, interpreters={"3.12.16": False})) == [
        "install uv 0.13.9",
        "install CPython 3.12.16 (managed)",
        "install lab (1 packages) into new-py3.12.16",
        "switch lab to new-py3.12.16",
    ]
    assert sentences([environment()], state(interpreters={}), packaged=("3.12.16",))[0].startswith("install lab")


def test_what_is_whole_and_linked_is_left_alone() -> None:
    seen = state(folders={NEW: WHOLE}, links={"lab": NEW, "lab.previous": OLD}, kept=(NEW, OLD))
    assert sentences([environment()], seen) == []


def test_a_new_lock_keeps_the_environment_before_and_removes_the_one_before_that() -> None:
    seen = state(folders={NEW: None}, links={"lab": OLD, "lab.previous": OLDER}, kept=(OLD, OLDER))
    steps = decide.steps([environment()], seen, uv="", interpreters={}, packaged=())
    assert [step.sentence for step in steps] == [
        "install lab (1 packages) into new-py3.12.16",
        "switch lab to new-py3.12.16 (before: old-py3.12.16)",
        "remove older-py3.12.16",
    ]
    assert (steps[1].target, steps[1].previous) == (NEW, OLD)


def test_cut_off_between_the_two_links_the_switch_is_finished() -> None:
    seen = state(folders={NEW: WHOLE}, links={"lab": OLD, "lab.previous": OLD}, kept=(NEW, OLD))
    assert sentences([environment()], seen) == ["switch lab to new-py3.12.16 (before: old-py3.12.16)"]


def test_the_way_back_is_a_switch_without_installing_and_holds() -> None:
    back = [environment(back=True)]
    seen = state(folders={NEW: WHOLE}, links={"lab": NEW, "lab.previous": OLD}, kept=(NEW, OLD))
    steps = decide.steps(back, seen, uv="", interpreters={}, packaged=())
    assert [step.sentence for step in steps] == ["switch lab to old-py3.12.16 (before: new-py3.12.16)"]
    assert steps[0].previous == OLD
    again = state(folders={NEW: WHOLE}, links={"lab": OLD, "lab.previous": OLD}, kept=(NEW, OLD))
    assert sentences(back, again) == []
    assert sentences([environment()], again) == ["switch lab to new-py3.12.16 (before: old-py3.12.16)"]
    assert decide.refusals(back, state(links={"lab": NEW})) == ["lab: there is no earlier environment to go back to"]


def test_an_unfinished_folder_is_made_anew_and_one_in_use_is_repaired_in_place() -> None:
    cut = Folder(finished=False, runs=True, differs=SAME)
    assert sentences([environment()], state(folders={NEW: cut}, kept=(NEW,)))[0] == (
        "install lab into new-py3.12.16 anew: it was never finished"
    )
    broken = Folder(finished=True, runs=True, differs=installed.Difference(("six",), {}, ("pip",)))
    seen = state(folders={NEW: broken}, links={"lab": NEW}, kept=(NEW,))
    assert sentences([environment()], seen) == ["repair lab in new-py3.12.16: lacks six; has pip besides"]
    seen = state(folders={NEW: Folder(True, False, SAME)}, links={"lab": NEW}, kept=(NEW,))
    assert sentences([environment()], seen) == ["repair lab in new-py3.12.16: its Python does not run"]


def test_environments_of_one_lock_share_a_folder() -> None:
    wanted = [environment("a"), environment("b")]
    assert sentences(wanted, state()) == [
        "install a (1 packages) into new-py3.12.16",
        "switch a to new-py3.12.16",
        "switch b to new-py3.12.16",
    ]


def test_files_that_are_missing_or_cut_are_found(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    info = packages / "Six_Seven-1.0+cpu.dist-info"
    info.mkdir(parents=True)
    (packages / "six.py").write_text("x = 1\n")
    (info / "RECORD").write_text('six.py,sha256=x,6\n"a,b.py",sha256=x,\n__pycache__/six.pyc,,\n')
    found = installed.distributions(str(tmp_path))
    assert found == {"six-seven": installed.Distribution("1.0+cpu", "a,b.py is missing")}
    (packages / "a,b.py").touch()
    assert installed.distributions(str(tmp_path))["six-seven"].fault == ""
    (packages / "six.py").write_text("")
    assert installed.distributions(str(tmp_path))["six-seven"].fault == "six.py has 0 bytes, not 6"
    (info / "RECORD").write_text("six.py,sha")
    assert "cut off" in installed.distributions(str(tmp_path))["six-seven"].fault
    (info / "RECORD").unlink()
    assert "cannot be read" in installed.distributions(str(tmp_path))["six-seven"].fault


def test_an_environment_is_compared_with_its_lock() -> None:
    pins = {name: pin(name) for name in ("a", "b", "c", "d")}
    found = {
        "a": installed.Distribution("1.0", ""),
        "b": installed.Distribution("1.1", ""),
        "c": installed.Distribution("1.0", "c.py is missing"),
        "pip": installed.Distribution("26", ""),
    }
    differs = installed.difference(pins, found)
    assert differs == installed.Difference(("d",), {"b": "b is 1.1, not 1.0", "c": "c.py is missing"}, ("pip",))
    assert differs.sentence() == "lacks d; b is 1.1, not 1.0, c.py is missing; has pip besides"


def test_hard_links_are_counted(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("abc")
    os.link(tmp_path / "one", tmp_path / "two")
    (tmp_path / "three").write_text("d")
    assert installed.linked(str(tmp_path)) == (3, 2, 7)


def test_the_proxys_password_is_in_no_message() -> None:
    way = {"https_proxy": "http://joe:p%40ss@proxy.example:3128", "LC_ALL": "C"}
    text = "error: http://joe:p%40ss@proxy.example:3128 refused joe:p@ss, p@ss"
    assert way_out.without_secrets(text, way) == "error: http://(hidden)@proxy.example:3128 refused (hidden), (hidden)"
    assert way_out.without_secrets("plain", {"http_proxy": "http://proxy.example"}) == "plain"
