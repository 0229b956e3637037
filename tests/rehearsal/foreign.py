"""Other people's disks: the signatures that a drive may carry, made on the machine by the tools that make them."""

from __future__ import annotations

from tests.rehearsal.machine import Machine
from tests.rehearsal.role import BY_ID

_TOOLS = "/opt/foreign"
# The packages are unpacked, not installed: nothing of them runs at a start and no initramfs carries them.
_UNPACK = f"""mkdir -p {_TOOLS}
for deb in /var/cache/apt/archives/*.deb; do dpkg --extract $deb {_TOOLS}; done"""
_REMOVE = f"rm -rf {_TOOLS}"
_ENVIRONMENT = f"""cd {_TOOLS}
export PATH={_TOOLS}/sbin:{_TOOLS}/usr/sbin:{_TOOLS}/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LD_LIBRARY_PATH={_TOOLS}/lib/x86_64-linux-gnu:{_TOOLS}/usr/lib/x86_64-linux-gnu
export LVM_SUPPRESS_FD_WARNINGS=1
set -e
"""
# ZFS and Ceph have no small tool: the bytes that libblkid knows them by (an uberblock is known by its magic number,
# several of them make a label; a BlueStore by the text it starts with).
_ZFS = """python3 -c 'disk = open("{disk}", "r+b")
for place in range(128, 136):
    disk.seek(place << 10)
    disk.write(0xBAB10C.to_bytes(8, "little") + (28).to_bytes(8, "little"))'"""
_MAKE = {
    "btrfs": "mkfs.btrfs -q {disk}",
    "ceph_bluestore": "printf 'bluestore block device\\n4d5f3f8e-6c55-4b7c-9d0c-0f9a1c3e7b21\\n' > {disk}",
    "crypto_LUKS": "echo secret | cryptsetup luksFormat --type luks1 --pbkdf-force-iterations 1000 -q {disk} -",
    "dos": "echo 'start=2048,size=8192' | sfdisk --quiet --label dos {disk}",
    "ext4": "mkfs.ext4 -q {disk}",
    "gpt": "echo 'start=2048,size=8192' | sfdisk --quiet --label gpt {disk}",
    "linux_raid_member": "mdadm --quiet --create /dev/md9 --name=theirs --homehost=theirs --level=1 --run --force "
    "--raid-devices=1 {disk}; mdadm --quiet --stop /dev/md9",
    "LVM2_member": "pvcreate --quiet {disk}",
    "swap": "mkswap {disk} > /dev/null",
    "xfs": "mkfs.xfs -q {disk}",
    "zfs_member": _ZFS,
}
KINDS = tuple(_MAKE)


def unpack(machine: Machine) -> None:
    """Have the tools on the machine, beside its system."""
    machine.run(f"sudo sh -e <<'END'\n{_UNPACK}\nEND")


def remove(machine: Machine) -> None:
    machine.run("sudo " + _REMOVE)


def run(machine: Machine, script: str) -> str:
    """What ``script`` prints, run as root with the tools of other people's disks."""
    return machine.run(f"sudo sh <<'END'\n{_ENVIRONMENT}{script}\nudevadm settle\nEND").stdout


def sign(machine: Machine, kinds: dict[str, str]) -> None:
    """Give each drive (by serial) the signature of that kind, and see that it is known by it."""
    run(machine, "\n".join(_MAKE[kind].format(disk=BY_ID + serial) for serial, kind in kinds.items()))
    probe = "for disk in {}; do wipefs --noheadings --output TYPE $disk | grep -v PMBR | sort -u; done"
    found = run(machine, probe.format(" ".join(BY_ID + serial for serial in kinds))).split()
    assert found == list(kinds.values())


def clear(machine: Machine, *serials: str) -> None:
    """Empty drives again: the first and the last 16 MiB, where every signature is."""
    script = """for disk in {}; do
  size=$(blockdev --getsize64 $disk)
  dd if=/dev/zero of=$disk bs=1M count=16 conv=fsync status=none
  dd if=/dev/zero of=$disk bs=1M count=16 seek=$((size / 1048576 - 16)) conv=fsync status=none
  blockdev --rereadpt $disk || true
done"""
    run(machine, script.format(" ".join(BY_ID + serial for serial in serials)))
