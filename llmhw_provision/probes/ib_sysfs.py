"""InfiniBand ports from /sys/class/infiniband: state, rate with width, and error counters; needs no root."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import lines, unreadable, whole

_FILES = (
    "*/hca_type */fw_ver */board_id */ports/*/link_layer */ports/*/state */ports/*/phys_state */ports/*/rate "
    "*/ports/*/counters/* */ports/*/hw_counters/* */ports/*/gids/* */ports/*/gid_attrs/types/*"
)
COMMAND = Command("ib-sysfs", ("sh", "-c", f"cd /sys/class/infiniband && grep -sH . {_FILES}; true"), 20)
LATER = Command("ib-sysfs-later", COMMAND.argv, 20)  # counters are judged by what they gained

_LINE = re.compile(
    r"^(?:/sys/class/infiniband/|\./)?([^/:\s]+)/(?:ports/([0-9]+)/)?((?:counters/|hw_counters/|gids/|gid_attrs/types/)?"
    r"[\w-]+):(.*)$"
)


def parse(raw: bytes) -> dict[str, dict[str, str]]:
    """Attributes by port (the adapter's name, with /PORT beyond the first); an adapter's own are at its first port."""
    found: dict[str, dict[str, str]] = {}
    for line in lines("/sys/class/infiniband", raw):
        match = _LINE.match(line)
        if not match:
            raise unreadable("/sys/class/infiniband", line)
        device, port, key, value = match.groups()
        name = device if port in (None, "1") else f"{device}/{port}"
        found.setdefault(name, {})[key] = value.strip()
    for name, values in found.items():
        missing = [key for key in ("state", "phys_state", "rate") if key not in values]
        if missing:
            raise unreadable("/sys/class/infiniband", f"{name} without {', '.join(missing)}", "cut off")
    return found


def facts(raw: bytes) -> dict[str, object]:
    """Per port the rate (with width), and `NAME.ATTRIBUTE`; counters as whole numbers."""
    found: dict[str, object] = {}
    for name, values in parse(raw).items():
        found[name] = values["rate"]
        for key, value in values.items():
            counter = "counters/" in key
            short = key.rpartition("/")[2] if counter else key
            found[f"{name}.{short}"] = whole("/sys/class/infiniband", value, f"{name} {key}") if counter else value
    return found


FORMATS = (
    Format("sysfs infiniband", holds(rb"\A(/sys/class/infiniband/|\./)?[^/:\s]+/(ports/[0-9]+/\w+|hca_type):"), facts),
)
