"""Texts of the files that the role keeps. Values in, text out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible.module_utils.host_modules.files import HEAD, File

PREFERENCES = "/etc/apt/preferences.d/llmhw-nvidia-driver"
UNATTENDED = "/etc/apt/apt.conf.d/52llmhw-nvidia-driver"
BLACKLIST = "/etc/modprobe.d/llmhw-nvidia.conf"
MODULES = "/etc/modules-load.d/llmhw-nvidia.conf"
PERSISTENCED = "/etc/systemd/system/nvidia-persistenced.service.d/50-llmhw.conf"
FABRIC_MANAGER = "/etc/systemd/system/nvidia-fabricmanager.service.d/50-llmhw.conf"
_SHUT_OUT = ("nouveau", "nova_core", "nova_drm", "nvidiafb")
# Patterns at the start of a package's name, as unattended-upgrades takes them: driver, what is built on it, kernels.
_LEFT_ALONE = (
    *("nvidia-", "libnvidia-", "libcuda", "libnvcuvid", "libnvoptix", "libnvsdm", "libxnvctrl", "firmware-nvidia-"),
    *("libegl-nvidia", "libgl1-nvidia", "libgles-nvidia", "libglx-nvidia", "xserver-xorg-video-nvidia", "xorg-x11"),
    *("kmod-nvidia", "cuda-", "libcudnn", "libnccl", "nvlsm"),
)
_KERNELS = ("linux-(image|headers|modules|generic)", "doca-", "mlnx-")
_WAIT_S = 60


def preferences(version: str, pins: Iterable[str]) -> str:
    """apt's preferences: of the driver's names this version alone is a candidate, whatever else a source offers."""
    head = "Explanation: Written by llmhw-provision; changes here are lost at the next apply.\n"
    return f"{head}Package: {' '.join(pins)}\nPin: version {version}*\nPin-Priority: 1001\n"


def unattended() -> str:
    """What unattended upgrades leave alone: a library that moves under a loaded module breaks every GPU program."""
    names = "".join(f'  "{name}";\n' for name in (*_LEFT_ALONE, *_KERNELS))
    return f"// {HEAD[2:]}Unattended-Upgrade::Package-Blacklist {{\n{names}}};\n"


def apt_files(version: str, pins: Sequence[str]) -> list[File]:
    """The files that must lie there before the package manager is asked."""
    return [File(PREFERENCES, preferences(version, pins)), File(UNATTENDED, unattended())]


def kernel_files(modules: Iterable[str]) -> list[File]:
    """Files for the kernel: which drivers never load, which modules load at boot, in this order."""
    lines = [f"blacklist {name}\n" for name in _SHUT_OUT]
    blacklist = HEAD + "".join(lines) + "options nouveau modeset=0\n"
    return [File(BLACKLIST, blacklist), File(MODULES, HEAD + "".join(f"{name}\n" for name in modules))]


def persistenced(shipped: str) -> str:
    """Drop-in of the persistence daemon; `shipped` is the text of its own unit.

    The unit's condition on /dev/nvidia* is judged before the nodes are there, and the daemon is skipped then.
    """
    wait = (
        f"i=0; until [ -c /dev/nvidiactl ]; do [ $$i -lt {_WAIT_S} ] || "
        f"{{ echo no /dev/nvidiactl after {_WAIT_S} s >&2; exit 1; }}; i=$$((i + 1)); "
        "nvidia-modprobe -c 0 -u 2>/dev/null; [ -c /dev/nvidiactl ] || sleep 1; done"
    )
    start = [line.strip() for line in shipped.splitlines() if line.strip().startswith("ExecStart=")]
    turned = [line.replace("--no-persistence-mode", "--persistence-mode") for line in start]
    again = ["ExecStart=", *turned] if turned != start else []
    service = [f"ExecStartPre=/bin/sh -c '{wait}'", *again, "Restart=on-failure", "RestartSec=5"]
    unit = ["After=systemd-modules-load.service", "ConditionPathExistsGlob="]
    return HEAD + "\n".join(["[Unit]", *unit, "", "[Service]", *service]) + "\n"


def fabric_manager() -> str:
    """Drop-in of the fabric manager: after what it needs, before what needs it."""
    unit = [
        "After=systemd-modules-load.service nvidia-persistenced.service",
        "Before=slurmd.service docker.service",
    ]
    return HEAD + "\n".join(["[Unit]", *unit, "", "[Service]", "Restart=on-failure", "RestartSec=10"]) + "\n"


def modules(board: str, more: Iterable[str]) -> list[str]:
    """Modules to load at boot; those of the switches come first, since the fabric manager looks for them."""
    first = list(more) if board == "nvlink5" else []
    return [*first, "nvidia", "nvidia_uvm"]
