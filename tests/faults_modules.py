"""Faults of the driver's kernel modules, and of what must not take their place."""

from __future__ import annotations

from tests.assembled_stack import NEXT, RUNNING, cards
from tests.fault import Fault, edited

_OURS = "written by us"
MODULE_FAULTS = (
    edited("built for the running kernel only", "B015", "gpu-dkms", f"not for {NEXT}", "dkms", rf"^.*{NEXT}.*\n", ""),
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
    edited(
        "dkms knows another driver",
        "B023",
        "gpu-dkms/unknown",
        "dkms knows 580.126.09",
        "dkms",
        r"595\.80",
        "580.126.09",
    ),
    edited(
        "a module overwritten after it was built",
        _OURS,
        "gpu-dkms/changed",
        "Diff between built and installed",
        "dkms",
        rf"({RUNNING}.*installed)$",
        r"\1 (WARNING! Diff between built and installed module!)",
    ),
    edited(
        "no module for the next kernel",
        "B015",
        "gpu-boot-module/none",
        f"none for {NEXT}",
        "kernels",
        rf"^{NEXT}\|.*\n",
        "",
    ),
    edited(
        "an old module for the next kernel",
        "B023",
        "gpu-boot-module",
        "580.126.09",
        "kernels",
        rf"^{NEXT}\|595\.80",
        f"{NEXT}|580.126.09",
    ),
    edited(
        "a closed module for the next kernel",
        "B017",
        "gpu-boot-module/flavour",
        "closed",
        "kernels",
        rf"^({NEXT}\|595\.80)\|Dual MIT/GPL",
        r"\1|NVIDIA",
    ),
    edited("nova_core not blacklisted", "B020", "gpu-rivals", "nova_core", "rival-drivers", "^nova_core\n", ""),
    edited(
        "nouveau is loaded",
        "B021",
        "gpu-rivals/loaded",
        "loaded: nouveau",
        "rival-drivers",
        "== loaded\n",
        "== loaded\nnouveau\n",
    ),
    edited(
        "the blacklist is not inside the initramfs",
        "B021",
        "gpu-image",
        f"initrd.img-{NEXT}: not nouveau",
        "initramfs-modprobe",
        r"== /etc/modprobe.d/llmhw-nvidia.conf\n(blacklist .*\n)+",
        "",
    ),
    edited(
        "the blacklist inside the initramfs lacks nova_core",
        "B020",
        "gpu-image",
        "not nova_core",
        "initramfs-modprobe",
        "blacklist nova_core\n",
        "",
    ),
)
