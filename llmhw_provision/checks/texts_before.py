"""Texts of the preconditions of apply: access, use, packages, firmware."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

BEFORE: dict[str, Words] = {
    "access": Words(
        "reached, with root's rights",
        "the machine is off, not at that address, or does not let the site's key in",
        "see the message; discover says the same, host by host",
    ),
    "access/rights": Words(
        "reached, with root's rights",
        "the user of site.yaml is not root, and sudo gave no root either",
        "set user: root in site.yaml, or let the user sudo",
    ),
    "access-system": Words(
        "a system that the roles know",
        "another release or architecture than the ones that are supported",
        "install one of the supported releases (docs/support.md), then discover and plan again",
    ),
    "access-python": Words(
        "Python for Ansible's modules",
        "a minimal installation without Python, or a system that is too old",
        "apt-get install python3 (dnf install python3)",
    ),
    "use-gpu": Words(
        "no foreign process on the GPUs",
        "somebody computes on this machine",
        "ask the owner to stop it; --allow-interrupt goes on all the same and may end it",
    ),
    "use-jobs": Words(
        "no job runs",
        "the scheduler still sends jobs to this machine",
        "drain it (scontrol update nodename=NAME state=drain) and wait; --allow-interrupt goes on all the same",
    ),
    "use-containers": Words(
        "no container or virtual machine runs",
        "a service or a user runs containers or virtual machines here",
        "stop or move them (docker ps, podman ps, machinectl, virsh list); --allow-interrupt goes on all the same",
    ),
    "use-people": Words(
        "nobody is logged in at a terminal",
        "somebody works here, or left tmux or screen behind",
        "ask them to leave (who, loginctl); --allow-interrupt goes on all the same",
    ),
    "use-image": Words(
        "not set up by others",
        "a vendor's image or another installer brought its own drivers and package sources",
        "install the plain system; --allow-interrupt goes on, and mixed sources are then yours to mend",
    ),
    "use-accelerators": Words(
        "no accelerator of another vendor",
        "the machine holds accelerators that no role here sets up",
        "take it out of the site; --allow-interrupt goes on and leaves them alone",
    ),
    "package-sources": Words(
        "package sources answer",
        "the mirror is down or not reachable from the host, or a source is left over",
        "see /etc/apt/sources.list* or /etc/yum.repos.d, proxy and firewall; if it is only busy, run again",
    ),
    "package-sources/dns": Words(
        "package sources answer",
        "the host cannot resolve the mirror's name",
        "check /etc/resolv.conf on the host, or the mirror's name",
    ),
    "package-sources/other-way": Words(
        "package sources answer",
        "the host does not have the mirrors or the proxy of site.yaml yet",
        "nothing: apply sets them first, and then they must answer",
    ),
    "package-sources/signed-by": Words(
        "package sources answer",
        "NVIDIA's source stands in two files with two keys: apt reads no list at all",
        "nothing: apply sets the other file aside first",
    ),
    "package-candidate/other-way": Words(
        "package {subject} can be had",
        "the host does not have the mirrors or the proxy of site.yaml yet",
        "nothing: apply sets them first, and then they must offer it",
    ),
    "package-candidate": Words(
        "package {subject} can be had",
        "the sources lack it, or the package lists were never fetched",
        "apt-get update on the host, then look at apt-cache policy PACKAGE",
    ),
    "package-candidate/no-lists": Words(
        "package {subject} can be had",
        "the system is new: its image came without package lists",
        "nothing: apply fetches them first; or apt-get update",
    ),
    **family(
        "package-solution",
        "planned packages can be installed together",
        usual=("the package tool refuses", "run the command of the evidence by hand and read its first error"),
        nothing_provides=(
            "a source is missing, or a dated copy of it is too old for what another package needs",
            "add the source that holds it, or take a newer copy of the mirror",
        ),
        conflict=(
            "two sources carry the same packages in versions that exclude each other",
            "leave the names of one out of the other (excludepkgs=, or an apt preference)",
        ),
        unmet=(
            "held packages, or two sources for the driver, leave no versions that fit together",
            "apt-mark showhold; keep one source for driver packages",
        ),
    ),
    "package-states": Words(
        "no package left half-way",
        "an installation was cut off (power, full disk, kill)",
        "dpkg --configure -a, then apt-get -f install; on rpm systems rpm --rebuilddb",
    ),
    "package-states/waiting": Words(
        "no package left half-way",
        "an installation was cut off before it was configured",
        "nothing: apply finishes it; or dpkg --configure -a",
    ),
    "package-locks": Words(
        "nobody else installs packages",
        "unattended upgrades or another administrator install packages now",
        "wait until it has ended (systemctl status unattended-upgrades), then run again; never delete the lock file",
    ),
    "package-locks/first-boot": Words(
        "nobody else installs packages",
        "the machine was started for the first time a moment ago",
        "cloud-init status --wait on the host, then run again",
    ),
    "host-room": Words(
        "room for the installation",
        "logs, old kernels or data fill the system disk, or it was mounted read-only after an error",
        "df -h and du -xh --max-depth=2 show what fills it; for read-only see dmesg first",
    ),
    "host-clock": Words(
        "the clock is right",
        "no time server is set or reachable, or the battery of the clock is empty",
        "set it: date -u -s '@SECONDS' or chronyc makestep, and let the site's time server be reached",
    ),
    "host-name": Words(
        "the host knows its own name",
        "its name stands neither in /etc/hosts nor in DNS",
        "add a line with its address and name to /etc/hosts",
    ),
    "firmware-secure-boot": Words(
        "Secure Boot does not stand in the way",
        "Secure Boot refuses modules that are not signed by an enrolled key",
        "turn it off in the firmware, or enrol a key at the console (mokutil --import)",
    ),
    "firmware-windows": Words(
        "the firmware maps the GPUs' memory",
        "Above 4G Decoding is off in the firmware",
        "turn on Above 4G Decoding (and Resizable BAR where there is one); needs a reboot into the firmware's setup",
    ),
}
