"""Debian packages written in Python: an `ar` archive of two gzipped tarballs, the same bytes for the same content."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass, field

_MAINTAINER = "llmhw-provision rehearsal <rehearsal@example.org>"
_SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "triggers", "conffiles")
_RELATIONS = ("Pre-Depends", "Depends", "Recommends", "Suggests", "Provides", "Conflicts", "Breaks", "Replaces")


@dataclass(frozen=True)
class File:
    """A regular file of a package."""

    content: bytes
    mode: int = 0o644

    @classmethod
    def program(cls, text: str) -> File:
        """An executable script."""
        return cls(text.encode(), 0o755)


@dataclass(frozen=True)
class Link:
    """A symbolic link of a package."""

    target: str


@dataclass(frozen=True)
class Package:
    """A package: relations by their field names, files by absolute path, maintainer scripts by name."""

    name: str
    version: str
    description: str
    source: str = ""
    architecture: str = "amd64"
    same: bool = False  # Multi-Arch: same, as libraries are: dpkg lists them as NAME:amd64
    section: str = "non-free/libs"
    relations: dict[str, str] = field(default_factory=dict)
    files: dict[str, File | Link] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)

    @property
    def filename(self) -> str:
        """As archives name it: without the epoch."""
        return f"{self.name}_{self.version.rpartition(':')[2]}_{self.architecture}.deb"

    def control(self) -> str:
        """The control paragraph."""
        size = sum(len(file.content) for file in self.files.values() if isinstance(file, File)) // 1024 + 1
        lines = [f"Package: {self.name}"]
        lines += [f"Source: {self.source}"] if self.source and self.source != self.name else []
        lines += [f"Version: {self.version}", f"Architecture: {self.architecture}", f"Maintainer: {_MAINTAINER}"]
        lines += ["Multi-Arch: same"] if self.same else []
        lines += [f"Installed-Size: {size}"]
        lines += [f"{name}: {self.relations[name]}" for name in _RELATIONS if self.relations.get(name)]
        lines += [f"Section: {self.section}", "Priority: optional", f"Description: {self.description}"]
        return "\n".join(lines) + "\n"

    def build(self) -> bytes:
        """The .deb file."""
        control: dict[str, File | Link] = {"./control": File(self.control().encode())}
        conffiles = [path for path in self.files if path.startswith("/etc/") and isinstance(self.files[path], File)]
        scripts = dict(self.scripts)
        if conffiles:
            scripts["conffiles"] = "".join(f"{path}\n" for path in conffiles)
        for name in _SCRIPTS:
            if name in scripts:
                plain = name in ("triggers", "conffiles")
                control[f"./{name}"] = File(scripts[name].encode(), 0o644 if plain else 0o755)
        data = {f".{path}": file for path, file in self.files.items()}
        parts = (
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", _tarball(control)),
            ("data.tar.gz", _tarball(data)),
        )
        return b"!<arch>\n" + b"".join(_member(name, content) for name, content in parts)

    def entry(self, built: bytes) -> str:
        """The package's paragraph in an index, given its .deb file."""
        where = f"Filename: ./{self.filename}\nSize: {len(built)}\nSHA256: {hashlib.sha256(built).hexdigest()}\n"
        return self.control() + where


def _member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
    return head + content + b"\n" * (len(content) % 2)


def _tarball(files: dict[str, File | Link]) -> bytes:
    """Files with their folders, all root's, of no date."""
    folders: list[str] = ["./"]
    for path in sorted(files):
        parts = path.split("/")[1:-1]
        folders += ["./" + "/".join(parts[: depth + 1]) + "/" for depth in range(len(parts))]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder in dict.fromkeys(folders):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode, entry.uname, entry.gname = tarfile.DIRTYPE, 0o755, "root", "root"
            tar.addfile(entry)
        for path in sorted(files):
            tar.addfile(*_entry(path, files[path]))
    return gzip.compress(out.getvalue(), compresslevel=6, mtime=0)


def _entry(path: str, file: File | Link) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    entry = tarfile.TarInfo(path)
    entry.uname = entry.gname = "root"
    if isinstance(file, Link):
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, file.target
        return entry, None
    entry.mode, entry.size = file.mode, len(file.content)
    return entry, io.BytesIO(file.content)
