"""Packages of the GPU software: what is installed, held and kept from unattended upgrades."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import closed_sections, output, unreadable

# Names that NVIDIA's repository and the distributions give to driver, CUDA, cuDNN, NCCL and NVLSM.
PATTERNS = (
    *("nvidia-*", "libnvidia-*", "libcuda1*", "libnvcuvid*", "libnvsdm*", "nvlsm*", "cuda-*", "libnccl*", "libnpp*"),
    *("libcublas*", "libcudart*", "libcudla*", "libcudnn*", "libcufft*", "libcufile*", "libcurand*", "libcusolver*"),
    *("libcusparse*", "libnvjpeg*", "libnvjitlink*", "libnvfatbin*", "libnvvm*"),
    *("cudnn*", "nsight-*", "xserver-xorg-video-nvidia*", "firmware-nvidia*", "kmod-nvidia*"),
    *("libcudadebugger*", "libnvoptix*", "libxnvctrl*"),
)
_QUOTED = " ".join(f"'{pattern}'" for pattern in PATTERNS)
_ASK = f"""echo "== packages"
if command -v dpkg-query >/dev/null; then
dpkg-query -W -f '${{db:Status-Want}} ${{db:Status-Status}} ${{Package}} ${{Version}}\\n' {_QUOTED} \
'linux-image-*' 'linux-headers-*' "$@" 2>/dev/null | grep -v ' not-installed ' | sort -u
else rpm -qa --qf 'install installed %{{NAME}} %{{EVR}}\\n' {_QUOTED} "$@" 2>/dev/null | sort -u; fi
echo "== locked"; command -v dnf >/dev/null && dnf -q versionlock list 2>/dev/null
echo "== unattended"; if [ -x /usr/bin/unattended-upgrade ]; then echo installed
apt-config dump Unattended-Upgrade::Package-Blacklist; fi
echo "== end\""""
_BLACK = re.compile(r'^Unattended-Upgrade::Package-Blacklist(?:::[^ ]*)? "(.*)";$')
_DRIVER_LIKE = re.compile(r"^[0-9]{3}\.[0-9]{2,3}(\.[0-9]{2})?$")  # 580.95.05, 580.126.09; CUDA is 13.0.88, NCCL 2.30.7
_DRIVER_NAMES = re.compile(
    r"^(lib)?nvidia-|^libcuda1|^libcudadebugger|^libnvcuvid|^libnvoptix|^libnvsdm|^libxnvctrl|^cuda-drivers|^kmod-nvidia"
    r"|^firmware-nvidia|^xserver-xorg-video-nvidia|^lib(egl|gl1|gles|glx)-nvidia"
)
_APART = re.compile(r"^(nvidia-(persistenced|settings|modprobe|xconfig|driver-pinning.*)|libxnvctrl.*)$")


@dataclass(frozen=True)
class Installed:
    """A package that is on the host; `state` is dpkg's word, `installed` when all is well."""

    name: str
    version: str
    state: str
    held: bool

    @property
    def upstream(self) -> str:
        """The version without epoch and revision."""
        return upstream(self.version)

    @property
    def of_driver(self) -> bool:
        """Whether it carries a driver's version."""
        return is_driver(self.name, self.version)

    @property
    def bound(self) -> bool:
        """Whether it must be of the driver's version: small tools are built apart by distributions."""
        return self.of_driver and not _APART.match(self.name)


@dataclass(frozen=True)
class Packages:
    """Packages by name; `unattended` are the patterns that unattended-upgrades leaves alone, None without it."""

    installed: dict[str, Installed]
    unattended: tuple[str, ...] | None


def upstream(version: str) -> str:
    """`580.126.09` of `1:580.126.09-1`."""
    return version.partition(":")[2].partition("-")[0] if ":" in version else version.partition("-")[0]


def is_driver(name: str, version: str) -> bool:
    """Whether a package of this name and version belongs to the driver and follows its version."""
    return bool(_DRIVER_NAMES.match(name) and _DRIVER_LIKE.match(upstream(version)))


def same(wanted: str, version: str) -> bool:
    """Whether an installed version is the wanted one, which may lack epoch and revision; any will do for empty."""
    plain = version.partition(":")[2] if ":" in version else version
    return not wanted or plain == wanted or plain.startswith(f"{wanted}-")


def command(names: tuple[str, ...]) -> Command:
    """Asks for the GPU software that is installed, and for `names`."""
    return Command("gpu-packages", ("sh", "-c", _ASK, "sh", *names), 60)


def parse(raw: bytes) -> Packages:
    """Packages that are there or half there; those that left only their configuration are not."""
    tool = "package list"
    found = closed_sections(tool, raw, ("packages", "locked", "unattended"))
    packages: dict[str, Installed] = {}
    for line in found["packages"]:
        words = line.split()
        if len(words) != 4:
            raise unreadable(tool, line)
        want, state, name, version = words
        held = want == "hold" or any(_locks(entry, name) for entry in found["locked"])
        if state != "config-files":
            packages[name] = Installed(name, version, state, held)
    black = None
    if found["unattended"]:
        said, *entries = found["unattended"]
        matches = [_BLACK.match(entry) for entry in entries]
        if said != "installed" or not all(matches):
            raise unreadable("apt-config", " ".join(found["unattended"]))
        black = tuple(match[1] for match in matches if match and match[1])
    return Packages(packages, black)


def _locks(entry: str, name: str) -> bool:
    """Whether a line of `dnf versionlock list` (name-epoch:version-release.*) is about the package."""
    return re.match(rf"^!?{re.escape(name)}-(?:[0-9]+:)?[0-9]", entry) is not None


def packages(evidence: Evidence) -> Packages:
    """The host's GPU software as its package manager has it."""
    return parse(output(evidence, "gpu-packages"))
