"""Faults of the GPU software: before it is installed, and of what is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from tests.assembled import Assembled
from tests.assembled_before import (
    blackwell_before,
    cards_before,
    pairs_before,
    rocky_before,
    switched_before,
    workstation_before,
)
from tests.assembled_stack import (
    NEXT,
    RUNNING,
    URI,
    blackwell,
    cards,
    rocky,
    switched,
)
from tests.fault import Fault

_OURS = "written by us"
_ARCHIVE = "http://archive.ubuntu.com/ubuntu"


def _before(what: str, origin: str, seed: Callable[[], Assembled], caught: dict[str, tuple[str, str]]) -> Fault:
    return Fault(what, origin, seed, caught, "before")


def _driver(machine: Assembled, **changes: object) -> Assembled:
    """The machine with another plan of its driver."""
    config = machine.plan.roles.nvidia_driver
    assert config
    changed = NvidiaDriverConfig.model_validate({**config.model_dump(), **changes})
    roles = machine.plan.roles.model_copy(update={"nvidia_driver": changed})
    return replace(machine, plan=machine.plan.model_copy(update={"roles": roles}))


def _secured(keys: str) -> Assembled:
    machine = cards_before().answered("secure-boot", "   1\n", _OURS)
    return machine.answered("signing-keys", keys, _OURS)


def _installed(site: str, other: str) -> Assembled:
    """A machine with driver packages of two sources."""
    table = ""
    for name, version, at in (("libnvidia-ml1", "580.95.05-0ubuntu1", other), ("libcuda1", "580.95.05-1", site)):
        table += f"{name}:\n  Installed: {version}\n  Candidate: {version}\n  Version table:\n *** {version} 500\n"
        table += f"        500 {at} noble/restricted amd64 Packages\n        100 /var/lib/dpkg/status\n"
    return cards_before().edited("gpu-offers", r"\A== offers\n", f"== offers\n{table}")


def _second_entry(uri: str) -> Assembled:
    text = f"== /etc/apt/sources.list.d/cuda.list\ndeb [signed-by=/usr/share/keyrings/other.gpg] {uri} /\n"
    return switched_before().edited("source-entries", r"\A", text)


def _no_repository(machine: Assembled) -> Assembled:
    machine = machine.edited("source-entries", r"== /etc/apt/sources.list.d/llmhw-cuda.sources\n(?:[A-Z].*\n)+", "")
    return machine.edited("gpu-offers", r"^(?:nvidia|lib|cuda|nvlsm)\S*:\n(?: .*\n)+", "")


BEFORE = (
    _before(
        "the board's NVSwitches are not on the bus",
        _OURS,
        lambda: switched_before().edited("gpu-switches", r"^nvswitch.*\n", ""),
        {"gpu-board": ("", "no NVSwitch")},
    ),
    _before(
        "NVLink 5 switches that do not say SW_MNG",
        "B005",
        lambda: blackwell_before().edited("gpu-switches", r"^nvlink5.*\n", ""),
        {"gpu-board": ("", "no NVSwitch")},
    ),
    _before(
        "NVSwitches that the plan does not know",
        "B004",
        lambda: cards_before().edited("gpu-switches", "== end", "nvswitch 0000:83:00.0\n== end"),
        {"gpu-board": ("unplanned", "1× NVSwitches")},
    ),
    _before(
        "Resizable BAR off",
        "B019",
        lambda: workstation_before().edited("gpu-bars", "0x000000bfffffffff", "0x000000400fffffff"),
        {"gpu-windows": ("", "0000:1b:00.0: 256.0 MiB")},
    ),
    _before(
        "closed modules planned for Blackwell",
        "B017",
        lambda: _driver(workstation_before(), modules="closed"),
        {"gpu-flavour": ("", "rtx-5090 runs on the open ones only")},
    ),
    _before(
        "closed modules installed where open ones are planned",
        "B017",
        lambda: pairs_before().edited(
            "gpu-packages", "== locked", "install installed nvidia-kernel-dkms 535.261.03-1\n== locked"
        ),
        {"gpu-flavour": ("exchange", "nvidia-kernel-dkms")},
    ),
    _before(
        "a driver from the .run installer",
        _OURS,
        lambda: cards_before().edited(
            "driver-leftovers",
            "== end",
            "/usr/bin/nvidia-uninstall\n/usr/lib/x86_64-linux-gnu/libcuda.so.570.86\n== end",
        ),
        {"gpu-leftovers": ("", "/usr/bin/nvidia-uninstall, /usr/lib/x86_64-linux-gnu/libcuda.so.570.86")},
    ),
    _before(
        "headers of the newest kernel are gone from the mirror",
        "B015",
        lambda: cards_before().edited("kernels", rf"== offered\n{NEXT}\n", "== offered\n"),
        {"gpu-headers": ("", f"none on offer, for {NEXT}")},
    ),
    _before(
        "two tracks of kernels",
        _OURS,
        lambda: cards_before().edited("kernels", r"^linux-image-amd64$", "linux-image-amd64\nlinux-image-cloud-amd64"),
        {"gpu-tracks": ("", "linux-image-cloud-amd64")},
    ),
    _before(
        "no g++ on offer",
        "B015",
        lambda: cards_before().edited("gpu-offers", r"^g\+\+:\n(?: .*\n)+", ""),
        {"gpu-tools": ("", "g++: not on offer")},
    ),
    _before(
        "dkms of a dated mirror",
        "B014",
        lambda: rocky_before().edited("gpu-offers", r"(^dkms:\n.*\n  Candidate: )3\.2\.2-1", r"\g<1>3.0.13-1.el9"),
        {"gpu-tools": ("old", "dkms: 3.0.13-1.el9, 3.1.8 is needed")},
    ),
    _before(
        "less room than apt counts",
        _OURS,
        lambda: cards_before().answered("df", "1B-blocks Avail Mounted on\n99000000000 10000000000 /\n", _OURS),
        {"gpu-room": ("", "/ has 9.3 GiB free")},
    ),
    _before(
        "Secure Boot without a key",
        "B034",
        lambda: _secured("== keys\n== dkms\n== signing\n== end\n"),
        {"gpu-signing": ("", "no key")},
    ),
    _before(
        "Secure Boot with a key that is not enrolled",
        "B034",
        lambda: _secured(
            "== keys\n/var/lib/dkms/mok.pub|/var/lib/dkms/mok.pub is not enrolled\n== dkms\ndkms-3.2.2\n"
            "== signing\n== end\n"
        ),
        {"gpu-signing": ("enrol", "/var/lib/dkms/mok.pub is not enrolled")},
    ),
    _before(
        "Secure Boot and a dkms that does not sign",
        "B034",
        lambda: _secured(
            "== keys\n/var/lib/dkms/mok.pub|/var/lib/dkms/mok.pub is already enrolled\n== dkms\ndkms-3.0.10\n"
            "== signing\n== end\n"
        ),
        {"gpu-signing": ("unsigned", "dkms 3.0.10")},
    ),
    _before(
        "NVIDIA's source twice, with two keys",
        "B030",
        lambda: _second_entry(URI),
        {"gpu-source-keys": ("cured", "cuda.list")},
    ),
    _before(
        "another source twice, with two keys",
        "B030",
        lambda: _second_entry("http://deb.debian.org/debian").edited(
            "source-entries", r"debian /$", "debian bookworm main"
        ),
        {"gpu-source-keys": ("", "keys differ in /etc/apt/sources.list.d/cuda.list")},
    ),
    _before(
        "NVIDIA's source of another distribution",
        "B028",
        lambda: _second_entry(URI.replace("debian12", "ubuntu2404")),
        {"gpu-source-system": ("cured", "ubuntu2404")},
    ),
    _before(
        "a mirror of NVIDIA's source of another distribution",
        "B028",
        lambda: _second_entry("http://mirror.example/compute/cuda/repos/ubuntu2404/x86_64/"),
        {"gpu-source-system": ("", "ubuntu2404")},
    ),
    _before(
        "driver packages of archive and repository mixed",
        "B012",
        lambda: _installed(URI, _ARCHIVE),
        {"gpu-origins": ("", f"{_ARCHIVE}: libnvidia-ml1")},
    ),
    _before(
        "the repository has moved on",
        _OURS,
        lambda: cards_before().edited("gpu-offers", r"595\.80-1", "595.90-1"),
        {"gpu-offers": ("", "nvidia-open: 595.80 is planned, on offer: 595.90-1")},
    ),
    _before(
        "the mirror lacks a package",
        _OURS,
        lambda: cards_before().edited("gpu-offers", r"^libcudnn9-cuda-13:\n(?: .*\n)+", ""),
        {"gpu-offers": ("unknown", "no source knows libcudnn9-cuda-13")},
    ),
    _before(
        "the repository is not set up yet",
        _OURS,
        lambda: _no_repository(cards_before()).answered(
            "gpu-solution", "== simulated\nE: Unable to locate package nvidia-open\n== size\n== end\n", _OURS
        ),
        {"gpu-offers": ("later", "nvidia-open"), "gpu-solution": ("later", "not set up")},
    ),
    _before(
        "the repository is written, its lists were not fetched yet",
        _OURS,
        lambda: (
            _no_repository(cards_before())
            .answered("source-entries", cards_before().evidence.results["source-entries"].stdout.decode(), _OURS)
            .answered("gpu-solution", "== simulated\nE: Unable to locate package nvidia-open\n== size\n== end\n", _OURS)
        ),
        {"gpu-offers": ("later", "nvidia-open"), "gpu-solution": ("later", "not set up")},
    ),
    _before(
        "a stub that leads to another branch",
        "B009",
        lambda: cards_before().edited("gpu-solution", r"^(Inst lib\S+ \()595\.80-1", r"\g<1>610.43.02-1"),
        {"gpu-solution": ("", "libcuda1: 610.43.02-1")},
    ),
    _before(
        "packages that cannot be installed together",
        "B012",
        lambda: cards_before().answered(
            "gpu-solution",
            "== simulated\nE: Unable to correct problems, you have held broken packages.\n== size\n== end\n",
            _OURS,
        ),
        {"gpu-solution": ("refused", "unmet")},
    ),
)


def _one(
    what: str,
    origin: str,
    named: str,
    words: str,
    key: str,
    pattern: str,
    new: str,
    build: Callable[[], Assembled] = cards,
) -> Fault:
    check, _, variant = named.partition("/")
    return Fault(what, origin, lambda: build().edited(key, pattern, new), {check: (variant, words)})


_NODES = (
    _one("no device file of one GPU", _OURS, "gpu-nodes", "no /dev/nvidia2", "gpu-nodes", r"^nvidia2\n", ""),
    _one(
        "the driver has a GPU less than there are",
        _OURS,
        "gpu-nodes/fewer",
        "the driver has 3 GPUs",
        "gpu-nodes",
        r"^0000:61:00\.0\n",
        "",
    ),
    _one(
        "the driver did not take the NVSwitches",
        _OURS,
        "gpu-nodes/switches",
        "no NVSwitch",
        "gpu-nodes",
        r"^0000:83:00\.0\n",
        "",
        switched,
    ),
    _one(
        "ib_umad not loaded", "B008", "gpu-subnet-manager/modules", "ib_umad", "gpu-nodes", "^ib_umad\n", "", blackwell
    ),
    _one(
        "NVLSM does not run", "B005", "gpu-subnet-manager", "nvlsm does not run", "gpu-nodes", "^nvlsm\n", "", blackwell
    ),
    _one(
        "not rebooted since the change", "B023", "gpu-loaded", "595.71.05, open", "gpu-nodes", r"595\.80 ", "595.71.05 "
    ),
    _one("closed modules loaded", "B017", "gpu-loaded", "595.80, closed", "gpu-nodes", "Open Kernel", "x86_64 Kernel"),
    _one("nothing loaded", _OURS, "gpu-loaded/none", "no nvidia module", "gpu-nodes", "^NVRM.*\n", ""),
)
_UNITS = (
    _one(
        "the daemon was skipped at boot",
        "B036",
        "gpu-persistenced/skipped",
        "inactive, a condition",
        "gpu-units",
        r"ActiveState=active\n((?:.*\n)*)ConditionResult=yes",
        r"ActiveState=inactive\n\1ConditionResult=no",
    ),
    _one(
        "the daemon is disabled", _OURS, "gpu-persistenced/disabled", "disabled", "gpu-units", "=enabled", "=disabled"
    ),
    _one("no such daemon", _OURS, "gpu-persistenced/absent", "not-found", "gpu-units", "=loaded", "=not-found"),
)
_FAILED_UNIT = Fault(
    "the daemon failed",
    _OURS,
    lambda: (
        cards()
        .edited("gpu-units", "ActiveState=active", "ActiveState=failed")
        .edited("gpu-units", "=success", "=exit-code")
    ),
    {"gpu-persistenced": ("", "failed (exit-code)")},
)
_PACKAGES = (
    Fault(
        "fabric manager one digit off",
        "B001",
        lambda: (
            switched()
            .edited("gpu-packages", r"(nvidia-fabricmanager) 590\.48\.01-1", r"\1 590.48.02-1")
            .edited("nvidia-driver", r"(nvidia-fabricmanager) 590\.48\.01", r"\1 590.48.02")
        ),
        {
            "gpu-package": ("", "590.48.02-1"),
            "gpu-one-version": ("", "nvidia-fabricmanager: 590.48.02"),
            "gpu-version": ("fabric-manager", "590.48.02"),
        },
    ),
    _one(
        "a library of another version",
        "B023",
        "gpu-one-version",
        "libnvidia-ml1: 595.90.02",
        "gpu-packages",
        r"(libnvidia-ml1) \S+",
        r"\1 595.90.02-1",
    ),
    _one(
        "a library half-configured",
        "B023",
        "gpu-one-version/half",
        "libnvidia-ml1: half-configured",
        "gpu-packages",
        "installed libnvidia-ml1",
        "half-configured libnvidia-ml1",
    ),
    Fault(
        "the driver's package unpacked, not configured",
        "B023",
        lambda: cards().edited("gpu-packages", "installed nvidia-open", "unpacked nvidia-open"),
        {"gpu-package": ("half", "unpacked"), "gpu-one-version": ("half", "nvidia-open: unpacked")},
    ),
    _one("cuDNN removed", _OURS, "gpu-package/absent", "not installed", "gpu-packages", r".*libcudnn9.*\n", ""),
    _one("another NCCL", _OURS, "gpu-package", "2.27.3-1", "gpu-packages", r"2\.30\.7-1", "2.27.3-1"),
    Fault(
        "no driver package at all",
        _OURS,
        lambda: cards().edited("gpu-packages", r"^.* (?:lib)?(?:nvidia|cuda|cudnn|nvcuvid|nccl|linux).*\n", ""),
        {
            "gpu-package": ("absent", "not installed"),
            "gpu-one-version": ("none", "no package"),
            "gpu-held": ("none", "nothing"),
        },
    ),
    _one(
        "a hold that was taken off",
        "B024",
        "gpu-held",
        "not held: libcuda1",
        "gpu-packages",
        "hold installed libcuda1",
        "install installed libcuda1",
    ),
    _one(
        "the kernel's package not held",
        "B024",
        "gpu-held",
        "linux-image-amd64",
        "gpu-packages",
        "hold installed linux-image-amd64",
        "install installed linux-image-amd64",
    ),
    _one(
        "a lock of dnf taken off", "B024", "gpu-held", "nvidia-open", "gpu-packages", r"^nvidia-open-3:.*\n", "", rocky
    ),
    _one(
        "unattended upgrades may move the libraries",
        "B024",
        "gpu-unattended",
        "libnvidia-ml1",
        "gpu-packages",
        r'.*:: "libnvidia-";\n',
        "",
    ),
)
_MODULES = (
    _one("built for the running kernel only", "B015", "gpu-dkms", f"not for {NEXT}", "dkms", rf"^.*{NEXT}.*\n", ""),
    Fault(
        "the build failed behind a green installation",
        "B015",
        lambda: (
            cards()
            .edited("dkms", r"nvidia/595\.80, .*\n", "")
            .edited(
                "dkms",
                "== errors\n",
                "nvidia/595.80: added\n== errors\n"
                "/var/lib/dkms/nvidia/595.80/build/make.log|/bin/sh: line 1: g++: command not found\n",
            )
        ),
        {"gpu-dkms": ("compiler", "g++: command not found")},
    ),
    _one(
        "dkms knows another driver",
        "B023",
        "gpu-dkms/unknown",
        "dkms knows 580.126.09",
        "dkms",
        r"595\.80",
        "580.126.09",
    ),
    _one(
        "a module overwritten after it was built",
        _OURS,
        "gpu-dkms/changed",
        "Diff between built and installed",
        "dkms",
        rf"({RUNNING}.*installed)$",
        r"\1 (WARNING! Diff between built and installed module!)",
    ),
    _one(
        "no module for the next kernel",
        "B015",
        "gpu-boot-module/none",
        f"none for {NEXT}",
        "kernels",
        rf"^{NEXT}\|.*\n",
        "",
    ),
    _one(
        "an old module for the next kernel",
        "B023",
        "gpu-boot-module",
        "580.126.09",
        "kernels",
        rf"^{NEXT}\|595\.80",
        f"{NEXT}|580.126.09",
    ),
    _one(
        "a closed module for the next kernel",
        "B017",
        "gpu-boot-module/flavour",
        "closed",
        "kernels",
        rf"^({NEXT}\|595\.80)\|Dual MIT/GPL",
        r"\1|NVIDIA",
    ),
    _one("nova_core not blacklisted", "B020", "gpu-rivals", "nova_core", "rival-drivers", "^nova_core\n", ""),
    _one(
        "nouveau is loaded",
        "B021",
        "gpu-rivals/loaded",
        "loaded: nouveau",
        "rival-drivers",
        "== loaded\n",
        "== loaded\nnouveau\n",
    ),
    _one(
        "the blacklist is not inside the initramfs",
        "B021",
        "gpu-image",
        f"initrd.img-{NEXT}: not nouveau",
        "initramfs-modprobe",
        r"== /etc/modprobe.d/llmhw-nvidia.conf\n(blacklist .*\n)+",
        "",
    ),
    _one(
        "the blacklist inside the initramfs lacks nova_core",
        "B020",
        "gpu-image",
        "not nova_core",
        "initramfs-modprobe",
        "blacklist nova_core\n",
        "",
    ),
)
_PROGRAMS = (
    _one("another nvcc", _OURS, "cuda-toolkit", "nvcc 12.8", "cuda", r"release 13\.0", "release 12.8"),
    _one("toolkit removed", "B086", "cuda-toolkit/absent", "no 13.0", "cuda", "toolkits\n.*13.0", "toolkits"),
    _one(
        "another toolkit has the link",
        _OURS,
        "cuda-toolkit/link",
        "cuda-12.8",
        "cuda",
        "link\n.*",
        "link\n/usr/local/cuda-12.8",
    ),
    _one("driver too old for CUDA 13", "B094", "cuda-driver", "up to 12.8", "nvidia-smi-version", r"13\.1", "12.8"),
    _one("nccl.conf edited", _OURS, "nccl-settings/other", "NCCL_SOCKET_IFNAME: ^lo", "cuda", "=.lo,docker0", "=^lo"),
    Fault(
        "an interface that the host lacks",
        "B057",
        lambda: _interface(cards()),
        {"nccl-settings": ("", "eth0 is not among ens6, lo")},
    ),
)


def _interface(machine: Assembled) -> Assembled:
    """Plan and file both name eth0: it was planned for another machine."""
    config = machine.plan.roles.nccl
    assert config
    config = config.model_copy(update={"settings": "NCCL_SOCKET_IFNAME=eth0\n"})
    roles = machine.plan.roles.model_copy(update={"nccl": config})
    machine = replace(machine, plan=machine.plan.model_copy(update={"roles": roles}))
    return machine.edited("cuda", "=.lo,docker0", "=eth0")


STACK_FAULTS = (*BEFORE, *_NODES, *_UNITS, _FAILED_UNIT, *_PACKAGES, *_MODULES, *_PROGRAMS)
