"""Which NVIDIA driver is loaded, lies on the disk and is installed, to the last digit; and what GPUDirect needs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import output, sections, unreadable

# Debian's own packages name the module's file by its flavour.
_ASK = """echo "== loaded"; cat /sys/module/nvidia/version 2>/dev/null
for m in nvidia nvidia-current-open nvidia-current; do v=$(modinfo -F version $m 2>/dev/null) && break; done
echo "== file"; echo "$v"
echo "== licence"; modinfo -F license $m 2>/dev/null
echo "== fabric-manager"; nv-fabricmanager --version 2>/dev/null
echo "== packages"
dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' 'libnvidia-compute*' libcuda1 \
'nvidia-fabricmanager*' 2>/dev/null
rpm -qa --qf 'installed %{NAME} %{VERSION}\\n' 'libnvidia-ml*' 'nvidia-driver-cuda-libs*' 'nvidia-fabric*manager*' \
2>/dev/null
echo "== peermem"; [ ! -d /sys/module/nvidia_peermem ] || echo loaded
echo "== peer-client"; grep -c -w ib_register_peer_memory_client /proc/kallsyms; true"""
COMMAND = Command("nvidia-driver", ("sh", "-c", _ASK), 20)
_SECTIONS = ("loaded", "file", "licence", "fabric-manager", "packages", "peermem", "peer-client")
_VERSION = re.compile(r"^[0-9]+(?:\.[0-9]+)+$")
_PACKAGE = re.compile(r"^(?P<state>[\w-]+) (?P<name>\S+) (?:[0-9]+:)?(?P<version>[0-9][0-9.]*)\S*$")


@dataclass(frozen=True)
class Files:
    """Versions; empty where there is none. Packages by name, only those installed."""

    loaded: str
    file: str
    licence: str
    fabric_manager: str
    packages: dict[str, str]
    peermem: bool
    peer_client: bool

    @property
    def open_modules(self) -> bool:
        """Whether the modules on the disk are the open ones: their licence names MIT or GPL."""
        return "GPL" in self.licence


def parse(raw: bytes) -> Files:
    """What lies on the host; raises ProbeError for a version that is none, or when a part is missing."""
    tool = "nvidia driver"
    found = sections(tool, raw)
    missing = [name for name in _SECTIONS if name not in found]
    if missing or not found["peer-client"]:
        raise unreadable(tool, f"no {', '.join(missing) or 'peer-client'}", "cut off")
    packages: dict[str, str] = {}
    for line in found["packages"]:
        match = _PACKAGE.match(line)
        if match and match["state"] == "installed":
            packages[match["name"]] = match["version"].rstrip(".")
        elif not match and " " in line and not re.match(r"^\S+ \S+ $", line):
            raise unreadable(tool, line)
    manager = "".join(found["fabric-manager"]).rpartition(":")[2].strip()
    versions = ("".join(found["loaded"]).strip(), "".join(found["file"]).strip(), manager)
    for version in versions:
        if version and not _VERSION.match(version):
            raise unreadable(tool, version, "not a version")
    return Files(
        *versions[:2],
        "".join(found["licence"]),
        versions[2],
        packages,
        peermem=found["peermem"] == ["loaded"],
        peer_client=found["peer-client"] != ["0"],
    )


def files(evidence: Evidence) -> Files:
    """The host's driver."""
    return parse(output(evidence, COMMAND.key))
