"""What must be right before anything is installed: rights, Python, clock, own name, firmware, images, leftovers."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import ProbeError, lines, output, sections, unreadable, whole

WHOAMI = Command("whoami", ("id", "-u"), 5)
_VERSION = 'import sys; print("%d.%d.%d" % sys.version_info[:3])'
PYTHON = Command("python", ("/usr/bin/python3", "-c", _VERSION), 20)
NAME = Command("own-name", ("sh", "-c", 'n=$(hostname) && echo "$n" && getent ahosts "$n"; true'), 20)
_EFI = "/sys/firmware/efi"
_SECURE = f"{_EFI}/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"  # UEFI specification: global variable
_STATE = f"""if [ ! -d {_EFI} ]; then echo bios
elif [ -r {_SECURE} ]; then od -An -tu1 -j4 -N1 {_SECURE}; else echo unreadable; fi"""
SECURE_BOOT = Command("secure-boot", ("sh", "-c", _STATE), 5)
_BARS = """for d in /sys/bus/pci/devices/*; do
[ -r "$d/vendor" ] && read -r v <"$d/vendor" && read -r c <"$d/class" || continue
case "$v $c" in "0x10de 0x0300"*|"0x10de 0x0302"*) echo "== ${d##*/}"; head -n 6 "$d/resource";; esac; done"""
BARS = Command("gpu-bars", ("sh", "-c", _BARS), 15)
IMAGES = Command("boot-images", ("sh", "-c", "stat -c '%s %n' /boot/init*.img* 2>/dev/null; true"), 5)
INSTALLER = "/usr/bin/nvidia-uninstall"
# Path → what is there when it exists.
LEFTOVERS = {
    "/etc/dgx-release": "NVIDIA DGX OS",
    "/cm/local": "Base Command Manager (Bright)",
    "/opt/azurehpc": "Azure HPC image",
    "/opt/deeplearning": "Google deep learning image",
    "/opt/rocm": "AMD ROCm",
    INSTALLER: "NVIDIA driver from the .run installer",
}
_LOOK = 'for p in "$@"; do [ -e "$p" ] && echo "$p"; done; true'
LEFT = Command("leftovers", ("sh", "-c", _LOOK, "sh", *LEFTOVERS), 5)
CLOCK = Command("clock", ("date", "-u", "+%s"), 5)
COMMANDS = (WHOAMI, PYTHON, NAME, SECURE_BOOT, BARS, IMAGES, LEFT)


def user_id(evidence: Evidence) -> int:
    """Number of the user that reads the host; 0 is root."""
    return whole("id", "".join(lines("id", output(evidence, WHOAMI.key))), "user")


def python_version(evidence: Evidence) -> tuple[int, ...]:
    """Version of /usr/bin/python3; empty when there is none."""
    result = evidence.get(PYTHON.key)
    if result is not None and result.missing:
        return ()
    text = "".join(lines("python3", output(evidence, PYTHON.key)))
    if not re.match(r"^\d+\.\d+\.\d+$", text):
        raise unreadable("python3", text)
    return tuple(map(int, text.split(".")))


def own_name(evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """The host's name, and the addresses that it finds for it."""
    found = lines("getent", output(evidence, NAME.key))
    if not found:
        raise unreadable("hostname", "")
    return found[0], tuple(dict.fromkeys(line.split()[0] for line in found[1:] if line.strip()))


def secure_boot(evidence: Evidence) -> bool | None:
    """Whether Secure Boot is on; None on a machine that was not started by UEFI."""
    text = "".join(lines("od", output(evidence, SECURE_BOOT.key))).strip()
    if text not in ("bios", "0", "1"):
        raise unreadable("SecureBoot", text)
    return None if text == "bios" else text == "1"


def bars(evidence: Evidence) -> dict[str, tuple[tuple[int, int], ...]]:
    """Memory windows (start, bytes) of each NVIDIA GPU by PCI address; start 0: the firmware gave it no room."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    for address, rows in sections("sysfs resource", output(evidence, BARS.key)).items():
        windows = []
        for row in rows:
            words = row.split()
            if len(words) != 3 or not all(word.startswith("0x") for word in words):
                raise unreadable("sysfs resource", row)
            start, end, flags = (int(word, 16) for word in words)
            if flags & 0x200:  # include/linux/ioport.h: IORESOURCE_MEM
                windows.append((start, end - start + 1))
        found[address] = tuple(windows)
    return found


def largest_image(evidence: Evidence) -> int:
    """Bytes of the largest initramfs image under /boot; 0 when there is none."""
    found = lines("stat", output(evidence, IMAGES.key))
    return max((whole("stat", line.partition(" ")[0], "size") for line in found), default=0)


def leftovers(evidence: Evidence) -> tuple[str, ...]:
    """What others have installed before us, in words."""
    found = lines("sh", output(evidence, LEFT.key))
    unknown = [path for path in found if path not in LEFTOVERS]
    if unknown:
        raise unreadable("sh", unknown[0])
    return tuple(f"{LEFTOVERS[path]} ({path})" for path in found)


def clock_offset(evidence: Evidence) -> int:
    """Seconds that the host's clock is ahead of ours; both clocks are read in whole seconds, within about two."""
    theirs = whole("date", "".join(lines("date", output(evidence, CLOCK.key))), "seconds")
    try:
        ours = datetime.strptime(evidence.read_at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise ProbeError(f"the reading of {evidence.host} does not say when it was made") from None
    return theirs - int(ours.timestamp())
