"""What the roles of the GPU software write is what the checks ask for."""

from __future__ import annotations

import re
from dataclasses import replace

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Finding
from llmhw_provision.evidence import Evidence
from llmhw_provision.probes import gpu_packages, gpu_runtime, nouveau
from tests.assembled import Assembled
from tests.assembled_stack import blackwell, cards, switched
from tests.unit import role_modules

from ansible.module_utils.nccl import render as nccl  # isort: skip
from ansible.module_utils.nvidia_driver import packages, render  # isort: skip

assert role_modules


def judged(machine: Assembled, name: str, evidence: Evidence) -> Finding:
    (item,) = (item for item in table.items(machine.plan, "quick") if item.check.id == name)
    return table.judge(item, evidence)


def test_the_roles_blacklist_is_the_one_that_is_asked_for() -> None:
    (blacklist, _) = render.kernel_files(())
    image = f"== /boot/initrd.img-6.1\n== {blacklist.path}\n{blacklist.text}== end\n"
    assert nouveau.parse_image(image.encode())[1] == nouveau.RIVALS


def test_the_roles_list_of_exceptions_covers_what_must_not_move() -> None:
    patterns = re.findall(r'^  "(.*)";$', render.unattended(), re.MULTILINE)
    for build in (switched, blackwell, cards):
        machine = build()
        result = machine.evidence.results["gpu-packages"]
        rest = re.sub(rb"(?m)^Unattended-Upgrade::Package-Blacklist::.*\n", b"", result.stdout)
        named = "".join(f'Unattended-Upgrade::Package-Blacklist:: "{name}";\n' for name in patterns).encode()
        raw = rest.replace(b"== end", named + b"== end")
        evidence = replace(
            machine.evidence, results={**machine.evidence.results, "gpu-packages": replace(result, stdout=raw)}
        )
        assert judged(machine, "gpu-unattended", evidence).status == "pass"


def test_role_and_checks_know_the_same_packages_of_the_driver() -> None:
    names = ("nvidia-open", "libcuda1", "libcudadebugger1", "libnvoptix1", "nvidia-persistenced", "nvidia-modprobe")
    names += (
        "libxnvctrl0",
        "firmware-nvidia-gsp",
        "nvidia-driver-pinning-580.126.09",
        "cuda-drivers",
        "cuda-nvcc-13-0",
    )
    for name in names:
        item = packages.Installed(name, "amd64", "580.126.09-1")
        ours = gpu_packages.Installed(name, "580.126.09-1", "installed", held=True)
        assert (ours.of_driver, ours.bound) == (bool(packages.driver_version(item)), bool(packages.core({name: item})))


def test_the_adapters_that_the_role_names_are_found_by_the_check() -> None:
    text = nccl.text("NCCL_SOCKET_IFNAME=^lo\n", ["0000:1a:00.0"], {"0000:1a:00.0": ["mlx5_0"]})
    assert gpu_runtime.settings(text.splitlines()) == {"NCCL_SOCKET_IFNAME": "^lo", "NCCL_IB_HCA": "=mlx5_0"}
