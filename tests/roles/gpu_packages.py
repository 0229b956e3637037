"""A signed repository of the GPU stack, served to a container, and the roles' configurations that go with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llmhw_provision.plan.roles_gpu import PackageSourcesConfig, VendorSource
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.rehearsal.gpu.repository import Repository, served

STATE = """find /etc /usr/local /opt /var/lib/apt /var/lib/dpkg/alternatives -xdev -not -path '/etc/ssh/*' \
-not -name pkgcache.bin -not -name srcpkgcache.bin -not -path '*/periodic*' -printf '%p %m %u %g %l\\n' | sort
find /etc /usr/local /opt -xdev -type f -exec sha256sum {} + | sort; dpkg-query -W; apt-mark showhold"""


@contextmanager
def offered(container: Container, repository: Repository) -> Iterator[str]:
    """The repository's address as the container reaches it."""
    with served(repository.folder, container.address.rpartition(".")[0] + ".1") as uri:
        yield uri


def source(repository: Repository, uri: str, **changes: Any) -> VendorSource:
    """The repository as a source whose key lies on the controller."""
    given: dict[str, Any] = {
        "name": "cuda",
        "uri": uri,
        "suites": ("./",),
        "components": (),
        "key_file": str(repository.key_file),
        "fingerprints": (repository.fingerprint,),
        "only": ("nvidia-open*", "nvidia-driver*", "libnvidia-*", "libnccl2"),
        "never": (),
        "replaces": ("https://developer.download.nvidia.com/compute/cuda/repos/",),
    }
    return VendorSource(**{**given, **changes})


def add_source(container: Container, *sources: VendorSource, **more: Any) -> Result:
    """Role package_sources."""
    config = PackageSourcesConfig(sources=sources).model_dump(mode="json")
    return ansible(container, "package_sources", {"package_sources_config": config}, **more)


def actions(result: Result) -> list[str]:
    """What the role's modules did or would do, in order."""
    return [action for event in result.events for action in event.result.get("actions", ())]
