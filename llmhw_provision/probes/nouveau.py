"""Kernel drivers that would take the GPUs before nvidia's: loaded, blacklisted, blacklisted inside the initramfs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.kernels import NEXT
from llmhw_provision.probes.reading import closed_sections, output, unreadable

# nouveau: beclab/Olares#2180. nova_core, nova_drm: in-tree since 6.15, take Turing to Ada (beclab/Olares#3963).
RIVALS = ("nouveau", "nova_core", "nova_drm", "nvidiafb")
_NAMES = "|".join(RIVALS)
_ASK = f"""echo "== loaded"; ls /sys/module | grep -xE '{_NAMES}'
echo "== blacklist"; modprobe -c 2>/dev/null | sed -n 's/^blacklist //p' | grep -xE '{_NAMES}'
echo "== end\""""
COMMAND = Command("rival-drivers", ("sh", "-c", _ASK), 20)
_PROGRAM = Path(__file__).with_name("on_host") / "initramfs_member"
_FIND = 'k=$(next_kernel); for f in "/boot/initrd.img-$k" "/boot/initramfs-$k.img"; do [ -f "$f" ] && break; done'
_READ = f"""{NEXT}{_FIND}
exec python3 -c "$1" "$f" '/etc/modprobe.d/*' '/lib/modprobe.d/*' '/usr/lib/modprobe.d/*'"""


@dataclass(frozen=True)
class Rivals:
    """Those that are loaded, and those that modprobe would not load by themselves."""

    loaded: tuple[str, ...]
    blacklisted: tuple[str, ...]


def image_command() -> Command:
    """Asks for what modprobe will read inside the initramfs of the kernel that boots next."""
    return Command("initramfs-modprobe", ("sh", "-c", _READ, "sh", _PROGRAM.read_text(encoding="utf-8")), 90)


def parse(raw: bytes) -> Rivals:
    """Rivals by state."""
    found = closed_sections("modprobe", raw, ("loaded", "blacklist"))
    return Rivals(tuple(sorted(set(found["loaded"]))), tuple(sorted(set(found["blacklist"]))))


def rivals(evidence: Evidence) -> Rivals:
    """The host's."""
    return parse(output(evidence, COMMAND.key))


def parse_image(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """Path of the image, and the rivals that it blacklists."""
    found = closed_sections("initramfs", raw, ())
    image, *files = found
    if not image.startswith("/boot/"):
        raise unreadable("initramfs", image)
    words = [line.split() for name in files for line in found[name]]
    named = {parts[1].replace("-", "_") for parts in words if len(parts) == 2 and parts[0] == "blacklist"}
    return image, tuple(name for name in RIVALS if name in named)


def in_image(evidence: Evidence) -> tuple[str, tuple[str, ...]]:
    """Path of the host's next initramfs, and the rivals that it blacklists."""
    return parse_image(output(evidence, "initramfs-modprobe"))
