"""Removing a container, or a whole lab, by its names alone: the same code for a normal end and for a reap."""

import contextlib
import json
import os
import shutil
from pathlib import Path

from tests.containers.commands import LabError, attempt, call
from tests.containers.identity import Identity
from tests.containers.ledger import abandoned, is_empty, machine_lock
from tests.containers.machine import groups, kill_groups, processes
from tests.containers.settings import Settings

_NSPAWN_RUN = Path("/run/systemd/nspawn")


def reap() -> tuple[str, ...]:
    """Remove the labs whose process is gone; their keys."""
    with machine_lock():
        found = abandoned()
        for identity in found:
            remove_lab(identity)
        restore_settings()
    return tuple(identity.key for identity in found)


def restore_settings() -> None:
    """Put the kernel settings back when no lab needs them; call it under ``machine_lock``."""
    if is_empty():
        Settings().restore()


def remove_lab(identity: Identity) -> None:
    """Remove everything a lab made, except the settings it shares; call it under ``machine_lock``."""
    _close_connections(identity)
    for number in identity.numbers():
        remove_container(identity, number)
    kill_groups(identity)
    attempt("nft", "delete", "table", "ip", identity.table)
    attempt("ip", "link", "delete", identity.bridge)
    shutil.rmtree(identity.work, ignore_errors=True)
    shutil.rmtree(identity.folder)


def remove_container(identity: Identity, number: int) -> None:
    """Kill what runs in it, then take away network, mounts and disk."""
    machine, root = identity.machine(number), identity.root(number)
    kill_groups(identity, str(number))
    attempt("ip", "netns", "delete", machine)
    attempt("ip", "link", "delete", machine)  # usually gone with its other end
    if root.is_mount() and not attempt("umount", str(root)):
        attempt("umount", "--lazy", str(root))
    if root.is_mount():
        raise LabError(f"{root} cannot be unmounted")
    _remove_tree(identity.disk(number))
    with contextlib.suppress(OSError):
        (_NSPAWN_RUN / "propagate" / machine).rmdir()
    identity.log(number).unlink(missing_ok=True)


def close_connection(socket: Path) -> None:
    """End the ssh process that keeps the connection behind a control socket open."""
    if socket.exists():
        attempt("ssh", "-S", str(socket), "-O", "exit", "any")
        socket.unlink(missing_ok=True)


def traces(identity: Identity) -> tuple[str, ...]:
    """What this machine still has of a lab, for tests: nothing after its end."""
    found = [f"folder {path}" for path in (identity.folder, identity.work) if path.exists()]
    found += [f"control group {path}" for path in groups(identity) if path.exists()]
    found += [f"process {pid}" for path in groups(identity) for pid in processes(path)]
    found += [f"process {line}" for line in _command_lines() if identity.key in line]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line}" for line in mounts if identity.key in line]
    links = json.loads(call("ip", "-j", "link", "show"))
    found += [f"link {link['ifname']}" for link in links if identity.key in link["ifname"]]
    namespaces = Path("/run/netns").glob(f"*{identity.key}*")
    found += [f"network namespace {path.name}" for path in namespaces]
    tables = call("nft", "list", "tables").splitlines()
    found += [f"nftables {line}" for line in tables if identity.key in line]
    found += [f"nspawn {path}" for path in _NSPAWN_RUN.rglob("*") if identity.key in path.name]
    return tuple(dict.fromkeys(found))


def _close_connections(identity: Identity) -> None:
    for socket in identity.folder.glob("*.ssh"):
        close_connection(socket)


def _remove_tree(folder: Path) -> None:
    """Remove a container's disk, files too that a role made immutable (chattr +i)."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        attempt("chattr", "-R", "-f", "-i", "-a", str(folder), timeout=60)
        shutil.rmtree(folder)


def _command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if int(path.parent.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
