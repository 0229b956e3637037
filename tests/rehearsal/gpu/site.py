"""A site whose host gets its GPU software from a repository of generated packages, served on the machine's network."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.rehearsal import layout
from tests.rehearsal.gpu.repository import DRIVERS, Repository, build, served
from tests.rehearsal.gpu.signing import Key
from tests.rehearsal.machine import Machine
from tests.rehearsal.site import close, write_site

# no Python environment: what stands in for CUDA runs no torch, and its packages are proven in containers
SOFTWARE = """\
software:
  driver: "{driver}"
  environments: []
  repositories:
    cuda: {{uri: "{uri}", key_file: keys/cuda.asc}}
"""


@dataclass(frozen=True)
class GpuSite:
    """The site's folder and the repository that its host uses."""

    folder: Path
    repository: Repository

    def ask_for(self, driver: str) -> None:
        """Writes another driver into site.yaml."""
        path = self.folder / "site.yaml"
        head = path.read_text(encoding="utf-8").partition("software:\n")[0]
        path.write_text(head + SOFTWARE.format(driver=driver, uri=self.repository.uri), encoding="utf-8")

    def rebuild(self, driver: Sequence[str], faults: Iterable[str] = ()) -> None:
        """The repository anew, with other drivers or with faults."""
        old = self.repository
        build(old.folder, key=old.key, driver=driver, faults=faults)


@contextmanager
def gpu_site(
    machine: Machine, folder: Path, *, driver: str, offered: Sequence[str] = DRIVERS, faults: Iterable[str] = ()
) -> Iterator[GpuSite]:
    """A site for `machine` that wants `driver`; the repository is there as long as the context is open."""
    key = Key.make(folder / "key")
    try:
        made = build(folder / "repository", key=key, driver=offered, faults=faults)
        with served(made.folder, layout.NETWORK["cidr"].replace(".0/24", ".1")) as uri:
            site = GpuSite(folder / "site", Repository(made.folder, key, uri))
            identity = machine.identity_file
            write_site(site.folder, address=machine.address, port=machine.port, user=machine.user, identity=identity)
            (site.folder / "keys").mkdir()
            shutil.copy(made.key_file, site.folder / "keys/cuda.asc")
            site.ask_for(driver)
            yield site
            close(site.folder)
    finally:
        key.close()
