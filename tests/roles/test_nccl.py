"""The role nccl in containers: exact library, settings by the host's adapters, nccl-tests built where it can be."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmhw_provision.plan.roles_gpu import NcclConfig, NcclTests
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.rehearsal.gpu.repository import Repository, build
from tests.rehearsal.gpu.signing import Key
from tests.roles.gpu_packages import STATE, actions, add_source, offered, source

pytestmark = pytest.mark.container

SETTINGS = "# Written by llmhw-provision.\nNCCL_SOCKET_IFNAME=^lo,docker,virbr,veth\n"
CONFIG = NcclConfig(
    packages=("libnccl2=2.30.7-1+cuda13.0", "libnccl-dev=2.30.7-1+cuda13.0"),
    hold=("libnccl2", "libnccl-dev"),
    settings=SETTINGS,
    rails=(),
    cuda_home="/usr/local/cuda",
)
# Where nccl-tests has its Makefile: what it is given is written into the program it makes.
MAKEFILE = """default:
\tmkdir -p $(BUILDDIR)
\ttest -e $(NCCL_HOME)/include/nccl.h
\t$(CUDA_HOME)/bin/nvcc --version | grep -q release
\tprintf '#!/bin/sh\\necho "%s"\\n' "$(NVCC_GENCODE) $(MPI)" >$(BUILDDIR)/all_reduce_perf
\tchmod 755 $(BUILDDIR)/all_reduce_perf
"""


def apply(container: Container, config: NcclConfig = CONFIG, **more: Any) -> Result:
    return ansible(container, "nccl", {"nccl_config": config.model_dump(mode="json")}, **more)


def archive(path: Path, makefile: str) -> str:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("nccl-tests-2.17.1/Makefile")
        member.size = len(makefile)
        tar.addfile(member, io.BytesIO(makefile.encode()))
    return str(path)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    folder = tmp_path_factory.mktemp("vendor")
    key = Key.make(folder / "key")
    yield build(folder / "repository", key=key, driver=())
    key.close()


def test_check_apply_apply(container: Container, repository: Repository) -> None:
    with offered(container, repository) as uri:
        add_source(container, source(repository, uri))
        container.run("echo NCCL_DEBUG=INFO >/etc/nccl.conf")
        before = container.run(STATE).stdout
        foreseen = apply(container, check=True)
        assert container.run(STATE).stdout == before
        done = apply(container)
        assert actions(done) == actions(foreseen) == [
            "set /etc/nccl.conf aside: another has written it", "write /etc/nccl.conf",
        ]  # fmt: skip
        assert container.run("cat /etc/nccl.conf").stdout == SETTINGS
        assert container.run("cat /etc/nccl.conf.disabled-by-llmhw").stdout == "NCCL_DEBUG=INFO\n"
        assert apply(container).changed == ()
        assert apply(container, check=True).changed == ()
        query = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Want}\\n' 'libnccl*'"
        assert container.run(query).stdout.splitlines() == [
            "libnccl-dev 2.30.7-1+cuda13.0 hold", "libnccl2 2.30.7-1+cuda13.0 hold",
        ]  # fmt: skip
        rails = CONFIG.model_copy(update={"rails": ("0000:1b:00.0",)})
        (said,) = apply(container, rails, may_fail=True).failed
        assert "adapter 0000:1b:00.0 is no RDMA device here" in said
        assert container.run("cat /etc/nccl.conf").stdout == SETTINGS


@pytest.mark.proof
def test_nccl_tests_are_built_where_a_compiler_is_there_and_anew_for_another_source(
    container: Container, repository: Repository, tmp_path: Path
) -> None:
    with offered(container, repository) as uri:
        add_source(container, source(repository, uri))
        apply(container)
        source_file = archive(tmp_path / "tests.tar.gz", MAKEFILE)
        wanted = CONFIG.model_copy(update={"tests": NcclTests(archive=source_file, compute=("9.0",))})
        (said,) = apply(container, wanted, may_fail=True).failed
        assert "nccl-tests cannot be built: no /usr/local/cuda/bin/nvcc" in said
        container.run("apt-get install -y --no-install-recommends cuda-toolkit-13-0", timeout=300)
        foreseen = apply(container, wanted, check=True)
        assert container.run("ls -A /opt/llmhw 2>/dev/null | wc -l").stdout == "0\n"
        done = apply(container, wanted)
        assert actions(done) == actions(foreseen) == [f"build nccl-tests from {source_file}"]
        program = "/opt/llmhw/nccl-tests/current/all_reduce_perf"
        assert container.run(program).stdout == "-gencode=arch=compute_90,code=sm_90 0\n"
        assert container.run("ls -A /opt/llmhw/nccl-tests | wc -l").stdout == "2\n"
        assert apply(container, wanted).changed == ()
        assert apply(container, wanted, check=True).changed == ()
        settled = container.run(f"readlink /opt/llmhw/nccl-tests/current; {program}").stdout
        archive(tmp_path / "tests.tar.gz", "default:\n\techo 'all_reduce.cu(7): error: no such thing' >&2; exit 2\n")
        (said,) = apply(container, wanted, may_fail=True).failed
        assert "building nccl-tests failed: all_reduce.cu(7): error: no such thing" in said
        assert container.run(f"readlink /opt/llmhw/nccl-tests/current; {program}").stdout == settled
        assert container.run("ls -A /opt/llmhw/nccl-tests | wc -l").stdout == "2\n"
