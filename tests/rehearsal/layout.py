"""What the rehearsal machine consists of; the Vagrantfile reads it as JSON.

``python -m tests.rehearsal.layout show|create|remove`` needs only the standard library.
"""

import argparse
import hashlib
import json
import os
import pwd
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.rehearsal import accel, box, image
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.settings import STATE, load_env_file

DOMAIN = "llmhw-rehearsal"
NETWORK = {
    "name": "llmhw-rehearsal",
    "cidr": "192.168.157.0/24",
    "mac": "52:54:00:11:4d:01",
}
PUBLIC_BOX = "debian/bookworm64"
DRIVE_SIZE = 1 << 30
EMPTY_SERIALS = tuple(f"LLMHW{number:04d}" for number in range(1, 9))
# Already holds a file system with files: a drive that nothing may ever touch.
CUSTOMER_SERIAL = "LLMHWKEEP1"
CUSTOMER_LABEL = "customer"
SYSTEM_SERIAL = "LLMHWSYSTEM"
# CPU features that make a guest slower under software emulation: with erms the kernel clears and copies
# pages byte by byte (measured: 3 times slower); smap and smep end translation blocks; la57 adds a level.
_SOFTWARE_CPU = "max,erms=off,smap=off,smep=off,la57=off"
# libvirt puts its own devices below; machine type "pc" has slots up to 31 on bus pci.0.
_FIRST_SLOT = 0x10
_FILE = STATE / "drives.json"
# The machines whose GPUs, NVSwitches and network functions the guest can show (gpu/hardware/boards.h).
PRODUCTS = ("AlphaPro660", "GA660M", "A330", "B200-HGX")
_PRODUCT_FILE = STATE / "product"


@dataclass(frozen=True)
class Drive:
    """One NVMe drive: where it sits (PCI slot) and whether it is plugged in at the next start.

    `size` and `sector` (logical and physical) in bytes; `smart_warning` is the byte of critical warnings in its
    SMART log (NVM Express base specification, figure "SMART / Health Information Log Page").
    """

    serial: str
    slot: int
    inserted: bool = True
    size: int = DRIVE_SIZE
    sector: int = 512
    smart_warning: int = 0

    @property
    def image(self) -> Path:
        return images_dir() / f"{self.serial}.img"

    def digest(self) -> str:
        """SHA-256 of the content, equal for equal bytes (holes count as zeros)."""
        digest = hashlib.sha256()
        with self.image.open("rb") as stream:
            end, position = os.fstat(stream.fileno()).st_size, 0
            while position < end:
                try:
                    position = os.lseek(stream.fileno(), position, os.SEEK_DATA)
                except OSError:  # only a hole is left
                    break
                position -= position % (1 << 20)
                stream.seek(position)
                block = stream.read(1 << 20)
                if block.strip(b"\0"):
                    digest.update(position.to_bytes(8, "big") + block)
                position += 1 << 20
        return digest.hexdigest()


def images_dir() -> Path:
    """The folder of the drive images: in the checkout if QEMU's user can get there, else beside libvirt's."""
    wanted = STATE / "drives"
    closed = [folder for folder in wanted.parents if folder.exists() and not folder.stat().st_mode & 0o001]
    return Path("/var/lib/libvirt/images/llmhw-rehearsal") if closed else wanted


def drives() -> tuple[Drive, ...]:
    """The drives as last written, else the eight empty ones and the customer's."""
    if _FILE.is_file():
        return tuple(Drive(**entry) for entry in json.loads(_FILE.read_text()))
    serials = (*EMPTY_SERIALS, CUSTOMER_SERIAL)
    return tuple(Drive(serial, _FIRST_SLOT + number) for number, serial in enumerate(serials))


def write(new: tuple[Drive, ...]) -> None:
    """Remember ``new`` for the next start."""
    STATE.mkdir(exist_ok=True)
    partial = _FILE.with_suffix(".partial")
    partial.write_text(json.dumps([asdict(drive) for drive in new], indent=1))
    partial.rename(_FILE)


def product() -> str | None:
    """The product name in the machine's DMI data, as last written; None: QEMU's own."""
    return _PRODUCT_FILE.read_text() if _PRODUCT_FILE.is_file() else None


def write_product(name: str | None) -> None:
    """Remember what the machine is from the next start on: one of PRODUCTS, or None for no GPUs."""
    if name is None:
        _PRODUCT_FILE.unlink(missing_ok=True)
        return
    if name not in PRODUCTS:
        raise RehearsalError(f"no GPU board for product {name}", f"use one of {', '.join(PRODUCTS)}")
    STATE.mkdir(exist_ok=True)
    _PRODUCT_FILE.write_text(name)


def create_images() -> None:
    """Make the images that do not exist yet, readable and writable for QEMU's user."""
    images_dir().mkdir(parents=True, exist_ok=True)
    for drive in drives():
        if drive.image.exists():
            continue
        if drive.serial == CUSTOMER_SERIAL:
            with tempfile.TemporaryDirectory() as content:
                _customer_files(Path(content))
                image.write_drive(drive.image, size=DRIVE_SIZE, label=CUSTOMER_LABEL, content=Path(content))
        else:
            image.write_drive(drive.image, size=drive.size)
        if os.geteuid() == 0:
            shutil.chown(drive.image, _qemu_user())


def remove_images() -> None:
    """Forget the drives and the product, and delete the drives' images."""
    shutil.rmtree(images_dir(), ignore_errors=True)
    _FILE.unlink(missing_ok=True)
    write_product(None)


def qemu_arguments() -> list[str]:
    """The QEMU arguments beyond libvirt's: product, drives that are plugged in, serials, the processor if emulated."""
    # vagrant-libvirt cannot name features with cpu_mode "maximum"; of two -cpu arguments QEMU takes the last.
    arguments = [] if accel.choice() == "kvm" else ["-cpu", _SOFTWARE_CPU]
    arguments += ["-global", f"virtio-blk-device.serial={SYSTEM_SERIAL}"]  # so that it has a by-id link
    if name := product():
        arguments += ["-smbios", f"type=1,manufacturer=llmhw,product={name}"]
    for drive in drives():
        if drive.inserted:
            name = f"nv-{drive.serial}"
            arguments += ["-drive", f"file={drive.image},if=none,id={name},format=raw,cache=unsafe"]
            device = f"nvme,drive={name},serial={drive.serial},bus=pci.0,addr={drive.slot:#x}"
            if drive.sector != 512:
                device += f",logical_block_size={drive.sector},physical_block_size={drive.sector}"
            if drive.smart_warning:
                device += f",smart_critical_warning={drive.smart_warning}"
            arguments += ["-device", device]
    return arguments


def description() -> dict[str, object]:
    """All that the Vagrantfile needs to know."""
    local = box.current()
    chosen = os.environ.get("LLMHW_BOX")
    use_local = chosen in (None, "local") and local.file.exists()
    driver = accel.choice()
    return {
        "box": local.name if use_local else chosen or PUBLIC_BOX,
        "box_url": local.file.as_uri() if use_local else None,
        "driver": "kvm" if driver == "kvm" else "qemu",
        "boot_timeout": 120 if driver == "kvm" else 300,
        "prefix": DOMAIN.removesuffix("rehearsal"),
        "cpus": 2,
        "translation_cache_mib": 256,
        "memory_mib": 3072,
        "console": str(images_dir() / "console.log"),
        "network": NETWORK,
        "qemu_arguments": qemu_arguments(),
    }


def _customer_files(folder: Path) -> None:
    (folder / "contracts").mkdir()
    (folder / "contracts" / "2024.txt").write_text("signed\n" * 100)
    (folder / "ledger.bin").write_bytes(bytes(range(256)) * 4096)


def _qemu_user() -> str:
    for name in ("libvirt-qemu", "qemu"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return "root"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("show", "create", "remove"))
    verb = parser.parse_args().verb
    load_env_file()
    if verb == "show":
        json.dump(description(), sys.stdout, indent=1)
    elif verb == "create":
        create_images()
    else:
        remove_images()


if __name__ == "__main__":
    main()
