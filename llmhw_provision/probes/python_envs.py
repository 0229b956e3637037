"""Python environments of role python_env: where each link leads, what is wrong with its files, and what imports."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import json_object, output, table, unreadable

_PROGRAM = Path(__file__).with_name("on_host") / "python_envs"
_IMPORT = """import importlib, json, sys
wrong = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        wrong[name] = "%s: %s" % (type(error).__name__, str(error)[:300])
torch = sys.modules.get("torch")
print("\\n" + json.dumps({"wrong": wrong, "cuda": (torch.version.cuda or "") if torch else None}))"""
KEY = "python-envs"


@dataclass(frozen=True)
class Environment:
    """One environment; `folder` is empty without a link, `lock` where it was never finished."""

    folder: str
    lock: str
    python: str
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Imports:
    """Modules that fail to import, with the error, and the CUDA that torch is built for (None without torch)."""

    wrong: dict[str, str]
    cuda: str | None


def command(links: tuple[str, ...]) -> Command:
    """Looks at the environments behind these links."""
    program = _PROGRAM.read_text(encoding="utf-8")
    return Command(KEY, ("sh", "-c", 'exec python3 -I -c "$@"', "sh", program, *links), 60)


def import_command(link: str, modules: tuple[str, ...]) -> Command:
    """Imports modules in one environment, away from anybody's home."""
    line = 'cd / && exec env HOME=/nonexistent HF_HUB_OFFLINE=1 "$@"'
    words = (f"{link}/bin/python", "-I", "-B", "-c", _IMPORT, *modules)
    return Command(f"python-import:{link}", ("sh", "-c", line, "sh", *words), 300)


def environment(evidence: Evidence, link: str) -> Environment:
    """The environment behind `link`."""
    found = table(json_object(KEY, output(evidence, KEY)).get(link), KEY, link)
    values = [found.get(key) for key in ("folder", "lock", "python")]
    faults = found.get("faults")
    if not all(isinstance(value, str) for value in values) or not isinstance(faults, list):
        raise unreadable(KEY, str(found))
    folder, lock, python = map(str, values)
    return Environment(folder, lock, python, tuple(map(str, faults)))


def imports(evidence: Evidence, link: str) -> Imports:
    """What imports in the environment behind `link`; modules may have printed before."""
    raw = output(evidence, f"python-import:{link}")
    found = json_object("import", raw.rstrip(b"\n").rpartition(b"\n")[2] if raw.endswith(b"\n") else b"")
    cuda = found.get("cuda")
    if not isinstance(cuda, str | None):
        raise unreadable("import", str(found))
    return Imports({name: str(why) for name, why in table(found.get("wrong"), "import", "wrong").items()}, cuda)
