"""The role cuda in containers: toolkits side by side out of a signed repository, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from llmhw_provision.plan.roles_gpu import CudaConfig, CudaToolkit
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.rehearsal.gpu.repository import Repository, build
from tests.rehearsal.gpu.signing import Key
from tests.roles.gpu_packages import STATE, actions, add_source, offered, source

pytestmark = pytest.mark.container

LINK = "readlink /usr/local/cuda /etc/alternatives/cuda"
CONFIG = CudaConfig(
    packages=(
        "cuda-toolkit-13-0",
        "cuda-toolkit-12-8",
        "libcudnn9-cuda-13=9.24.0.43",
        "libcudnn9-dev-cuda-13=9.24.0.43",
        "libcudnn9-headers-cuda-13=9.24.0.43",
    ),
    profiler=("cuda-nsight-systems-13-0", "nsight-systems-cli"),
    toolkits=tuple(CudaToolkit(version=item, home=f"/usr/local/cuda-{item}") for item in ("13.0", "12.8")),
    default="13.0",
    home="/usr/local/cuda",
    alternatives=True,
    hold=("nsight-systems-cli", "*-13-0", "*-12-8", "cuda-toolkit-*config-common", "libcudnn9-*"),
    keep=("cuda", "cuda-runtime-*", "cuda-drivers*", "nvidia-driver*", "nvidia-open*", "libnvidia-*[0-9]*"),
)


def apply(container: Container, config: CudaConfig = CONFIG, **more: Any) -> Result:
    return ansible(container, "cuda", {"cuda_config": config.model_dump(mode="json")}, **more)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    folder = tmp_path_factory.mktemp("vendor")
    key = Key.make(folder / "key")
    yield build(folder / "repository", key=key)
    key.close()


@pytest.fixture
def sourced(container: Container, repository: Repository) -> Iterator[Container]:
    """A container that has the repository."""
    with offered(container, repository) as uri:
        add_source(container, source(repository, uri))
        yield container


def test_toolkits_side_by_side(sourced: Container) -> None:
    before = sourced.run(STATE).stdout
    foreseen = apply(sourced, check=True)
    assert sourced.run(STATE).stdout == before
    done = apply(sourced)
    assert actions(foreseen) == actions(done) == [
        "let /usr/local/cuda lead to /usr/local/cuda-13.0",
        "write /etc/llmhw/cuda.env",
        "write /etc/profile.d/llmhw-cuda.sh",
    ]  # fmt: skip
    assert set(foreseen.changed) == set(done.changed)
    settled = sourced.run(STATE).stdout
    assert apply(sourced).changed == ()
    assert apply(sourced, check=True).changed == ()
    assert sourced.run(STATE).stdout == settled
    (event,) = done.of("Choose the toolkit that programs find and write its environment")
    assert event.result["releases"] == {"/usr/local/cuda-13.0": "13.0", "/usr/local/cuda-12.8": "12.8"}
    # the plan's, though 13.1 would be the newest, and cuDNN 9.26 too
    assert sourced.run(LINK).stdout.split() == ["/etc/alternatives/cuda", "/usr/local/cuda-13.0"]
    assert "release 13.0" in sourced.run("bash -lc 'nvcc --version; echo $CUDA_HOME'").stdout
    unit = "systemd-run --pipe --wait -q -p EnvironmentFile=/etc/llmhw/cuda.env sh -c 'nvcc --version; echo $CUDA_HOME'"
    assert "release 13.0" in sourced.run(unit).stdout
    names = "'libcudnn9*-13' 'cuda-nvcc*' 'nsight-systems-cli'"
    query = f"dpkg-query -W -f '${{Package}} ${{Version}} ${{db:Status-Want}}\\n' {names}"
    assert sourced.run(query).stdout.splitlines() == [
        "cuda-nvcc-12-8 12.8.93-1 hold",
        "cuda-nvcc-13-0 13.0.88-1 hold",
        "libcudnn9-cuda-13 9.24.0.43-1 hold",
        "libcudnn9-dev-cuda-13 9.24.0.43-1 hold",
        "libcudnn9-headers-cuda-13 9.24.0.43-1 hold",
        "nsight-systems-cli 2025.5.1.121-1 hold",
    ]
    assert (
        sourced.run("dpkg-query -W -f '${Package}\\n' | grep -E '^(cuda$|cuda-drivers|nvidia-)'", check=False).stdout
        == ""
    )
    assert "upgraded, 0 newly installed, 0 to remove" in sourced.run("apt-get -s dist-upgrade").stdout
    assert "Inst " not in sourced.run("apt-get -s dist-upgrade").stdout
    # by hand: a hold that has leaked, an alternative that has moved, another version
    sourced.run("apt-mark unhold cuda-nvcc-13-0; update-alternatives --auto cuda; rm /etc/llmhw/cuda.env")
    again = apply(sourced)
    assert actions(again) == ["let /usr/local/cuda lead to /usr/local/cuda-13.0", "write /etc/llmhw/cuda.env"]
    assert sourced.run("apt-mark showhold | grep -c cuda-nvcc").stdout == "2\n"
    sourced.run("apt-get install -y --allow-change-held-packages libcudnn9-cuda-13=9.26.0.51-1 "
                "libcudnn9-dev-cuda-13=9.26.0.51-1 libcudnn9-headers-cuda-13=9.26.0.51-1")  # fmt: skip
    apply(sourced)
    assert "9.24.0.43-1 hold" in sourced.run(query).stdout
    assert "9.26" not in sourced.run(query).stdout
    assert apply(sourced).changed == ()


@pytest.mark.proof
def test_what_would_move_a_driver_is_refused(sourced: Container) -> None:
    """aws-deep-learning-ami-ubuntu-dcv-desktop 11: bare cuda brings the newest driver."""
    sourced.run("apt-get update -q")
    before = sourced.run(STATE).stdout
    (said,) = apply(sourced, CONFIG.model_copy(update={"packages": ("cuda",)}), may_fail=True).failed
    assert "apt would install cuda, which it must leave alone" in said
    assert "apt would install nvidia-open, which it must leave alone" in said or "cuda-drivers" in said
    (said,) = apply(
        sourced, CONFIG.model_copy(update={"packages": ("libcudnn9-cuda-13=9.25.0.1",)}), may_fail=True
    ).failed
    assert "libcudnn9-cuda-13: version 9.25.0.1 is not offered; offered: 9.26.0.51-1, 9.24.0.43-1" in said
    sourced.run("mkdir -p /usr/local/cuda/bin")
    (said,) = apply(sourced, may_fail=True).failed
    assert "/usr/local/cuda is a folder of its own, where update-alternatives keeps a link" in said
    sourced.run("rm -r /usr/local/cuda")
    assert sourced.run(STATE).stdout == before


@pytest.mark.proof
def test_a_compiler_that_is_missing_or_another_is_said(sourced: Container) -> None:
    config = CONFIG.model_copy(update={"packages": ("cuda-toolkit-13-0",), "profiler": ("nsight-nothing",)})
    (said,) = apply(sourced, config, may_fail=True).failed
    assert "CUDA 12.8: no /usr/local/cuda-12.8/bin/nvcc, though its packages are installed" in said
    config = config.model_copy(
        update={"toolkits": (CudaToolkit(version="13.1", home="/usr/local/cuda-13.0"),), "default": "13.1"}
    )
    done = apply(sourced, config, may_fail=True)
    assert "CUDA 13.1: /usr/local/cuda-13.0/bin/nvcc reports 13.0" in done.failed[0]
    assert "no package source offers nsight-nothing: left out" in " ".join((done.stdout + done.stderr).split())
