"""The folder under a mount point: is it there, is it empty, is it immutable; also while something is mounted on it.

A child process with a mount namespace of its own takes the mount away and looks. Its mounts are private first, so
that nothing of this reaches the system.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
from collections.abc import Callable
from typing import Any

from .mount_unit import Bare

_CLONE_NEWNS, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x00020000, 0x4000, 1 << 18, 2
_GETFLAGS, _SETFLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10


def look(path: str) -> Bare:
    """The folder under `path`."""
    return Bare(**_apart(path, lambda: _state(path)))


def make(path: str) -> None:
    """Makes the folder and its parents."""
    os.makedirs(path, mode=0o755, exist_ok=True)


def make_immutable(path: str) -> None:
    """Sets the immutable flag of the folder under `path`: without the mount, nobody can write there, not even root."""
    _apart(path, lambda: _set(path))


def _state(path: str) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {"exists": False}
    if os.path.islink(path) or not os.path.isdir(path):
        return {"exists": True, "folder": False}
    flags = _flags(path)
    immutable = None if flags is None else bool(flags & _IMMUTABLE)
    return {"exists": True, "entries": tuple(sorted(os.listdir(path))), "immutable": immutable}


def _set(path: str) -> dict[str, Any]:
    flags = _flags(path)
    if flags is not None:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(handle, _SETFLAGS, struct.pack("l", flags | _IMMUTABLE))
        finally:
            os.close(handle)
    return {}


def _flags(path: str) -> int | None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return int(struct.unpack("l", fcntl.ioctl(handle, _GETFLAGS, struct.pack("l", 0)))[0])
    except OSError:  # a file system without flags
        return None
    finally:
        os.close(handle)


def _apart(path: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` returns in a child process where nothing is mounted at `path`."""
    if not os.path.ismount(path):
        return work()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _take_away(path)
            answer = {"answer": work()}
        except BaseException as error:
            answer = {"error": {"text": f"{path}: {error}"}}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    result = json.loads(text or b'{"error": {"text": "looking under the mount failed"}}')
    if "error" in result:
        raise OSError(result["error"]["text"])
    return {key: tuple(value) if isinstance(value, list) else value for key, value in result["answer"].items()}


def _take_away(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.chdir("/")
    while os.path.ismount(path):
        if libc.umount2(os.fsencode(path), _MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
