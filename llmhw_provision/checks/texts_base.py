"""Texts of the checks of site_base and host_tuning; `texts.py` puts all areas together."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """Title, likely cause, next step."""

    title: str
    cause: str
    next_step: str


def family(check: str, title: str, **causes: tuple[str, str]) -> dict[str, Words]:
    """The words of one check: `usual` is its usual failure, other names are its variants (`_` stands for `-`)."""
    names = {"usual": check} | {name: f"{check}/{name.replace('_', '-')}" for name in causes if name != "usual"}
    return {names[name]: Words(title, *words) for name, words in causes.items()}


BASE: dict[str, Words] = {
    "base-user": Words(
        "numbers of the user {subject}",
        "a package made the user before apply did, or it was changed by hand",
        "no file may belong to the old numbers: find them (find / -xdev -uid OLD), then usermod and groupmod",
    ),
    "base-user/absent": Words(
        "numbers of the user {subject}",
        "apply has not run yet, or the user was removed by hand",
        "run apply",
    ),
    "base-names": Words(
        "the site's hosts are known by name",
        "the block in /etc/hosts was edited, or DNS says something else",
        "run apply; getent ahosts NAME shows what is in force",
    ),
    "base-names/loopback": Words(
        "the site's hosts are known by name",
        "the installer wrote 127.0.1.1 for the host itself: gloo and MPI would offer it to other hosts",
        "take the line with 127.0.1.1 out of /etc/hosts",
    ),
    "base-ca": Words(
        "the CA {subject} is trusted",
        "the file was removed, or the trust store was built without it",
        "run apply, or update-ca-certificates (EL: update-ca-trust)",
    ),
    "base-source": Words(
        "package source {subject}",
        "the file or its key was edited or removed by hand",
        "run apply; apt-get update must then end without a warning",
    ),
    "base-package": Words(
        "package {subject}",
        "it was removed, or an installation was interrupted",
        "run apply; dpkg --audit names what is half done",
    ),
    "base-credentials": Words(
        "credentials of the proxy",
        "the file was removed by hand",
        "run apply",
    ),
    "base-credentials/open": Words(
        "credentials of the proxy",
        "owner or mode was changed by hand: others could read the password",
        "run apply, then have the password changed",
    ),
    "base-index": Words(
        "Python package index",
        "/etc/pip.conf was edited or removed by hand",
        "run apply",
    ),
    "base-clock": Words(
        "the clock is right",
        "no time server answers (UDP port 123), or the service does not run",
        "chronyc sources -v, then chronyc activity; ask who runs the servers",
    ),
    "base-firewall": Words(
        "the firewall lets the site's hosts in",
        "the firewall was set up or loaded again after apply",
        "run apply: it adds its own rules and alters none",
    ),
    "tuning-sysctl": Words(
        "kernel setting {subject}",
        "another file in sysctl.d comes later, or a service (tuned, a package) sets its own value",
        "run apply; systemd-analyze cat-config sysctl.d shows which file wins",
    ),
    "tuning-sysctl/none": Words(
        "kernel setting {subject}",
        "this kernel was built without it, or its module is not loaded",
        "nothing to do unless the setting is needed",
    ),
    "tuning-limits": Words(
        "limits of sessions and services",
        "another file in limits.d or system.conf.d comes later, or systemd has not read it",
        "run apply; log in again: sessions keep the limits they began with",
    ),
    "tuning-governor": Words(
        "governor of the CPUs",
        "another service (tuned, power-profiles-daemon, cpupower) sets its own",
        "stop one of them; systemctl restart llmhw-tuning",
    ),
    "tuning-governor/none": Words(
        "governor of the CPUs",
        "the firmware keeps the frequency to itself",
        "choose the performance profile in the firmware",
    ),
    "tuning-hugepages": Words(
        "transparent huge pages",
        "another service sets its own policy",
        "systemctl restart llmhw-tuning; look for tuned",
    ),
    "tuning-command-line": Words(
        "kernel command line",
        "the machine has not been rebooted since apply, or another boot entry was chosen",
        "run apply --allow-reboot; if it does not come up, choose the entry from before in GRUB's menu",
    ),
    "tuning-sleep": Words(
        "{subject} is masked",
        "unmasked by hand",
        "run apply, or systemctl mask of the target",
    ),
    "tuning-acs": Words(
        "ACS does not stand between GPUs",
        "the firmware switches ACS on, or the kernel does for the IOMMU",
        "host_tuning.acs: clear in site.yaml clears it at boot; or switch ACS off in the firmware",
    ),
    "tuning-acs/planned": Words(
        "ACS does not stand between GPUs",
        "the boot unit did not run, or the bridge forbids the change",
        "systemctl status llmhw-acs; setpci -s ADDRESS ECAP_ACS+6.w",
    ),
    "tuning-cpu": Words(
        "microcode and power limit of the processor",
        "the firmware is older than Intel's correction, or lifts the power limit",
        "update the firmware, load Intel's default settings; a processor that is unstable already must be exchanged",
    ),
}
