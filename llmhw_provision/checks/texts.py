"""What each check is called, why it usually fails and what to do then. `{subject}` is the volume, disk or folder.

A key `check/variant` holds cause and next step of a failure that differs from the usual one of that check.
The same keys stand in Chinese in report/chinese.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.checks.texts_base import BASE
from llmhw_provision.checks.texts_python import PYTHON


@dataclass(frozen=True)
class Text:
    """Title of a check, likely cause and next step of its failure."""

    title: str
    cause: str
    next_step: str


TEXTS: dict[str, Text] = {
    **{key: Text(*words) for key, words in (*BASE.items(), *PYTHON.items())},
    "access": Text(
        "reached, with root's rights",
        "the machine is off, not at that address, or does not let the site's key in",
        "see the message; discover says the same, host by host",
    ),
    "access/rights": Text(
        "reached, with root's rights",
        "the user of site.yaml is not root, and sudo gave no root either",
        "set user: root in site.yaml, or let the user sudo",
    ),
    "access-system": Text(
        "a system that the roles know",
        "another release or architecture than the ones that are supported",
        "install one of the supported releases (docs/support.md), then discover and plan again",
    ),
    "access-python": Text(
        "Python for Ansible's modules",
        "a minimal installation without Python, or a system that is too old",
        "apt-get install python3 (dnf install python3)",
    ),
    "use-gpu": Text(
        "no foreign process on the GPUs",
        "somebody computes on this machine",
        "ask the owner to stop it; --allow-interrupt goes on all the same and may end it",
    ),
    "use-jobs": Text(
        "no job runs",
        "the scheduler still sends jobs to this machine",
        "drain it (scontrol update nodename=NAME state=drain) and wait; --allow-interrupt goes on all the same",
    ),
    "use-containers": Text(
        "no container or virtual machine runs",
        "a service or a user runs containers or virtual machines here",
        "stop or move them (docker ps, podman ps, machinectl, virsh list); --allow-interrupt goes on all the same",
    ),
    "use-people": Text(
        "nobody is logged in at a terminal",
        "somebody works here, or left tmux or screen behind",
        "ask them to leave (who, loginctl); --allow-interrupt goes on all the same",
    ),
    "use-image": Text(
        "not set up by others",
        "a vendor's image or another installer brought its own drivers and package sources",
        "install the plain system; --allow-interrupt goes on, and mixed sources are then yours to mend",
    ),
    "use-accelerators": Text(
        "no accelerator of another vendor",
        "the machine holds accelerators that no role here sets up",
        "take it out of the site; --allow-interrupt goes on and leaves them alone",
    ),
    "package-sources": Text(
        "package sources answer",
        "the mirror is down or not reachable from the host, or a source is left over",
        "see /etc/apt/sources.list* or /etc/yum.repos.d, proxy and firewall; if it is only busy, run again",
    ),
    "package-sources/dns": Text(
        "package sources answer",
        "the host cannot resolve the mirror's name",
        "check /etc/resolv.conf on the host, or the mirror's name",
    ),
    "package-sources/other-way": Text(
        "package sources answer",
        "the host does not have the mirrors or the proxy of site.yaml yet",
        "nothing: apply sets them first, and then they must answer",
    ),
    "package-candidate/other-way": Text(
        "package {subject} can be had",
        "the host does not have the mirrors or the proxy of site.yaml yet",
        "nothing: apply sets them first, and then they must offer it",
    ),
    "package-candidate": Text(
        "package {subject} can be had",
        "the sources lack it, or the package lists were never fetched",
        "apt-get update on the host, then look at apt-cache policy PACKAGE",
    ),
    "package-candidate/no-lists": Text(
        "package {subject} can be had",
        "the system is new: its image came without package lists",
        "nothing: apply fetches them first; or apt-get update",
    ),
    "package-states": Text(
        "no package left half-way",
        "an installation was cut off (power, full disk, kill)",
        "dpkg --configure -a, then apt-get -f install; on rpm systems rpm --rebuilddb",
    ),
    "package-states/waiting": Text(
        "no package left half-way",
        "an installation was cut off before it was configured",
        "nothing: apply finishes it; or dpkg --configure -a",
    ),
    "package-locks": Text(
        "nobody else installs packages",
        "unattended upgrades or another administrator install packages now",
        "wait until it has ended (systemctl status unattended-upgrades), then run again; never delete the lock file",
    ),
    "package-locks/first-boot": Text(
        "nobody else installs packages",
        "the machine was started for the first time a moment ago",
        "cloud-init status --wait on the host, then run again",
    ),
    "host-room": Text(
        "room for the installation",
        "logs, old kernels or data fill the system disk, or it was mounted read-only after an error",
        "df -h and du -xh --max-depth=2 show what fills it; for read-only see dmesg first",
    ),
    "host-clock": Text(
        "the clock is right",
        "no time server is set or reachable, or the battery of the clock is empty",
        "set it: date -u -s '@SECONDS' or chronyc makestep, and let the site's time server be reached",
    ),
    "host-name": Text(
        "the host knows its own name",
        "its name stands neither in /etc/hosts nor in DNS",
        "add a line with its address and name to /etc/hosts",
    ),
    "firmware-secure-boot": Text(
        "Secure Boot does not stand in the way",
        "Secure Boot refuses modules that are not signed by an enrolled key",
        "turn it off in the firmware, or enrol a key at the console (mokutil --import)",
    ),
    "firmware-windows": Text(
        "the firmware maps the GPUs' memory",
        "Above 4G Decoding is off in the firmware",
        "turn on Above 4G Decoding (and Resizable BAR where there is one); needs a reboot into the firmware's setup",
    ),
    "host-os": Text(
        "operating system as planned",
        "the machine was installed again or upgraded after the plan was made",
        "run discover and plan again, and read what differs before apply",
    ),
    "host-memory": Text(
        "memory as planned",
        "a memory module failed or is not seated; the firmware maps it out",
        "read the BMC's event log for the slot; count modules with dmidecode -t memory",
    ),
    "host-memory/changed": Text(
        "memory as planned",
        "memory was added, or the kernel reserves another amount (crashkernel, huge pages at boot)",
        "if it is meant, run discover and plan again",
    ),
    "host-nature": Text(
        "the planned machine, not a stand-in for it",
        "the plan was made from another machine than the one at this address",
        "check the address in site.yaml; run discover and plan again",
    ),
    "host-units": Text(
        "no failed unit",
        "a service could not start",
        "systemctl --failed, then journalctl -b -u UNIT",
    ),
    "host-trim": Text(
        "fstrim.timer runs",
        "the timer was disabled or masked after apply",
        "systemctl unmask fstrim.timer && systemctl enable --now fstrim.timer, or run apply again",
    ),
    "disk-present": Text(
        "disk {subject} is there",
        "the drive is dead, pulled, or was exchanged for another one",
        "find its slot by serial (label, BMC); do not write anything; follow the runbook",
    ),
    "disk-untouched": Text(
        "disk {subject} is as it was",
        "somebody erased or repartitioned it; apply never does without a consent in site.yaml",
        "stop using the disk; look at runs/*/result.json and at who else works on the machine",
    ),
    "disk-untouched/taken": Text(
        "disk {subject} is as it was",
        "a volume of the plan was made on a disk that should have been kept",
        "stop: keep the run's folder and report it; this must not happen",
    ),
    "array-name": Text(
        "array {subject} runs",
        "it was never created, or it was stopped by hand",
        "run apply; if it existed before, mdadm --examine on its members first",
    ),
    "array-name/inactive": Text(
        "array {subject} runs",
        "a member is missing, so the kernel does not start the array",
        "check the findings about its members; RAID0 cannot run without all of them",
    ),
    "array-level": Text(
        "array {subject} has the planned level",
        "an older array of the same name was found and is in use",
        "keep it: change storage in site.yaml to what is there, or save its data and make it anew",
    ),
    "array-chunk": Text(
        "array {subject} has the planned chunk",
        "an older array of the same name was found and is in use",
        "keep it: set storage.scratch.chunk in site.yaml to what is there, or save its data and make it anew",
    ),
    "array-members": Text(
        "array {subject} is complete, by serial",
        "a drive is dead, pulled or was exchanged",
        "do not create anything; find the drive by its serial and follow the runbook",
    ),
    "array-state": Text(
        "array {subject} is clean",
        "a member failed while the array was in use",
        "dmesg for the drive's errors; the data on a broken RAID0 is lost: replace, then apply",
    ),
    "array-state/filling": Text(
        "array {subject} is clean",
        "the mirror was just made, or a drive was just replaced",
        "wait until /proc/mdstat shows no resync, then verify again",
    ),
    "array-conf": Text(
        "mdadm.conf names array {subject} once, by UUID",
        "the file was edited by hand, or another tool wrote its own ARRAY line",
        "run apply; it writes the one line and rebuilds the initramfs",
    ),
    "array-boot": Text(
        "the initramfs names array {subject} once, by UUID",
        "the initramfs was built before mdadm.conf was complete",
        "run apply, or update-initramfs -u (dracut -f)",
    ),
    "array-came-back": Text(
        "the arrays came back from a boot",
        "the machine has not been rebooted since apply",
        "run apply --allow-reboot (or reboot by hand), then verify again",
    ),
    "fs-mounted": Text(
        "{subject} is mounted as planned",
        "the device did not come up, or it was unmounted by hand",
        "systemctl status of the mount unit, then the findings about the array",
    ),
    "fs-mounted/options": Text(
        "{subject} is mounted as planned",
        "it was mounted by hand, or an entry in /etc/fstab wins over the unit",
        "remove the entry in /etc/fstab; unmount, then systemctl start of the mount unit",
    ),
    "fs-uuid": Text(
        "one file system UUID for {subject} everywhere",
        "the file system was made anew after apply",
        "run apply: it adopts the file system that is there, or says why not",
    ),
    "fs-geometry": Text(
        "file system of {subject} knows the stripe",
        "the file system was made on another array, or by hand without su and sw",
        "works, only slower; it can be set at mkfs only: save the data, make it anew when there is time",
    ),
    "fs-bare": Text(
        "nothing can be written under the mount of {subject}",
        "the immutable flag was removed, or the folder was made by hand",
        "run apply; it sets the flag again (chattr +i)",
    ),
    "fs-bare/filled": Text(
        "nothing can be written under the mount of {subject}",
        "jobs wrote while the volume was not mounted: the data lies on the root disk, hidden by the mount",
        "stop the jobs, unmount, move the files away, then run apply",
    ),
    "fs-unit": Text(
        "boot survives a missing {subject}",
        "the unit was edited or disabled by hand, or was never written",
        "run apply; systemctl cat of the mount unit shows what is in force",
    ),
    "fs-folder": Text(
        "owner and mode of {subject}",
        "changed by hand",
        "run apply, or chown and chmod the mounted folder",
    ),
    "fs-directory": Text(
        "folder {subject}",
        "changed or removed by hand",
        "run apply",
    ),
    "fs-read-ahead": Text(
        "read-ahead of {subject}",
        "the udev rule is missing, or another tool (tuned) set its own value",
        "run apply; udevadm test on the device shows which rule wins",
    ),
    "fs-trim": Text(
        "freed blocks of {subject} are given back to the drives",
        "the drop-in of fstrim.service is missing: by itself it trims only what /etc/fstab lists",
        "run apply; systemctl cat fstrim.service shows what is in force",
    ),
    "volume-watch": Text(
        "the volume watch reports no fault",
        "a drive is dead or was pulled, or a volume was stopped or unmounted",
        "cat /run/llmhw/volume-faults on the machine says what is lost and what is not; follow the runbook",
    ),
    "volume-watch/off": Text(
        "the volume watch looks at every volume",
        "the timer was stopped or disabled by hand, or its program cannot run; lost drives are told to nobody",
        "run apply; systemctl status llmhw-volume-watch.timer llmhw-volume-watch.service",
    ),
    "tmpfs-mounted": Text(
        "tmpfs {subject} as planned",
        "it was remounted by hand, or an entry in /etc/fstab wins over the unit",
        "systemctl restart of the mount unit (its content is lost), or run apply",
    ),
    "tmpfs-mounted/absent": Text(
        "tmpfs {subject} as planned",
        "apply has not made it yet, or it was unmounted by hand",
        "run apply, or systemctl start of the mount unit",
    ),
    "tmpfs-mode": Text(
        "mode of tmpfs {subject}",
        "changed by hand",
        "chmod, or run apply",
    ),
    "tmpfs-unit": Text(
        "tmpfs {subject} comes back at boot",
        "the unit was disabled by hand or was never written",
        "run apply",
    ),
    "could-not-run": Text(
        "",
        "the tool is missing, has no answer, or the host cannot be reached",
        "run the command of the evidence by hand; without an answer nothing is proven",
    ),
    "could-not-run/not-there": Text(
        "",
        "what the question is about is not there, which is a finding of its own",
        "settle that finding first, then verify again",
    ),
}


def text_of(check: str, variant: str) -> Text:
    """Text of a finding: that of the variant where there is one."""
    return TEXTS.get(f"{check}/{variant}", TEXTS[check])
