"""Looking at the host and carrying out the steps: uv does the installing, this module the order."""

from __future__ import annotations

import glob
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.host_modules import way_out
from ansible.module_utils.host_modules.files import File, put
from ansible.module_utils.python_env import fetch, installed
from ansible.module_utils.python_env.decide import PREVIOUS, Environment, Folder, State, Step
from ansible.module_utils.python_env.locks import Pin, cuda_majors, cuda_refusals, requirements

Run = Callable[[Sequence[str], Mapping[str, str]], "tuple[int, str, str]"]
FINISHED = ".llmhw-finished"
_ASK = """import os, sys, sysconfig
print("%d.%d.%d" % sys.version_info[:3], os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))"""
_IMPORT = """import importlib, json, sys
wrong = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        wrong[name] = "%s: %s" % (type(error).__name__, error)
torch = sys.modules.get("torch")
print("\\n" + json.dumps({"wrong": wrong, "cuda": (torch.version.cuda or "") if torch else None}))"""


class Failure(Exception):
    """A step that did not succeed; the environment in use is the one from before."""


class Host:
    """The folders of the role on this host."""

    def __init__(self, config: Mapping[str, Any], run: Run) -> None:
        self.config = config
        self.links = os.path.join(config["root"], "envs")
        self.uv = os.path.join(config["root"], "uv", config["uv"]["version"], "uv")
        self._run = run
        self._environment = {
            **way_out.proxies(),
            "UV_CACHE_DIR": config["cache"],
            "UV_NO_CONFIG": "1",
            "UV_NO_PROGRESS": "1",
            "UV_SYSTEM_CERTS": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_HTTP_TIMEOUT": "180",
            "LC_ALL": "C.UTF-8",
        }

    def state(self, wanted: Sequence[Environment]) -> State:
        """What is there."""
        interpreters = {item["version"]: self._has_headers(item) for item in self.config["interpreters"]}
        links = {name: os.readlink(os.path.join(self.links, name)) for name in self._link_names()}
        store = self.config["store"]
        kept = [os.path.join(store, name) for name in sorted(os.listdir(store))] if os.path.isdir(store) else []
        return State(
            uv=self._answer([self.uv, "--version"]).partition(" (")[0].split()[1:2] == [self.config["uv"]["version"]],
            interpreters=interpreters,
            folders={item.folder: self._folder(item) for item in wanted},
            links=links,
            kept=[path for path in kept if os.path.isdir(path)],
        )

    def _link_names(self) -> list[str]:
        names = sorted(os.listdir(self.links)) if os.path.isdir(self.links) else []
        return [n for n in names if not n.startswith(".") and os.path.islink(os.path.join(self.links, n))]

    def interpreter(self, item: Mapping[str, Any]) -> str:
        """The program of a CPython; empty when it is not there."""
        version = item["version"]
        minor = ".".join(version.split(".")[:2])
        if item["source"] == "distribution":
            path = f"/usr/bin/python{minor}"
            return path if os.path.exists(path) else ""
        found = glob.glob(os.path.join(self.config["root"], "python", f"cpython-{version}-*", "bin", f"python{minor}"))
        return found[0] if found else ""

    def _has_headers(self, item: Mapping[str, Any]) -> bool:
        path = self.interpreter(item)
        answer = self._answer([path, "-I", "-c", _ASK]).split() if path else []
        return answer[1:] == ["True"] and f"{answer[0]}.".startswith(f"{item['version']}.")

    def _folder(self, item: Environment) -> Folder | None:
        if not os.path.isdir(item.folder):
            return None
        answer = self._answer([os.path.join(item.folder, "bin/python"), "-I", "-c", _ASK]).split()
        return Folder(
            finished=os.path.exists(os.path.join(item.folder, FINISHED)),
            runs=f"{(answer or [''])[0]}.".startswith(f"{item.interpreter}."),
            differs=installed.difference(item.lock.pins, installed.distributions(item.folder)),
        )

    def _answer(self, words: Sequence[str]) -> str:
        if not os.path.exists(words[0]):
            return ""
        rc, out, _ = self._run(words, self._environment)
        return out if rc == 0 else ""

    def carry_out(self, step: Step, wanted: Mapping[str, Environment]) -> None:
        """Does one step; raises Failure."""
        if step.kind == "uv":
            self._install_uv()
        elif step.kind == "interpreter":
            self._install_interpreter(step.target)
        elif step.kind in ("build", "repair"):
            self._install(wanted[step.environment], repair=step.kind == "repair")
        elif step.kind == "switch":
            self._switch(step)
        else:
            shutil.rmtree(step.target)

    def _switch(self, step: Step) -> None:
        """The one before is noted first: a run that dies in between leaves what was in use in use."""
        for left in glob.glob(os.path.join(self.links, ".llmhw-*")):
            os.unlink(left)  # of a run that died
        if step.previous:
            put(File(os.path.join(self.links, step.environment + PREVIOUS), step.previous, link=True))
        put(File(os.path.join(self.links, step.environment), step.target, link=True))

    def _install_uv(self) -> None:
        uv, house = self.config["uv"], self.config.get("wheels") or {}
        try:
            fetch.install_uv(
                self.uv,
                uv["wheel"],
                uv["sha256"],
                index=self.config["index"],
                folder=house.get("path", ""),
                environment=self._environment,
            )
        except fetch.Refused as error:
            raise Failure(str(error)) from None

    def _install_interpreter(self, version: str) -> None:
        (item,) = (item for item in self.config["interpreters"] if item["version"] == version)
        words = ["python", "install", version, "--no-bin", "--install-dir", os.path.join(self.config["root"], "python")]
        words += ["--mirror", item["mirror"]] if item.get("mirror") else []
        self._uv(words, f"CPython {version}", UV_PYTHON_DOWNLOADS="manual")
        _for_reading(os.path.join(self.config["root"], "python"))

    def _install(self, item: Environment, *, repair: bool) -> None:
        (source,) = (one for one in self.config["interpreters"] if one["version"] == item.interpreter)
        program = self.interpreter(source)
        if not program:
            raise Failure(f"{item.name}: CPython {item.interpreter} is not there")
        marker, found = os.path.join(item.folder, FINISHED), installed.Difference((), {}, ())
        if os.path.lexists(marker):
            os.unlink(marker)
        if repair:
            found = installed.difference(item.lock.pins, installed.distributions(item.folder))
        elif os.path.lexists(item.folder):
            shutil.rmtree(item.folder)
        os.makedirs(self.config["store"], mode=0o755, exist_ok=True)
        self._uv(["venv", "--no-project", "--allow-existing", "--python", program, item.folder], item.name)
        if found.extra:
            self._uv(["pip", "uninstall", "--python", item.folder, *found.extra], item.name)
        if found.damaged:  # hard links: what was altered in the environment was altered in the cache as well
            self._uv(["cache", "clean", *found.damaged], item.name)
        for pins, more in self._parts(item):
            again = [word for pin in pins for word in ("--reinstall-package", pin.name) if pin.name in found.damaged]
            self._packages(item, pins, [*more, *again])
        self._accept(item)
        _for_reading(item.folder)
        packages = {name: pin.version for name, pin in item.lock.pins.items()}
        put(File(marker, json.dumps({"lock": item.lock.sha256, "packages": packages}) + "\n"))

    def _parts(self, item: Environment) -> list[tuple[list[Pin], list[str]]]:
        """What has wheels, then what is built with them."""
        built = [pin for name, pin in item.lock.pins.items() if name in item.built]
        wheels = [pin for name, pin in item.lock.pins.items() if name not in item.built]
        sources = ["--no-build-isolation", *(word for pin in built for word in ("--no-binary", pin.name))]
        return [(wheels, ["--only-binary", ":all:"]), *([(built, sources)] if built else [])]

    def _packages(self, item: Environment, pins: Sequence[Pin], more: Sequence[str]) -> None:
        path = os.path.join(item.folder, ".llmhw-requirements")
        put(File(path, requirements(pins)))
        words = ["pip", "install", "--python", item.folder, "--no-deps", "--require-hashes", "--compile-bytecode"]
        words += ["--link-mode", "hardlink", *self._where(item), *more, "--requirement", path]
        self._uv(words, item.name, DS_BUILD_OPS="0")
        os.unlink(path)

    def _where(self, item: Environment) -> list[str]:
        """Where wheels come from: a folder alone, the index, or the index with a folder for what only others have."""
        house = self.config.get("wheels") or {}
        if house.get("only"):
            return ["--offline", "--no-index", "--find-links", house["path"]]
        found = ["--default-index", self.config["index"]]
        if house:
            return [*found, "--find-links", house["path"]]
        further = [word for index in item.lock.indexes for word in ("--index", index)]
        return [*found, *further, *(["--index-strategy", "unsafe-best-match"] if further else [])]

    def _accept(self, item: Environment) -> None:
        """Nobody is given an environment whose packages do not fit, do not import, or bring another CUDA."""
        names = [f"{name}=={one.version}" for name, one in installed.distributions(item.folder).items()]
        wrong = cuda_refusals(item.name, item.cuda, cuda_majors(names))
        rc, out, err = self._run([self.uv, "pip", "check", "--python", item.folder], self._environment)
        said = [line for line in (out + err).splitlines() if line.startswith("The package")]
        if rc != 0 and not said:
            said = [(err or out).strip()[-400:]]
        wrong += [f"{item.name}: {line}" for line in said if line not in item.accepts]
        wrong += self._imports(item)
        if wrong:
            raise Failure("\n".join(wrong))

    def _imports(self, item: Environment) -> list[str]:
        python = os.path.join(item.folder, "bin/python")
        home = {"HOME": "/nonexistent", "HF_HUB_OFFLINE": "1", "LC_ALL": "C.UTF-8"}
        rc, out, err = self._run([python, "-I", "-c", _IMPORT, *item.imports], home)
        try:
            answer = json.loads(out.splitlines()[-1])
        except (ValueError, IndexError):
            return [f"{item.name}: the import test ended with status {rc}: {(err or out).strip()[-300:]}"]
        wrong = [f"{item.name}: import {name} fails: {why[:300]}" for name, why in sorted(answer["wrong"].items())]
        if answer["cuda"] is not None and answer["cuda"] != item.cuda:
            wrong.append(
                f"{item.name}: torch is built for CUDA {answer['cuda'] or '(none)'}, planned {item.cuda or '(none)'}"
            )
        return wrong

    def _uv(self, words: Sequence[str], what: str, **more: str) -> None:
        rc, out, err = self._run([self.uv, *words], {**self._environment, **more})
        if rc != 0:
            said = way_out.without_secrets((err or out).strip()[-1500:], self._environment)
            raise Failure(f"{what}: {said}")


def foreign(path: str) -> list[str]:
    """Why root must not write below `path`: a folder on the way belongs to somebody else, or others may change it."""
    way = "/"
    for part in path.strip("/").split("/"):
        way = os.path.join(way, part)
        try:
            there = os.lstat(way)
        except OSError:
            return []
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != 0:
            return [f"{way} is not a folder of root; move it away"]
        if there.st_mode & 0o022 and not there.st_mode & stat.S_ISVTX:
            return [f"{way} can be written by others (mode {stat.S_IMODE(there.st_mode):04o}); chmod go-w"]
    return []


def _for_reading(folder: str) -> None:
    """Nobody but root writes there; uv leaves its lock file open to all."""
    for where, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = os.path.join(where, name)
            mode = os.lstat(path).st_mode
            if mode & 0o022 and not stat.S_ISLNK(mode):
                os.chmod(path, stat.S_IMODE(mode) & ~0o022)


def in_use(folder: str) -> bool:
    """Whether a process has a file below `folder` mapped."""
    folder = os.path.realpath(folder)
    for path in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                if any(f" {folder}/" in line for line in stream):
                    return True
        except OSError:
            continue
    return False
