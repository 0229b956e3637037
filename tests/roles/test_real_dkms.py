"""Debian's own packages of the driver, built by the real dkms and compilers: what builds, and what does not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Finding
from llmhw_provision.evidence import Evidence, read
from llmhw_provision.plan.model import HostPlan, RoleConfigs
from llmhw_provision.plan.roles_driver import DriverPackage, NvidiaDriverConfig
from llmhw_provision.probes import dkms, driver_files, gpu_packages, kernels
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.containers.plugin import StartMany
from tests.roles.checked import planned

pytestmark = [pytest.mark.container, pytest.mark.proof]

TOOLS = "dkms gcc g++ make pciutils kmod"
HEADLESS = ("nvidia-open-kernel-dkms", "libcuda1", "nvidia-smi")
MODULE = "nvidia-current-open"  # dkms' name, and the module file's


def config(version: str, *names: str) -> NvidiaDriverConfig:
    """What the plan gives a Debian host with `sources.driver: distribution`, of these packages.

    Those of a headless machine are enough for a build: nvidia-driver brings X with it, a hundred packages.
    """
    return NvidiaDriverConfig(
        version=version,
        modules="open",
        packages=tuple(DriverPackage(name=name, version=version) for name in names or HEADLESS),
        needs=("dkms", "gcc", "g++", "make"),
        dkms=True,
        headers_prefix="linux-headers-",
        stream="",
        board="none",
        modules_load=(),
        gpus=1,
        without_return=False,
    )


class Machine:
    """A container with all of Debian's components, build tools, and headers of a kernel whose image is empty."""

    def __init__(self, container: Container, headers: str) -> None:
        self.container = container
        sources = container.root / "etc/apt/sources.list"
        sources.write_text(sources.read_text().replace(" main\n", " main contrib non-free non-free-firmware\n"))
        container.run(
            f"apt-get update && INITRD=No apt-get install -y --no-install-recommends {headers} {TOOLS}", timeout=1800
        )
        self.release = container.run("ls /lib/modules").stdout.split()[-1]
        container.run(f"touch /boot/vmlinuz-{self.release} /lib/modules/{self.release}/modules.{{order,builtin}}")

    def apply(self, wanted: NvidiaDriverConfig, **more: Any) -> Result:
        values = {"nvidia_driver_config": wanted.model_dump(mode="json")}
        return ansible(self.container, "nvidia_driver", values, timeout=3600, **more)

    def read(self) -> Evidence:
        """What it answers to the probes, as if the kernel of the headers were running: a container's is not its own."""
        running = self.container.run("uname -r").stdout.strip()
        self.container.run(f"ln -sfn {self.release} /lib/modules/{running}")
        fake = self.container.root / "usr/local/sbin/uname"
        fake.write_text(f'#!/bin/sh\n[ "$*" = -r ] && echo {self.release} || exec /bin/uname "$@"\n')
        fake.chmod(0o755)
        commands = (dkms.COMMAND, driver_files.COMMAND, gpu_packages.command(HEADLESS), kernels.COMMAND)
        try:
            return read(self.container.name, commands, self.container.ssh_config, sudo=False)
        finally:
            self.container.run(f"rm /usr/local/sbin/uname /lib/modules/{running}")


def judged(evidence: Evidence, wanted: NvidiaDriverConfig, name: str) -> Finding:
    """The answer of one shipped check."""
    host: HostPlan = planned(RoleConfigs(nvidia_driver=wanted))
    (item,) = (item for item in table.items(host, "quick") if item.check.id == name)
    return table.judge(item, evidence)


def test_debian_12s_module_is_built_and_read_as_built(containers: StartMany) -> None:
    """With the kernel of the last point release; that of the security archive is another case."""
    machine = Machine(containers(1, suite="bookworm")[0], "linux-headers-amd64/bookworm")
    release, wanted = machine.release, config("535.261.03")
    # the security archive has a newer driver, whose open module Debian has not: all of the older one must come
    foreseen = machine.apply(config("535.261.03", "nvidia-driver", "nvidia-open-kernel-dkms"), check=True)
    (looked,) = foreseen.of("Look at packages, kernels and sources and refuse what cannot end well")
    names = {entry.partition("=")[0] for entry in looked.result["install"]}
    assert {"libgl1-nvidia-glvnd-glx", "firmware-nvidia-gsp", "nvidia-open-kernel-dkms"} <= names
    assert "nvidia-kernel-dkms" not in names  # the closed modules, which would win over the open ones

    machine.apply(wanted)
    # the role alone, without the initramfs' that ends an apply: modprobe finds the file that Debian has renamed
    shown = machine.container.run(f"modprobe -S {release} --dry-run --verbose nvidia").stdout
    assert f"modprobe -i {MODULE}" in shown
    assert machine.apply(wanted).changed == ()
    assert machine.apply(wanted, check=True).changed == ()

    evidence = machine.read()
    assert dkms.built(evidence) == (dkms.Built(MODULE, wanted.version, release, "installed", ""),)
    files = driver_files.files(evidence)
    assert (files.file, files.open_modules) == (wanted.version, True)
    for name in ("gpu-one-version", "gpu-held", "gpu-dkms", "gpu-boot-module"):
        finding = judged(evidence, wanted, name)
        assert (finding.status, finding.check) == ("pass", name), finding

    machine.container.run(f"dkms uninstall -m {MODULE} -v {wanted.version} -k {release}")
    finding = judged(machine.read(), wanted, "gpu-dkms")
    assert (finding.status, finding.found.partition(":")[0]) == ("fail", f"not for {release}")


@pytest.mark.parametrize(("suite", "version", "place"), [
    ("bookworm", "535.261.03", "nv-pci.c:223:"),  # 6.1.192 of the security archive took the new interface over
    ("trixie", "550.163.01", "nv-pci.c:237:"),
])  # fmt: skip
def test_a_module_that_the_present_kernel_refuses_is_told_with_the_compilers_line(
    containers: StartMany, suite: str, version: str, place: str
) -> None:
    machine = Machine(containers(1, suite=suite)[0], "linux-headers-amd64")
    release, wanted = machine.release, config(version)
    (text,) = machine.apply(wanted, may_fail=True).failed[-1:]
    log = f"/var/lib/dkms/{MODULE}/{wanted.version}/build/make.log"
    lines = machine.container.run(f"cat {log}").stdout.splitlines()
    said = next(line for line in lines if place in line and " error: " in line)
    assert re.search(r"too few arguments to function .pci_resize_resource.", said)  # the quotes follow the locale
    assert f"the module {wanted.version} was not built for kernel {release}: {said} ({log})" in text
    assert "llmhw-nvidia.conf" not in machine.container.run("ls /etc/modprobe.d").stdout

    evidence = machine.read()
    assert [item.state for item in dkms.built(evidence)] == ["added"]
    assert driver_files.files(evidence).file == ""
    finding = judged(evidence, wanted, "gpu-dkms")
    assert (finding.status, finding.found) == ("fail", f"not for {release}: {said}")
    assert judged(evidence, wanted, "gpu-boot-module").status == "fail"
