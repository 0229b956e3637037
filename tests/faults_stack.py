"""Faults of what is installed of the GPU software: device files, units, packages."""

from __future__ import annotations

from tests.assembled_stack import blackwell, cards, rocky, switched
from tests.fault import Fault, edited

_OURS = "written by us"
_NODES = (
    edited("no device file of one GPU", _OURS, "gpu-nodes", "no /dev/nvidia2", "gpu-nodes", r"^nvidia2\n", ""),
    edited(
        "the driver has a GPU less than there are",
        _OURS,
        "gpu-nodes/fewer",
        "the driver has 3 GPUs",
        "gpu-nodes",
        r"^0000:61:00\.0\n",
        "",
    ),
    edited(
        "the driver did not take the NVSwitches",
        _OURS,
        "gpu-nodes/switches",
        "no NVSwitch",
        "gpu-nodes",
        r"^0000:83:00\.0\n",
        "",
        switched,
    ),
    edited(
        "ib_umad not loaded", "B008", "gpu-subnet-manager/modules", "ib_umad", "gpu-nodes", "^ib_umad\n", "", blackwell
    ),
    edited(
        "NVLSM does not run", "B005", "gpu-subnet-manager", "nvlsm does not run", "gpu-nodes", "^nvlsm\n", "", blackwell
    ),
    edited(
        "not rebooted since the change", "B023", "gpu-loaded", "595.71.05, open", "gpu-nodes", r"595\.80 ", "595.71.05 "
    ),
    edited(
        "closed modules loaded", "B017", "gpu-loaded", "595.80, closed", "gpu-nodes", "Open Kernel", "x86_64 Kernel"
    ),
    edited("nothing loaded", _OURS, "gpu-loaded/none", "no nvidia module", "gpu-nodes", "^NVRM.*\n", ""),
)
_UNITS = (
    edited(
        "the daemon was skipped at boot",
        "B036",
        "gpu-persistenced/skipped",
        "inactive, a condition",
        "gpu-units",
        r"ActiveState=active\n((?:.*\n)*)ConditionResult=yes",
        r"ActiveState=inactive\n\1ConditionResult=no",
    ),
    edited(
        "the daemon is disabled", _OURS, "gpu-persistenced/disabled", "disabled", "gpu-units", "=enabled", "=disabled"
    ),
    edited("no such daemon", _OURS, "gpu-persistenced/absent", "not-found", "gpu-units", "=loaded", "=not-found"),
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
    edited(
        "a library of another version",
        "B023",
        "gpu-one-version",
        "libnvidia-ml1: 595.90.02",
        "gpu-packages",
        r"(libnvidia-ml1) \S+",
        r"\1 595.90.02-1",
    ),
    edited(
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
    edited("cuDNN removed", _OURS, "gpu-package/absent", "not installed", "gpu-packages", r".*libcudnn9.*\n", ""),
    edited("another NCCL", _OURS, "gpu-package", "2.27.3-1", "gpu-packages", r"2\.30\.7-1", "2.27.3-1"),
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
    edited(
        "a hold that was taken off",
        "B024",
        "gpu-held",
        "not held: libcuda1",
        "gpu-packages",
        "hold installed libcuda1",
        "install installed libcuda1",
    ),
    edited(
        "the kernel's package not held",
        "B024",
        "gpu-held",
        "linux-image-amd64",
        "gpu-packages",
        "hold installed linux-image-amd64",
        "install installed linux-image-amd64",
    ),
    edited(
        "a lock of dnf taken off", "B024", "gpu-held", "nvidia-open", "gpu-packages", r"^nvidia-open-3:.*\n", "", rocky
    ),
    edited(
        "unattended upgrades may move the libraries",
        "B024",
        "gpu-unattended",
        "libnvidia-ml1",
        "gpu-packages",
        r'.*:: "libnvidia-";\n',
        "",
    ),
)

STACK_FAULTS = (*_NODES, *_UNITS, _FAILED_UNIT, *_PACKAGES)
