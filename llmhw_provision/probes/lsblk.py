"""Block devices as the kernel and udev see them, from `lsblk -J -O -b`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import flag, json_object, output, rows, unreadable, whole

COMMAND = Command("lsblk", ("lsblk", "-J", "-O", "-b"), 20)


@dataclass(frozen=True)
class Block:
    """One block device with what stands on it."""

    name: str
    type: str
    size_bytes: int
    serial: str
    model: str
    transport: str
    logical_sector: int
    rotational: bool
    removable: bool
    fstype: str
    uuid: str
    label: str
    pttype: str
    ptuuid: str
    mounts: tuple[str, ...]
    children: tuple[Block, ...]

    def walk(self) -> Iterator[Block]:
        """This device and everything on it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def all_mounts(self) -> tuple[str, ...]:
        """Mount points of this device and of everything on it, `[SWAP]` included."""
        return tuple(sorted({mount for block in self.walk() for mount in block.mounts}))


def parse(raw: bytes) -> tuple[Block, ...]:
    """The devices at the top of lsblk's tree, in kernel name order."""
    devices = json_object("lsblk", raw).get("blockdevices")
    if not isinstance(devices, list):
        raise unreadable("lsblk", raw.decode("utf-8", "replace")[:80], "no 'blockdevices' list")
    return tuple(sorted((_block(item) for item in devices), key=lambda block: block.name))


def _block(item: Any) -> Block:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise unreadable("lsblk", str(item))
    name = item["name"]
    missing = [key for key in ("type", "size", "rota", "rm", "log-sec") if item.get(key) is None]
    if missing:
        raise unreadable("lsblk", f"{name} without {', '.join(missing)}")
    return Block(
        name=name,
        type=_text(item, "type"),
        size_bytes=whole("lsblk", item["size"], f"size of {name}"),
        serial=_text(item, "serial"),
        model=_text(item, "model"),
        transport=_text(item, "tran"),
        logical_sector=whole("lsblk", item["log-sec"], f"log-sec of {name}"),
        rotational=flag("lsblk", item["rota"], f"rota of {name}"),
        removable=flag("lsblk", item["rm"], f"rm of {name}"),
        fstype=_text(item, "fstype"),
        uuid=_text(item, "uuid"),
        label=_text(item, "label"),
        pttype=_text(item, "pttype"),
        ptuuid=_text(item, "ptuuid"),
        mounts=_mounts(item),
        children=tuple(_block(child) for child in item.get("children") or ()),
    )


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise unreadable("lsblk", f"{key} {value!r}", "not text")
    return value.strip()


def _mounts(item: dict[str, Any]) -> tuple[str, ...]:
    """`mountpoints` is a list since util-linux 2.37; before, `mountpoint` is one text."""
    value = item.get("mountpoints", [item.get("mountpoint")])
    if not isinstance(value, list):
        raise unreadable("lsblk", f"mountpoints {value!r}", "not a list")
    return tuple(str(mount) for mount in value if mount)


def blocks(evidence: Evidence) -> tuple[Block, ...]:
    """The block devices of the host."""
    return parse(output(evidence, COMMAND.key))


def serial_of(devices: tuple[Block, ...], name: str) -> str:
    """Serial of the disk whose kernel name (or the name of a partition on it) is `name`; empty when unknown."""
    for disk in devices:
        if disk.name == name or any(child.name == name for child in disk.children if child.type == "part"):
            return disk.serial
    return ""


def facts(raw: bytes) -> dict[str, object]:
    """The form of the listing, and the devices at its top; reads listings with any set of columns."""
    devices = rows(json_object("lsblk", raw).get("blockdevices"), "lsblk", "blockdevices")
    if not all(isinstance(item.get("name"), str) for item in devices):
        raise unreadable("lsblk", str(devices)[:80], "a device without name")
    sizes = [item["size"] for item in devices if "size" in item]
    key = next((name for name in ("mountpoints", "mountpoint") if devices and name in devices[0]), None)
    return {
        "ok": bool(devices),
        "top_level": len(devices),
        "types": sorted({_text(item, "type") for item in devices if item.get("type")}),
        "mountpoint_key": key,
        "size_is_int": bool(sizes) and all(isinstance(size, int) for size in sizes),
        "disks": [item["name"] for item in devices if item.get("type") == "disk"],
    }


FORMATS = (Format("lsblk -J", holds(rb'\A\s*\{\s*"blockdevices"\s*:'), facts),)
