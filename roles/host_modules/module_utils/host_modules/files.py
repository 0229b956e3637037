"""Whole files that a role keeps: which differ from what is wanted, and writing them under a temporary name."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

BLOCK = "# BEGIN llmhw-provision"
HEAD = "# Written by llmhw-provision; changes here are lost at the next apply.\n"


class File(NamedTuple):
    """A file of root as it shall be; without a text it shall not be there."""

    path: str
    text: Optional[str]  # noqa: UP045 - Python 3.9 evaluates the fields of a NamedTuple
    mode: int = 0o644
    link: bool = False  # the text is where a symbolic link points


def differing(files: Iterable[File]) -> list[tuple[File, str]]:
    """The files that are not as they shall be, each with a sentence of what to do. Never tells the content."""
    found = []
    for file in files:
        there = _look(file.path)
        if file.text is None:
            if there is not None:
                found.append((file, f"remove {file.path}"))
        elif there is None or there[0] != file.text or there[2] != file.link:
            found.append((file, f"link {file.path} to {file.text}" if file.link else f"write {file.path}"))
        elif not file.link and there[1] != (file.mode, 0, 0):
            found.append((file, f"give {file.path} to root with mode {file.mode:04o}"))
    return found


def put(file: File) -> None:
    """Makes the file as it shall be; it is never there half-written, nor with a wider mode than it shall have."""
    if file.text is None:
        os.unlink(file.path)
        return
    folder = os.path.dirname(file.path)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".llmhw-")  # mode 0600
    try:
        if file.link:
            os.close(handle)
            os.unlink(temporary)
            os.symlink(file.text, temporary)
        else:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(file.text)
                stream.flush()
                os.fchown(stream.fileno(), 0, 0)
                os.fchmod(stream.fileno(), file.mode)
                os.fsync(stream.fileno())
        os.rename(temporary, file.path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def mode_of(path: str, default: int = 0o644) -> int:
    """The mode of a file that others share, to be kept."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return default


def read(path: str) -> str:
    """The text of a file, empty when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def with_block(text: str, lines: Sequence[str]) -> str:
    """`text` with the lines between two markers, in place of those of an earlier run; without lines, without block."""
    begin, end = BLOCK, BLOCK.replace("BEGIN", "END")
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if line == begin:
            inside = True
        if not inside:
            kept.append(line)
        if line == end:
            inside = False
    block = [begin, *lines, end] if lines else []
    return "".join(f"{line}\n" for line in [*kept, *block])


def outside_block(text: str) -> list[str]:
    """The lines that are not ours."""
    return with_block(text, ()).splitlines()


def _look(path: str) -> Optional[tuple[str, tuple[int, int, int], bool]]:  # noqa: UP045
    """Text (or where the link points), mode with owner and group, and whether it is a link."""
    try:
        there = os.lstat(path)
    except OSError:
        return None
    owned = (stat.S_IMODE(there.st_mode), there.st_uid, there.st_gid)
    if stat.S_ISLNK(there.st_mode):
        return os.readlink(path), owned, True
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as stream:
        return stream.read(), owned, False
