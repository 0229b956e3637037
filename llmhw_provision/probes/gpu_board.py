"""What stands in a driver's way: the board's switches, another installer's files, Secure Boot."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import closed_sections, output, unreadable

# NVLink 5 switches show as mlx5 functions whose vital product data says SW_MNG (NVIDIA/gpu-driver-container).
_SWITCHES = """for d in /sys/bus/pci/devices/*; do
[ -r "$d/vendor" ] && read -r v <"$d/vendor" && read -r c <"$d/class" || continue
case "$v $c" in "0x10de 0x0680"*) echo "nvswitch ${d##*/}";;
"0x15b3 "*) [ -r "$d/vpd" ] && timeout 2 cat "$d/vpd" 2>/dev/null | tr -d '\\000' | grep -aq SW_MNG \
&& echo "nvlink5 ${d##*/}";; esac; done; echo "== end\""""
SWITCHES = Command("gpu-switches", ("sh", "-c", f'echo "== switches"; {_SWITCHES}'), 30)
_OWNED = """owned() { if command -v dpkg >/dev/null
then dpkg -S "$1" >/dev/null 2>&1 || dpkg -S "/usr$1" >/dev/null 2>&1
else rpm -qf "$1" >/dev/null 2>&1; fi; }
echo "== files"; for f in /usr/bin/nvidia-uninstall /usr/bin/nvidia-installer \
/usr/lib/*-linux-gnu/libcuda.so.[0-9][0-9]* /usr/lib64/libcuda.so.[0-9][0-9]* \
/lib/modules/*/kernel/drivers/video/nvidia.ko*
do [ -f "$f" ] && ! [ -L "$f" ] && ! owned "$f" && echo "$f"; done; echo "== end\""""
FILES = Command("driver-leftovers", ("sh", "-c", _OWNED), 30)
_KEYS = """echo "== keys"; for f in /var/lib/dkms/mok.pub /var/lib/shim-signed/mok/MOK.der; do
[ -r "$f" ] && echo "$f|$(mokutil --test-key "$f" 2>&1 | head -n 1)"; done
echo "== dkms"; dkms --version 2>/dev/null
echo "== signing"; grep -hsE '^ *mok_signing_key=' /etc/dkms/framework.conf /etc/dkms/framework.conf.d/*.conf
echo "== end\""""
KEYS = Command("signing-keys", ("sh", "-c", _KEYS), 20)
UBUNTU_KEY = "/var/lib/shim-signed/mok/MOK.der"


@dataclass(frozen=True)
class Keys:
    """Signing keys by path with whether the firmware knows them; dkms's version; whether it is told to sign."""

    enrolled: dict[str, bool]
    dkms: tuple[int, ...]
    configured: bool

    @property
    def signs(self) -> bool:
        """Whether dkms signs what it builds.

        3.0 does where it is told a key or Ubuntu's is there; Debian 12's 3.0.10 leaves modules unsigned by itself
        (lcp/mokutil#69, measured), 3.2 makes a key of its own.
        """
        return self.configured or UBUNTU_KEY in self.enrolled or not self.dkms or self.dkms >= (3, 2)


def switches(evidence: Evidence) -> dict[str, str]:
    """Kind (nvswitch, nvlink5) of each NVSwitch function by PCI address."""
    tool, found = "sysfs pci", {}
    for line in closed_sections(tool, output(evidence, SWITCHES.key), ("switches",))["switches"]:
        kind, _, address = line.partition(" ")
        if kind not in ("nvswitch", "nvlink5") or not address:
            raise unreadable(tool, line)
        found[address] = kind
    return found


def leftovers(evidence: Evidence) -> tuple[str, ...]:
    """Files of a driver that belong to no package."""
    found = closed_sections("file list", output(evidence, FILES.key), ("files",))["files"]
    wrong = [line for line in found if not line.startswith("/")]
    if wrong:
        raise unreadable("file list", wrong[0])
    return tuple(found)


def keys(evidence: Evidence) -> Keys:
    """The host's keys for modules."""
    found = closed_sections("mokutil", output(evidence, KEYS.key), ("keys", "dkms", "signing"))
    enrolled: dict[str, bool] = {}
    for line in found["keys"]:
        path, bar, said = line.partition("|")
        if not bar:
            raise unreadable("mokutil", line)
        enrolled[path] = "already enrolled" in said
    version = "".join(found["dkms"]).rpartition("-")[2]
    digits = tuple(int(part) for part in version.split(".") if part.isdigit())
    return Keys(enrolled, digits, bool(found["signing"]))
