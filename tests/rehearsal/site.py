"""A site for the rehearsal machine, and the product's own command line run on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOST = "rehearsal"
# a model small enough that three checkpoints fit on eight drives of 1 GiB
WORKLOAD = """\
schema: 1
model: smollm2-135m
job: sft
dataset: {size: 500 MB, hot: 64 MiB}
checkpoints: {keep: 2}
"""
SITE = """\
schema: 1
site: rehearsal
hosts:
  - {{name: {host}, address: {address}, port: {port}, user: {user}, identity_file: {identity}}}
"""


def write_site(folder: Path, *, address: str, port: int, user: str, identity: Path) -> None:
    """Writes workload.yaml and site.yaml for the machine at `address`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.yaml").write_text(WORKLOAD, encoding="utf-8")
    text = SITE.format(host=HOST, address=address, port=port, user=user, identity=identity)
    (folder / "site.yaml").write_text(text, encoding="utf-8")


def close(folder: Path) -> None:
    """Ends the shared ssh connection that the verbs leave open for two minutes."""
    command = ["ssh", "-F", str(folder / "ssh_config"), "-O", "exit", HOST]
    subprocess.run(command, capture_output=True, check=False)


def product(verb: str, folder: Path, *arguments: str) -> list[str]:
    """The command line that runs `verb` on the site in `folder`."""
    return [str(Path(sys.executable).with_name("llmhw-provision")), verb, "--site", str(folder), *arguments]


def run(verb: str, folder: Path, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs the product with its output caught; raises AssertionError with both streams for another exit status."""
    done = subprocess.run(product(verb, folder, *arguments), capture_output=True, text=True, check=False)
    if done.returncode != expect:
        raise AssertionError(
            f"{verb}: exit {done.returncode}, expected {expect}\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}"
        )
    return done
