"""Debian 12's own CUDA compiler, as the role cuda installs it: what it builds, refuses, and says of itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Finding
from llmhw_provision.documents import check
from llmhw_provision.evidence import read
from llmhw_provision.plan.gpu_stack import plan_gpu
from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_gpu import CudaConfig, CudaToolkit
from llmhw_provision.probes import gpu_runtime
from llmhw_provision.site import Site
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.roles.checked import planned
from tests.roles.driver_machine import config as driver
from tests.unit.stacks import stack

pytestmark = [pytest.mark.container, pytest.mark.proof]

ADD = r"""#include <cstdio>
__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
int main() {
    const int n = 1 << 20;
    float *a, *b, *c;
    if (cudaMallocManaged(&a, n * sizeof *a) || cudaMallocManaged(&b, n * sizeof *b) ||
        cudaMallocManaged(&c, n * sizeof *c)) {
        printf("%s\n", cudaGetErrorString(cudaGetLastError()));
        return 3;
    }
    for (int i = 0; i < n; i++) a[i] = i, b[i] = 2 * i;
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
    if (cudaDeviceSynchronize()) return 4;
    for (int i = 0; i < n; i++) if (c[i] != 3.0f * i) return 1;
    return 0;
}
"""


def from_the_plan() -> CudaConfig:
    """What the plan gives a Debian 12 host whose site takes the distribution's CUDA."""
    software: dict[str, Any] = {"sources": {"cuda": "distribution"}, "environments": []}
    hosts = [{"name": "node-01", "address": "192.0.2.1"}]
    site = check({"schema": 1, "site": "x", "hosts": hosts, "software": software}, Site, path=Path("site.yaml"))
    found = plan_gpu("node-01", stack("h100-sxm", "debian12", software=software), site).cuda
    assert found
    return found


class Machine(NamedTuple):
    """A container with the compiler, what it was given, and how the first run went."""

    container: Container
    config: CudaConfig
    first: Result

    def build(self, source: str, words: str, *, before: str = "") -> tuple[int, str]:
        """Status and words of nvcc on `source`, in a login shell, which has the role's environment."""
        self.container.run("cat > /root/add.cu", given=source)
        line = f"cd /root && {before} nvcc {words} add.cu 2>&1"
        done = self.container.run(["bash", "-lc", line], check=False, timeout=900)
        return done.returncode, done.stdout

    def code(self, file: str) -> set[str]:
        """The architectures that a file holds machine code for."""
        return set(re.findall(r"sm_\d+", self.container.run(f"cuobjdump --list-elf /root/{file}").stdout))

    def judged(self, config: CudaConfig) -> Finding:
        """The shipped check of the toolkit."""
        evidence = read(self.container.name, (gpu_runtime.CUDA,), self.container.ssh_config, sudo=False)
        items = table.items(planned(RoleConfigs(nvidia_driver=driver(), cuda=config)), "quick")
        (item,) = (item for item in items if item.check.id == "cuda-toolkit")
        return table.judge(item, evidence)


def apply(container: Container, config: CudaConfig, **more: Any) -> Result:
    return ansible(container, "cuda", {"cuda_config": config.model_dump(mode="json")}, timeout=3000, **more)


@pytest.fixture(scope="module")
def compiler(module_container: Container) -> Machine:
    module_container.run(
        "sed -i 's/ main$/ main contrib non-free non-free-firmware/' /etc/apt/sources.list; apt-get update -q"
    )
    config = from_the_plan()
    return Machine(module_container, config, apply(module_container, config))


def test_a_vector_add_is_built_for_the_architecture_that_is_asked_for(compiler: Machine) -> None:
    (event,) = compiler.first.of("Choose the toolkit that programs find and write its environment")
    assert event.result["releases"] == {"/usr": "11.8"}
    assert compiler.build(ADD, "-arch=sm_90 -o add") == (0, "")
    assert compiler.code("add") == {"sm_90"}
    assert compiler.build(ADD, "-arch=sm_80 -c -o add.o") == (0, "")
    assert compiler.code("add.o") == {"sm_80"}
    said = compiler.container.run("/root/add", check=False)
    # the toolkit brings the distribution's libcuda1 with it; without a GPU and its module nothing runs
    assert (said.returncode, said.stdout) == (3, "no CUDA-capable device is detected\n")
    assert apply(compiler.container, compiler.config).changed == ()


def test_a_program_or_a_host_compiler_that_it_does_not_take_fails_with_its_own_line(compiler: Machine) -> None:
    status, said = compiler.build(ADD.replace("b[i];", "nothing;", 1), "-arch=sm_90 -o broken")
    assert status != 0
    assert 'add.cu(4): error: identifier "nothing" is undefined' in said.splitlines()
    compiler.container.run("apt-get install -y --no-install-recommends g++", timeout=600)
    status, said = compiler.build(ADD, "-ccbin=/usr/bin/g++ -arch=sm_90 -o broken", before="NVCC_PREPEND_FLAGS=")
    assert status != 0
    assert "unsupported GNU version! gcc versions later than 11 are not supported!" in said
    status, said = compiler.build(ADD, "-arch=sm_10 -o broken")
    assert (status != 0, said) == (True, "nvcc fatal   : Value 'sm_10' is not defined for option 'gpu-architecture'\n")
    assert compiler.container.run("ls /root/broken", check=False).returncode != 0


def test_the_shipped_check_reads_it(compiler: Machine) -> None:
    finding = compiler.judged(compiler.config)
    assert (finding.status, finding.found) == ("pass", "/usr is 11.8, nvcc 11.8")
    newer = (CudaToolkit(version="12.8", home="/usr"),)
    finding = compiler.judged(compiler.config.model_copy(update={"toolkits": newer, "default": "12.8"}))
    assert (finding.status, finding.found) == ("fail", "nvcc 11.8")
    compiler.container.run("mv /usr/bin/nvcc /root/")
    finding = compiler.judged(compiler.config)
    compiler.container.run("mv /root/nvcc /usr/bin/")
    assert (finding.status, finding.found) == ("fail", "no nvcc")
