"""A bootable disk image: MBR with GRUB, one ext4 partition. No loop device, so nothing to undo."""

import shutil
import struct
import subprocess
from pathlib import Path

_SECTOR = 512
_PARTITION_START = 2048  # sectors; the gap before it holds GRUB's core image
_GRUB_MODULES = ("biosdisk", "part_msdos", "ext2")
_GRUB_CFG = """\
# First boot only: update-grub in the guest replaces this file.
serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
set default=0
set timeout=0
set timeout_style=hidden
menuentry 'Debian GNU/Linux' --class debian --class gnu-linux --class os {{
	insmod gzio
	insmod part_msdos
	insmod ext2
	search --no-floppy --fs-uuid --set=root {uuid}
	echo 'Loading Linux {kernel} ...'
	linux /boot/vmlinuz-{kernel} root=UUID={uuid} ro {arguments}
	echo 'Loading initial ramdisk ...'
	initrd /boot/initrd.img-{kernel}
}}
"""


def write_grub(root: Path, *, uuid: str, kernel: str, arguments: str) -> bytes:
    """GRUB's core image for the sectors after the MBR; its modules and grub.cfg go below ``root``."""
    folder = root / "boot/grub"
    shutil.copytree(root / "usr/lib/grub/i386-pc", folder / "i386-pc", dirs_exist_ok=True)
    (folder / "grub.cfg").write_text(_GRUB_CFG.format(uuid=uuid, kernel=kernel, arguments=arguments))
    chroot = ["chroot", str(root)]
    subprocess.run([*chroot, "grub-editenv", "/boot/grub/grubenv", "create"], check=True)
    core = "/boot/grub/i386-pc/core.img"
    make = ["grub-mkimage", "-O", "i386-pc", "-o", core, "-p", "(hd0,msdos1)/boot/grub", *_GRUB_MODULES]
    subprocess.run([*chroot, *make], check=True)
    return (root / core.lstrip("/")).read_bytes()


def write_disk(root: Path, disk: Path, *, core: bytes, uuid: str, size: int) -> None:
    """Fill ``disk`` (qcow2, ``size`` bytes) with the tree ``root`` and make it boot."""
    raw = disk.with_suffix(".raw")
    try:
        raw.unlink(missing_ok=True)
        with raw.open("wb") as stream:
            stream.truncate(size)
        offset = _PARTITION_START * _SECTOR
        subprocess.run(
            ["mkfs.ext4", "-q", "-F", "-L", "system", "-U", uuid, "-d", str(root),
             "-E", f"offset={offset},lazy_itable_init=1", str(raw), f"{(size - offset) // 1024}k"],
            check=True,
        )  # fmt: skip
        boot = (root / "usr/lib/grub/i386-pc/boot.img").read_bytes()
        with raw.open("r+b") as stream:
            stream.write(_master_boot_record(boot, size // _SECTOR - _PARTITION_START))
            if len(core) > (_PARTITION_START - 1) * _SECTOR:
                raise ValueError(f"GRUB's core image has {len(core)} bytes, too many for the gap")
            stream.write(core)
        subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(disk)], check=True)
    finally:
        raw.unlink(missing_ok=True)


def write_drive(image: Path, *, size: int, label: str | None = None, content: Path | None = None) -> None:
    """A sparse raw drive of ``size`` bytes, empty or with an ext4 that holds the files of ``content``."""
    with image.open("wb") as stream:
        stream.truncate(size)
    if content is not None:
        named = ["-L", label] if label else []
        subprocess.run(["mkfs.ext4", "-q", "-F", *named, "-d", str(content), str(image)], check=True)
    image.chmod(0o660)


def _master_boot_record(boot: bytes, sectors: int) -> bytes:
    # Boot code, disk id, one active Linux partition addressed by LBA only, signature.
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", _PARTITION_START, sectors)
    return boot[:440] + struct.pack("<IH", 0x6C6C6D68, 0) + entry + bytes(48) + b"\x55\xaa"
