"""The files of host_tuning, from its configuration. Pure: nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.host_modules.files import HEAD, File

AS_FOUND = "as-found"
SYSCTL = "/etc/sysctl.d/90-llmhw.conf"
LIMITS = "/etc/security/limits.d/90-llmhw.conf"
MANAGER = "/etc/systemd/system.conf.d/90-llmhw.conf"
POLICY_UNIT, ACS_UNIT = "llmhw-tuning.service", "llmhw-acs.service"
ACS_SCRIPT = "/etc/llmhw/acs-off.sh"
UNITS, WANTS = "/etc/systemd/system", "/etc/systemd/system/multi-user.target.wants"
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
HUGEPAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
_UNIT = """[Unit]
Description={what}
{more}
[Service]
Type=oneshot
RemainAfterExit=yes
{commands}
[Install]
WantedBy=multi-user.target
"""


def files(config: Mapping[str, Any], grub_drop_in: str = "") -> list[File]:
    """Every file that the role keeps; what is not wanted shall not be there."""
    limits = config["limits"]
    memlock = "unlimited" if limits.get("memlock_kib") is None else str(limits["memlock_kib"])
    manager = "infinity" if memlock == "unlimited" else f"{memlock}K"
    soft, hard = limits["nofile_soft"], limits["nofile_hard"]
    lines = [
        f"{who} {item}"
        for who in ("*", "root")
        for item in (f"- memlock {memlock}", f"soft nofile {soft}", f"hard nofile {hard}")
    ]
    found = [
        File(SYSCTL, _sysctl(config["sysctl"]) if config["sysctl"] else None),
        File(LIMITS, HEAD + "\n".join(lines) + "\n"),
        File(MANAGER, f"{HEAD}[Manager]\nDefaultLimitMEMLOCK={manager}\nDefaultLimitNOFILE={soft}:{hard}\n"),
        *unit(POLICY_UNIT, "CPU and memory policy of llmhw-provision", policy_commands(config)),
    ]
    acs = config["acs"] == "clear"
    found.append(File(ACS_SCRIPT, ACS if acs else None))
    commands = [f"/bin/sh {ACS_SCRIPT}"] if acs else []
    before = "ConditionVirtualization=no\nBefore=nvidia-persistenced.service slurmd.service docker.service\n"
    found += unit(ACS_UNIT, "ACS off above GPUs and NICs", commands, before)
    found += [File(f"{UNITS}/{target}", "/dev/null", link=True) for target in config["mask"]]
    if grub_drop_in:
        found.append(File(grub_drop_in, grub(config["command_line"]) if config["command_line"] else None))
    return found


def _sysctl(settings: Mapping[str, str]) -> str:
    """A leading dash: a key that this kernel lacks is no failure of the boot."""
    return HEAD + "".join(f"-{key} = {value}\n" for key, value in sorted(settings.items()))


def policy_commands(config: Mapping[str, Any]) -> list[str]:
    """What the boot unit runs to set governor and huge pages."""
    found = []
    if config["governor"] != AS_FOUND:
        text = f'for f in {GOVERNORS}; do [ -e "$f" ] && echo {config["governor"]} > "$f"; done; true'
        found.append(f"/bin/sh -c '{text}'")
    if config["hugepages"] != AS_FOUND:
        found.append(f"/bin/sh -c '[ ! -e {HUGEPAGES} ] || echo {config['hugepages']} > {HUGEPAGES}'")
    return found


def unit(name: str, what: str, commands: list[str], more: str = "") -> list[File]:
    """A oneshot unit that is enabled, or its absence when there is nothing to run."""
    lines = "".join(f"ExecStart={command}\n" for command in commands)
    text = HEAD + _UNIT.format(what=what, more=more, commands=lines) if commands else None
    return [
        File(f"{UNITS}/{name}", text),
        File(f"{WANTS}/{name}", f"../{name}" if commands else None, link=bool(commands)),
    ]


def grub(arguments: list[str]) -> str:
    """The drop-in below /etc/default/grub.d; it adds, so that the site's own arguments stay."""
    return f'{HEAD}GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(arguments)}"\n'


# Clears the seven control bits of every bridge on the way from a GPU or RDMA NIC to the root.
ACS = (
    HEAD.replace("# W", "#!/bin/sh\n# W")
    + """
sys=${LLMHW_SYS:-/sys}
for device in "$sys"/bus/pci/devices/*; do
    read -r class < "$device/class" || continue
    read -r vendor < "$device/vendor" || continue
    case $vendor:$class in
        0x10de:0x03*|0x15b3:0x02*) ;;
        *) continue ;;
    esac
    bridge=$(readlink -f "$device")
    while bridge=${bridge%/*} && [ -e "$bridge/class" ]; do
        setpci -s "${bridge##*/}" ECAP_ACS+6.w 2>/dev/null | grep -q . || continue
        setpci -s "${bridge##*/}" ECAP_ACS+6.w=0000
    done
done
"""
)
