"""A customer's site whose hosts are containers, worked on with the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.containers.base import private_key
from tests.containers.container import Container

_ENTRY = "from llmhw_provision.cli import entry; entry()"
FD = "FD"
_WORKLOAD = """schema: 1
model: llama-3.1-8b
job: sft
method: lora
dataset:
  size: 20 GB
  hot: 64 MiB
"""
# What apply leaves on a container: files with owner, mode and content, the mount, the flag under it.
_STATE = r"""
find /etc/systemd/system /etc/llmhw /scratch /srv/project -xdev -printf '%p %y %m %u:%g %l\n' 2>/dev/null | sort
find /etc/systemd/system /etc/llmhw -xdev -type f -exec sha256sum {} + | sort
findmnt -rno SOURCE,FSTYPE,OPTIONS /mnt/hot; systemctl is-enabled mnt-hot.mount; dpkg --audit"""


class Site:
    """The folder of the site; `user` is who logs in on all hosts."""

    def __init__(self, folder: Path, containers: Sequence[Container], *, user: str = "root", key: str = "") -> None:
        self.folder = folder
        self.containers = tuple(containers)
        hosts = [
            {"name": c.name, "address": c.address, "user": user, "identity_file": key or str(private_key())}
            for c in self.containers
        ]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workload.yaml").write_text(_WORKLOAD)
        (folder / "site.yaml").write_text(json.dumps({"schema": 1, "site": "lab", "hosts": hosts}))
        for container in self.containers:
            container.run("mkdir -p /lib/modules")  # a container has no kernel of its own

    def planned(self, *more: str, secret: str = "") -> Site:
        """Discovers and plans; the site itself."""
        for words in (("discover", "--accept-host-keys", *more), ("plan",)):
            done = self.call(*words, secret=secret if words[0] == "discover" else "")
            assert done.returncode == 0, done.stderr
        return self

    def start(self, *words: str, secret: str = "") -> subprocess.Popen[str]:
        """The verb at work; `secret` can be read from the descriptor whose number replaces the word FD."""
        read, write = os.pipe()
        named = [str(read) if word == FD else word for word in words]
        os.write(write, f"{secret}\n".encode())
        os.close(write)
        try:
            return subprocess.Popen(
                [sys.executable, "-c", _ENTRY, *named, "--site", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(read,),
            )
        finally:
            os.close(read)

    def call(self, *words: str, secret: str = "", timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """The verb, to its end."""
        with self.start(*words, secret=secret) as process:
            out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def runs(self, *words: str) -> str:
        """What `runs` prints."""
        done = self.call("runs", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def result(self) -> dict[str, Any]:
        """result.json of the last apply."""
        found: dict[str, Any] = json.loads((self.last() / "result.json").read_text())
        return found

    def last(self) -> Path:
        """Folder of the last apply."""
        return max((self.folder / "runs").glob("*-apply*"))


def state(container: Container) -> str:
    """All that apply is to leave on a container, as text to compare."""
    return container.run(_STATE, check=False).stdout
