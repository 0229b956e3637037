"""Initramfs images: which there are, and what they carry of a file on disk.

An image is one or more cpio archives (format newc) in a row, the last one usually compressed. Reading stops at the
last wanted file: names are in order, and `etc` comes long before the kernel modules.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

REASONS = "/run/llmhw/initramfs-required.d"
REBOOT_REASONS = "/run/llmhw/reboot-required.d"
_UNPACK = (
    (b"\x1f\x8b", ("gzip", "-dc")),
    (b"\x28\xb5\x2f\xfd", ("zstd", "-dcq")),
    (b"\x02\x21\x4c\x18", ("lz4", "-dcq")),
    (b"\x04\x22\x4d\x18", ("lz4", "-dcq")),
    (b"\xfd7zXZ\0", ("xz", "-dc")),
    (b"\x5d\0\0", ("xz", "-dc", "--format=lzma")),
    (b"BZh", ("bzip2", "-dc")),
)


def images(kernels: str, boot: str = "/boot", modules: str = "/lib/modules") -> dict[str, str]:
    """Kernel release to image, of `all` installed kernels or only of the `running` one."""
    releases = [os.uname().release] if kernels == "running" else sorted(os.listdir(modules))
    found = {release: f"{boot}/initrd.img-{release}" for release in releases}
    return {release: path for release, path in found.items() if os.path.exists(f"{boot}/vmlinuz-{release}")}


def stale(paths: Iterable[str], kernels: str, pending: Mapping[str, str | None] | None = None) -> dict[str, list[str]]:
    """Kernel release to those of the files that its image lacks, or has otherwise than the disk, or than `pending`."""
    texts = {path: _bytes(path) for path in sorted(set(paths)) if os.path.exists(path)}
    texts.update({path: text.encode() for path, text in (pending or {}).items() if text is not None})
    wanted = {path: significant(text) for path, text in texts.items()}
    found = {}
    for release, image in images(kernels).items():
        inside = members(image, wanted) if wanted and os.path.exists(image) else {}
        differing = [path for path in wanted if path not in inside or significant(inside[path]) != wanted[path]]
        if differing:
            found[release] = differing
    return found


def significant(content: bytes) -> list[bytes]:
    """The lines that count: hooks alter comments, and Debian's mdadm hook comments out CREATE."""
    lines = (line.strip() for line in content.splitlines())
    return [line for line in lines if line and not line.startswith((b"#", b"CREATE"))]


def members(image: str, paths: Iterable[str]) -> dict[str, bytes]:
    """The content of those files that the image carries."""
    missing = {path.lstrip("/").encode() for path in paths}
    found: dict[str, bytes] = {}
    with open(image, "rb") as file:
        while missing:
            start = _skip_zeros(file)
            if not start:
                break
            command = next((command for magic, command in _UNPACK if start.startswith(magic)), None)
            if command is None:
                _archive(file, missing, found)
                continue
            # Given the file itself: the decompressor reads on from where we are.
            os.lseek(file.fileno(), file.tell(), os.SEEK_SET)
            with subprocess.Popen(command, stdin=file.fileno(), stdout=subprocess.PIPE) as process:
                assert process.stdout
                _archive(process.stdout, missing, found)
                process.kill()
            break
    return found


def _skip_zeros(file: IO[bytes]) -> bytes:
    """Moves to the next archive and returns its first bytes, none at the end of the file."""
    while True:
        block = file.read(4096)
        if not block:
            return b""
        rest = block.lstrip(b"\0")
        if rest:
            file.seek(-len(rest), os.SEEK_CUR)
            start = file.read(16)
            file.seek(-len(start), os.SEEK_CUR)
            return start


def _archive(stream: IO[bytes], missing: set[bytes], found: dict[str, bytes]) -> None:
    """Reads one archive up to its trailer, or up to the last missing file."""
    while missing:
        header = stream.read(110)
        if len(header) < 110 or header[:5] != b"07070":
            raise ValueError("an initramfs image is damaged or of an unknown format")
        size, length = int(header[54:62], 16), int(header[94:102], 16)
        name = stream.read(_padded(110 + length) - 110)[: length - 1]
        if name == b"TRAILER!!!":
            return
        name = name[2:] if name.startswith(b"./") else name
        data = stream.read(_padded(size))
        if name in missing:
            missing.discard(name)
            found["/" + name.decode()] = data[:size]


def _padded(length: int) -> int:
    return (length + 3) // 4 * 4


def trigger_pending(status: str = "/var/lib/dpkg/status") -> bool:
    """Whether dpkg has put off a rebuild: the trigger of initramfs-tools waits."""
    for stanza in _bytes(status).decode("utf-8", "replace").split("\n\n"):
        if stanza.startswith("Package: initramfs-tools\n"):
            return "triggers-pending" in stanza
    return False


def reasons(folder: str = REASONS) -> dict[str, str]:
    """Role to reason; a reason is one line, and the image must carry every absolute path in it as it is on disk."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return {name: _bytes(f"{folder}/{name}").decode("utf-8", "replace").strip() for name in names if name[0] != "."}


def newer_than_boot(kernels: str, stat: str = "/proc/stat", boot: str = "/boot", modules: str = "/lib/modules") -> bool:
    """Whether an image was made after the machine last booted."""
    booted = next((int(line.split()[1]) for line in _bytes(stat).splitlines() if line.startswith(b"btime ")), 0)
    paths = images(kernels, boot=boot, modules=modules).values()
    return any(os.path.getmtime(path) > booted for path in paths if os.path.exists(path))


def want_reboot(name: str, text: str, folder: str = REBOOT_REASONS) -> None:
    """Leaves the reason for a reboot; /run is empty again after it."""
    os.makedirs(folder, mode=0o755, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text + "\n")


def files_of(texts: Sequence[str]) -> list[str]:
    """The absolute paths in the reasons."""
    return sorted({word.rstrip(".,;:") for text in texts for word in text.split() if word.startswith("/")})


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
