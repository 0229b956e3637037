"""Texts of disks, arrays, file systems, their watch and tmpfs."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words

STORAGE: dict[str, Words] = {
    "disk-present": Words(
        "disk {subject} is there",
        "the drive is dead, pulled, or was exchanged for another one",
        "find its slot by serial (label, BMC); do not write anything; follow the runbook",
    ),
    "disk-untouched": Words(
        "disk {subject} is as it was",
        "somebody erased or repartitioned it; apply never does without a consent in site.yaml",
        "stop using the disk; look at runs/*/result.json and at who else works on the machine",
    ),
    "disk-untouched/taken": Words(
        "disk {subject} is as it was",
        "a volume of the plan was made on a disk that should have been kept",
        "stop: keep the run's folder and report it; this must not happen",
    ),
    "array-name": Words(
        "array {subject} runs",
        "it was never created, or it was stopped by hand",
        "run apply; if it existed before, mdadm --examine on its members first",
    ),
    "array-name/inactive": Words(
        "array {subject} runs",
        "a member is missing, so the kernel does not start the array",
        "check the findings about its members; RAID0 cannot run without all of them",
    ),
    "array-level": Words(
        "array {subject} has the planned level",
        "an older array of the same name was found and is in use",
        "keep it: change storage in site.yaml to what is there, or save its data and make it anew",
    ),
    "array-chunk": Words(
        "array {subject} has the planned chunk",
        "an older array of the same name was found and is in use",
        "keep it: set storage.scratch.chunk in site.yaml to what is there, or save its data and make it anew",
    ),
    "array-members": Words(
        "array {subject} is complete, by serial",
        "a drive is dead, pulled or was exchanged",
        "do not create anything; find the drive by its serial and follow the runbook",
    ),
    "array-state": Words(
        "array {subject} is clean",
        "a member failed while the array was in use",
        "dmesg for the drive's errors; the data on a broken RAID0 is lost: replace, then apply",
    ),
    "array-state/filling": Words(
        "array {subject} is clean",
        "the mirror was just made, or a drive was just replaced",
        "wait until /proc/mdstat shows no resync, then verify again",
    ),
    "array-conf": Words(
        "mdadm.conf names array {subject} once, by UUID",
        "the file was edited by hand, or another tool wrote its own ARRAY line",
        "run apply; it writes the one line and rebuilds the initramfs",
    ),
    "array-boot": Words(
        "the initramfs names array {subject} once, by UUID",
        "the initramfs was built before mdadm.conf was complete",
        "run apply, or update-initramfs -u (dracut -f)",
    ),
    "array-came-back": Words(
        "the arrays came back from a boot",
        "the machine has not been rebooted since apply",
        "run apply --allow-reboot (or reboot by hand), then verify again",
    ),
    "fs-mounted": Words(
        "{subject} is mounted as planned",
        "the device did not come up, or it was unmounted by hand",
        "systemctl status of the mount unit, then the findings about the array",
    ),
    "fs-mounted/options": Words(
        "{subject} is mounted as planned",
        "it was mounted by hand, or an entry in /etc/fstab wins over the unit",
        "remove the entry in /etc/fstab; unmount, then systemctl start of the mount unit",
    ),
    "fs-uuid": Words(
        "one file system UUID for {subject} everywhere",
        "the file system was made anew after apply",
        "run apply: it adopts the file system that is there, or says why not",
    ),
    "fs-geometry": Words(
        "file system of {subject} knows the stripe",
        "the file system was made on another array, or by hand without su and sw",
        "works, only slower; it can be set at mkfs only: save the data, make it anew when there is time",
    ),
    "fs-bare": Words(
        "nothing can be written under the mount of {subject}",
        "the immutable flag was removed, or the folder was made by hand",
        "run apply; it sets the flag again (chattr +i)",
    ),
    "fs-bare/filled": Words(
        "nothing can be written under the mount of {subject}",
        "jobs wrote while the volume was not mounted: the data lies on the root disk, hidden by the mount",
        "stop the jobs, unmount, move the files away, then run apply",
    ),
    "fs-unit": Words(
        "boot survives a missing {subject}",
        "the unit was edited or disabled by hand, or was never written",
        "run apply; systemctl cat of the mount unit shows what is in force",
    ),
    "fs-folder": Words(
        "owner and mode of {subject}",
        "changed by hand",
        "run apply, or chown and chmod the mounted folder",
    ),
    "fs-directory": Words(
        "folder {subject}",
        "changed or removed by hand",
        "run apply",
    ),
    "fs-read-ahead": Words(
        "read-ahead of {subject}",
        "the udev rule is missing, or another tool (tuned) set its own value",
        "run apply; udevadm test on the device shows which rule wins",
    ),
    "fs-trim": Words(
        "freed blocks of {subject} are given back to the drives",
        "the drop-in of fstrim.service is missing: by itself it trims only what /etc/fstab lists",
        "run apply; systemctl cat fstrim.service shows what is in force",
    ),
    "volume-watch": Words(
        "the volume watch reports no fault",
        "a drive is dead or was pulled, or a volume was stopped or unmounted",
        "cat /run/llmhw/volume-faults on the machine says what is lost and what is not; follow the runbook",
    ),
    "volume-watch/off": Words(
        "the volume watch looks at every volume",
        "the timer was stopped or disabled by hand, or its program cannot run; lost drives are told to nobody",
        "run apply; systemctl status llmhw-volume-watch.timer llmhw-volume-watch.service",
    ),
    "tmpfs-mounted": Words(
        "tmpfs {subject} as planned",
        "it was remounted by hand, or an entry in /etc/fstab wins over the unit",
        "systemctl restart of the mount unit (its content is lost), or run apply",
    ),
    "tmpfs-mounted/absent": Words(
        "tmpfs {subject} as planned",
        "apply has not made it yet, or it was unmounted by hand",
        "run apply, or systemctl start of the mount unit",
    ),
    "tmpfs-mode": Words(
        "mode of tmpfs {subject}",
        "changed by hand",
        "chmod, or run apply",
    ),
    "tmpfs-unit": Words(
        "tmpfs {subject} comes back at boot",
        "the unit was disabled by hand or was never written",
        "run apply",
    ),
}
