"""Packages of the driver: which are installed in which version, what apt would do, what belongs together.

Text in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ansible.module_utils.host_modules.exact_versions import meant

CONFIGURED = ("installed", "triggers-pending", "triggers-awaited")
GONE = ("not-installed", "config-files")
_FIELDS = ("Package", "Architecture", "Version", "db:Status-Want", "db:Status-Status", "db:Status-Eflag")
DEB_QUERY = (
    "dpkg-query",
    "--show",
    "--showformat",
    "\\t".join(f"${{{name}}}" for name in (*_FIELDS, "source:Version", "Depends")) + "\\n",
)
RPM_QUERY = ("rpm", "-qa", "--queryformat", "%{NAME}\\t%{ARCH}\\t%{VERSION}-%{RELEASE}\\n")
_NAME = re.compile(
    r"^(nvidia-|libnvidia-|libcuda1?$|libcudadebugger|libnvcuvid|libnvoptix|libnvsdm|lib(egl|gl1|gles|glx)-nvidia|cuda-drivers|firmware-nvidia-"
    r"|kmod-nvidia|xserver-xorg-video-nvidia|libxnvctrl|xorg-x11-drv-nvidia)"
)
_APART = re.compile(r"^(nvidia-(persistenced|settings|modprobe|xconfig|driver-pinning.*)|libxnvctrl.*)$")
_DRIVER_VERSION = re.compile(r"^[3-9]\d\d\.\d{2,3}(\.\d{2})?$")
_DONE = re.compile(r"^(Inst|Remv|Purg) (\S+?)(?::\S+)?(?: \[(\S+?)\])?(?: \((\S+) ([^)]*)\))?(?: |$)")
_RELEASE = re.compile(r"\blinux-(image|headers|modules)[a-z-]*-\d+\.\d+\.\d+")


class Installed(NamedTuple):
    """A package that is there, whole or not; `eflag` is reinstreq where dpkg asks for a new installation."""

    name: str
    architecture: str
    version: str
    want: str = "install"
    state: str = "installed"
    eflag: str = "ok"
    source_version: str = ""
    depends: str = ""

    @property
    def whole(self) -> bool:
        return self.state in CONFIGURED and self.eflag != "reinstreq"

    @property
    def full(self) -> str:
        """The name with the architecture where it has one."""
        return self.name if self.architecture in ("all", "noarch", "") else f"{self.name}:{self.architecture}"

    @property
    def upstream(self) -> str:
        return upstream(self.version)


class Planned(NamedTuple):
    """One line of apt's simulation; `old` is empty for what is new, `new` for what is removed."""

    name: str
    old: str
    new: str


def upstream(version: str) -> str:
    """A version without epoch and packager's revision."""
    plain = version.rpartition(":")[2]
    return plain.rpartition("-")[0] or plain


def installed(text: str) -> dict[str, Installed]:
    """Packages in the answer of DEB_QUERY or RPM_QUERY; of a second architecture as name:architecture."""
    found: dict[str, Installed] = {}
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) < 3 or not fields[2]:
            continue
        item = Installed(*fields[:8])
        if item.state not in GONE:
            found[item.full if item.name in found else item.name] = item
    return found


def driver_name(name: str) -> bool:
    """Whether the name is one of the driver's, or of something that is named alike."""
    return bool(_NAME.match(name))


def driver_version(item: Installed) -> str:
    """The driver's version that the package belongs to; empty for packages of something else."""
    for version in (item.upstream, upstream(item.source_version)):
        if _NAME.match(item.name) and _DRIVER_VERSION.match(version):
            return version
    return ""


def core(there: Mapping[str, Installed]) -> dict[str, str]:
    """Package to driver version, of those that must all have the same one.

    Left out are the small tools that distributions build from sources of their own.
    """
    found = {name: driver_version(item) for name, item in there.items()}
    return {name: version for name, version in found.items() if version and not _APART.match(there[name].name)}


def the_set(there: Mapping[str, Installed], names: Iterable[str]) -> list[str]:
    """What is held and kept together: all packages of the driver, and the planned names."""
    wanted = set(names)
    return sorted(name for name, item in there.items() if driver_version(item) or item.name in wanted)


def kernel_metas(there: Mapping[str, Installed]) -> list[str]:
    """The packages that bring the next kernel: image and headers of the kernel's track."""
    return sorted(
        name
        for name, item in there.items()
        if re.match(r"^(linux-(image|headers|modules)-|kernel-(core|devel|modules)$)", item.name)
        and not _RELEASE.match(item.name)
        and (_RELEASE.search(item.depends) or item.name.startswith("kernel-"))
    )


def tracks(metas: Iterable[str]) -> list[str]:
    """The kernel tracks that the metas follow, for example amd64 or generic-hwe-24.04."""
    return sorted({name.partition("linux-image-")[2] for name in metas if name.startswith("linux-image-")})


def simulated(text: str) -> list[Planned]:
    """What apt-get --simulate says it would do."""
    matches = [_DONE.match(line) for line in text.splitlines()]
    return [Planned(item[2], item[3] or "", item[4] or "") for item in matches if item]


def depends(text: str) -> list[list[str]]:
    """What the packages in an answer of apt-cache show depend on: one list of alternatives for each dependency."""
    found = []
    for field in re.findall(r"^(?:Pre-)?Depends: (.*)$", text, re.MULTILINE):
        for group in field.split(","):
            names = [part.strip().partition(" ")[0].partition(":")[0] for part in group.split("|")]
            found.append([name for name in names if name])
    return found


def provides(text: str) -> set[str]:
    """The names that the packages in an answer of apt-cache show stand for beside their own."""
    fields = re.findall(r"^Provides: (.*)$", text, re.MULTILINE)
    return {part.strip().partition(" ")[0] for field in fields for part in field.split(",")}


def exact(version: str, versions: Mapping[str, Sequence[tuple[str, int]]], name: str) -> str:
    """The newest version of `name` that apt may install and that is the driver's `version`; empty without one."""
    there = versions.get(name, ())
    return next((text for text, priority in there if priority >= 0 and meant(version, text)), "")


def origins(policy: str) -> dict[str, dict[str, list[str]]]:
    """Package to version to the addresses that offer it, out of apt-cache policy."""
    found: dict[str, dict[str, list[str]]] = {}
    name, version = "", ""
    for line in policy.splitlines():
        head = re.match(r"^(\S+):$", line)
        of = re.match(r"^ (?:\*\*\*|   ) (\S+) -?\d+$", line)
        at = re.match(r"^\s+-?\d+ (\S+://\S+|\S*/\S+)( .*)?$", line)
        if head:
            name = head[1].partition(":")[0]
        elif of:
            version = of[1]
            found.setdefault(name, {}).setdefault(version, [])
        elif at and at[1] != "/var/lib/dpkg/status":
            found[name][version].append(at[1].rstrip("/"))
    return found
