"""Writes the locks of the Python environments: `python locks/compile.py [NAME ...] [--upgrade] [--check]`.

locks/NAME.in says what is wanted, software.yml for which Python; locks/NAME.txt is what `uv pip compile` makes of it,
with a hash for every file. What is locked already is kept unless --upgrade. Only metadata is read, no wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from llmhw_provision.catalogue.software import software
from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import Problem
from llmhw_provision.plan.resolve_python import lock_problems

FOLDER = Path(__file__).resolve().parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.in"))
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# glibc 2.34: the oldest of the supported distributions (EL 9); llguidance has no wheel for older ones
PLATFORM = "x86_64-manylinux_2_34"
TIMEOUT_S = 300
_BUILT = ("deepspeed",)  # published as source only
_FLOOR = re.compile(r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?(==|>=)[0-9][0-9A-Za-z.+]*$")


class NotCompiled(click.ClickException):
    """uv found no set, or could not ask the index."""


def floor_problems(text: str, name: str) -> tuple[Problem, ...]:
    """Lines of locks/NAME.in without exact version or floor."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(
        Problem(f"locks/{name}.in: {line!r} has no floor", "write NAME==VERSION, or NAME>=VERSION")
        for line in lines
        if line and not _FLOOR.match(line)
    )


def compiled(name: str, *, keep: str = "", wheels: str = "", upgrade: bool = False) -> str:
    """The text of locks/NAME.txt; `keep` is the lock so far, `wheels` a folder that stands for the CPU index."""
    cpu = name.endswith("-cpu")
    record = software().environments[name.removesuffix("-cpu")]
    python = record.cpu.python if cpu else record.python
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lock.txt"
        if keep and not upgrade:
            # versions alone: uv would take hashes from there, right or wrong
            output.write_text("\n".join(pins(keep)) + "\n", encoding="utf-8")
        words = ["pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-python-downloads"]
        words += ["--python-version", python, "--python-platform", PLATFORM, "--only-binary", ":all:"]
        words += [word for built in _BUILT for word in ("--no-binary", built)]
        if cpu:
            index = ["--find-links", wheels] if wheels else ["--index", CPU_INDEX]
            words += [*index, "--index-strategy", "unsafe-best-match"]
        words += ["--output-file", str(output), f"locks/{name}.in"]
        _uv(name, words)
        return head(name, python) + "\n" + output.read_text(encoding="utf-8")


def pins(text: str) -> dict[str, frozenset[str]]:
    """`name==version` of a lock, each with its hashes."""
    blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)
    found = ((re.match(r"[a-z0-9-]+==[^ ;\\]+", block), block) for block in blocks)
    return {pin[0]: frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block)) for pin, block in found if pin}


def head(name: str, python: str) -> str:
    """The first lines of a lock, up to an empty one."""
    lines = [f"# Written by make locks from locks/{name}.in for CPython {python}, {PLATFORM}."]
    lines += [f"--extra-index-url {CPU_INDEX}"] if name.endswith("-cpu") else []
    return "\n".join(lines) + "\n"


def _uv(name: str, words: list[str]) -> None:
    program = str(Path(sys.executable).with_name("uv"))
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("UV_") or key == "UV_CACHE_DIR"
    }
    done = subprocess.run(
        [program, *words],
        cwd=FOLDER.parent,
        env={**environment, "UV_NO_CONFIG": "1", "UV_HTTP_TIMEOUT": "60"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if done.returncode != 0:
        raise NotCompiled(f"lock {name}: {done.stderr.strip()[-3000:]}")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(NAMES))
@click.option("--upgrade", is_flag=True, help="Take the newest versions that the .in files allow.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a lock would change.")
def main(names: tuple[str, ...], upgrade: bool, check: bool) -> None:
    """Write the locks of all environments, or of those named."""
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    stale: list[str] = []
    for name in names or NAMES:
        path = FOLDER / f"{name}.txt"
        keep = path.read_text(encoding="utf-8") if path.exists() else ""
        problems = list(floor_problems((FOLDER / f"{name}.in").read_text(encoding="utf-8"), name))
        text = "" if problems else compiled(name, keep=keep, wheels=wheels, upgrade=upgrade)
        problems += lock_problems(text, name) if text else ()
        if problems:
            raise click.ClickException("\n".join(f"{item.message}; {item.hint}" for item in problems))
        if text != keep:
            stale.append(name)
            if not check:
                write_atomic(path, text)
        state = "kept" if text == keep else "differs" if check else "written"
        click.echo(f"locks/{name}.txt: {text.count('==')} packages, {state}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
