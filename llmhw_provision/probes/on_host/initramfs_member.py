"""Prints the files named after the first argument, as the initramfs image carries them; reads no further than needed.

An image is one or more cpio archives (newc) in a row, the last one usually compressed. Names are in order, and etc/
comes long before the kernel modules, so that only the first few megabytes are unpacked.
"""

import os
import subprocess
import sys
from typing import IO, Set  # noqa: UP035 - runs on Python 3.6 too

UNPACK = (
    (b"\x1f\x8b", ["gzip", "-dc"]),
    (b"\x28\xb5\x2f\xfd", ["zstd", "-dcq"]),
    (b"\x02\x21\x4c\x18", ["lz4", "-dcq"]),
    (b"\x04\x22\x4d\x18", ["lz4", "-dcq"]),
    (b"\xfd7zXZ\0", ["xz", "-dc"]),
    (b"BZh", ["bzip2", "-dc"]),
)


def padded(length: int) -> int:
    return (length + 3) // 4 * 4


def archive(stream: IO[bytes], missing: Set[bytes]) -> None:
    """Reads one archive up to its end, or up to the last file that is missing."""
    while missing:
        header = stream.read(110)
        if len(header) < 110 or header[:5] != b"07070":
            sys.exit("the image is damaged or of an unknown format")
        size, length = int(header[54:62], 16), int(header[94:102], 16)
        name = stream.read(padded(110 + length) - 110)[: length - 1]
        if name == b"TRAILER!!!":
            return
        data = stream.read(padded(size))[:size]
        name = name[2:] if name.startswith(b"./") else name
        if name in missing:
            missing.discard(name)
            sys.stdout.buffer.write(b"== /" + name + b"\n" + data.rstrip(b"\n") + b"\n")


def main() -> None:
    image, missing = sys.argv[1], {name.lstrip("/").encode() for name in sys.argv[2:]}
    print("== " + image, flush=True)
    with open(image, "rb") as file:  # noqa: PTH123
        while missing:
            block = file.read(4096)
            if not block:
                return
            rest = block.lstrip(b"\0")
            if not rest:
                continue
            file.seek(-len(rest), os.SEEK_CUR)
            command = next((command for magic, command in UNPACK if rest.startswith(magic)), None)
            if command is None:
                archive(file, missing)
                continue
            # Given the file itself: the decompressor reads on from where we are.
            os.lseek(file.fileno(), file.tell(), os.SEEK_SET)
            process = subprocess.Popen(command, stdin=file.fileno(), stdout=subprocess.PIPE)
            if process.stdout:
                archive(process.stdout, missing)
            process.kill()
            return


main()
