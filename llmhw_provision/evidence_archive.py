"""One file that carries a machine's answers to another computer: NAME.evidence.tar.gz.

A gzip-compressed tar of manifest.json, first, and two files an answer. It is read as a stream, never unpacked: names
that are not ours, links, sizes beyond the limits and anything announced but missing refuse the whole file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from llmhw_provision import __version__
from llmhw_provision.documents import Record, check, dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.evidence import PATH, Evidence, Result

SUFFIX = ".evidence.tar.gz"
FORMAT = 1
LARGEST = 256 << 20  # bytes of everything in it, unpacked
_MOST_FILES = 4096
_MANIFEST, _MANIFEST_LIMIT = "manifest.json", 8 << 20
_NAME = re.compile(r"^answers/[0-9]{4}\.(?:out|err)$")
_MAGIC = b"\x1f\x8b"


class Stream(Record):
    """One stream of one answer."""

    file: str
    size: int
    sha256: str


class Answer(Record):
    """One command and what became of it."""

    key: str
    argv: tuple[str, ...]
    rc: int
    seconds: float
    stdout: Stream
    stderr: Stream


class Manifest(Record):
    """manifest.json."""

    format: Literal[1] = Field(alias="schema")
    tool: str = Field(description="version of llmhw-provision that read the machine")
    date: str = Field(description="UTC, when the answers had come")
    host: str = Field(description="the machine's name in the plan, else its own")
    own_name: str
    machine_id: str = Field(description="machine-id(5), application-specific form; empty when there is none")
    user: int = Field(description="number of the user who read; 0 is root")
    path: str = Field(description="folders that programs were looked up in, in this order; locale C")
    level: str
    plan: str = Field(description="identity of the plan whose questions were asked; empty without one")
    hidden: int = Field(description="credentials in addresses that were replaced before anything was kept")
    answers: tuple[Answer, ...]


def is_archive(path: Path) -> bool:
    """Whether the file at `path` begins as a gzip file does."""
    try:
        with path.open("rb") as file:
            return file.read(2) == _MAGIC
    except OSError:
        return False


def write(
    evidence: Evidence, path: Path, *, own_name: str, machine_id: str, level: str, plan: str, user: int
) -> Manifest:
    """Writes the archive under a temporary name, then moves it to `path`; the manifest it holds."""
    answers, files, hidden = [], {}, 0
    for number, (key, result) in enumerate(evidence.results.items()):
        streams = {}
        for kind, raw in (("out", result.stdout), ("err", result.stderr)):
            kept, count = without_credentials(raw)
            hidden += count
            name = f"answers/{number:04}.{kind}"
            files[name] = kept
            streams[kind] = Stream(file=name, size=len(kept), sha256=hashlib.sha256(kept).hexdigest())
        answers.append(
            Answer(
                key=key,
                argv=result.argv,
                rc=result.rc,
                seconds=result.seconds,
                stdout=streams["out"],
                stderr=streams["err"],
            )
        )
    manifest = Manifest(
        schema=1,
        tool=__version__,
        date=evidence.read_at,
        host=evidence.host,
        own_name=own_name,
        machine_id=machine_id,
        user=user,
        path=PATH,
        level=level,
        plan=plan,
        hidden=hidden,
        answers=tuple(answers),
    )
    _pack({_MANIFEST: dump_json(manifest).encode(), **files}, path, evidence.read_at)
    return manifest


# An address with a password in it: a proxy, a package source, a clone.
_CREDENTIALS = re.compile(rb"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")


def without_credentials(raw: bytes) -> tuple[bytes, int]:
    """`raw` with user and password of every address replaced by `***`, and how many there were."""
    return _CREDENTIALS.subn(b"***", raw)


def _pack(files: dict[str, bytes], path: Path, date: str) -> None:
    when = int(datetime.fromisoformat(date).timestamp())
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            with (
                gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=when) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
            ):
                for member, raw in files.items():
                    about = tarfile.TarInfo(member)
                    about.size, about.mtime, about.mode = len(raw), when, 0o600
                    tar.addfile(about, io.BytesIO(raw))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)  # mkstemp made it 0600: only its owner may read what a machine said
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(path: Path) -> tuple[Manifest, Evidence]:
    """What the archive at `path` holds; raises InputError when it is foreign, damaged, too new or too big."""
    with _refusals(path):
        members = _members(path)
        name, raw = next(members, ("", b""))
        if name != _MANIFEST:
            raise ValueError(f"begins with {name or 'nothing'!r} instead of {_MANIFEST}")
        manifest = _manifest(path, raw)
        files = dict(members)
        results = {answer.key: _result(answer, files) for answer in manifest.answers}
        if len(files) != 2 * len(manifest.answers) or len(results) != len(manifest.answers):
            raise ValueError(f"{len(files)} files for {len(manifest.answers)} answers")
    return manifest, Evidence(manifest.host, "machine", results, manifest.date)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    hint = f"an archive of llmhw-provision collect ends in {SUFFIX}; copy it again, or collect again"
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", hint) from None
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError) as error:
        why = str(error).partition("\n")[0][:160] or type(error).__name__
        raise InputError(f"{path}: not an evidence archive, or damaged: {why}", hint) from None


class _Limited(io.RawIOBase):
    """Reads on from `file` until `LARGEST` bytes have come out of it: a small file may unpack to any size."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file, self._left = file, LARGEST

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            raise ValueError(f"unpacks to more than {LARGEST >> 20} MiB")
        raw = self._file.read(size)
        self._left -= len(raw)
        return raw


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    seen: set[str] = set()
    with gzip.open(path, "rb") as packed, tarfile.open(fileobj=_Limited(packed), mode="r|") as tar:
        for member in tar:
            name = member.name
            if not member.isreg() or (name != _MANIFEST and not _NAME.match(name)):
                raise ValueError(f"holds {name[:80]!r}, which is none of ours")
            if name in seen or len(seen) >= _MOST_FILES:
                raise ValueError(f"holds {name!r} twice" if name in seen else "holds too many files")
            if name == _MANIFEST and member.size > _MANIFEST_LIMIT:
                raise ValueError(f"its {_MANIFEST} has {member.size} bytes")
            seen.add(name)
            file = tar.extractfile(member)
            raw = file.read() if file else b""
            if len(raw) != member.size:
                raise ValueError(f"{name} is cut off")
            yield name, raw
        while packed.read(1 << 20):  # to its end: only there gzip compares its checksum
            pass


def _manifest(path: Path, raw: bytes) -> Manifest:
    try:
        data = json.loads(raw)
    except RecursionError:
        raise ValueError(f"{_MANIFEST} is nested too deeply") from None
    made = data.get("schema") if isinstance(data, dict) else None
    if isinstance(made, int) and made > FORMAT:
        raise InputError(
            f"{path}: archive format {made}, made by llmhw-provision {str(data.get('tool', '?'))[:20]}; "
            f"this is {__version__}, which reads format {FORMAT}",
            "judge it with that version or a newer one",
        )
    try:
        return check(data, Manifest, path=Path(_MANIFEST))
    except InputError as error:
        raise ValueError(error.problems[0].message) from None


def _result(answer: Answer, files: dict[str, bytes]) -> Result:
    raws = []
    for stream in (answer.stdout, answer.stderr):
        raw = files.get(stream.file)
        if raw is None or len(raw) != stream.size or hashlib.sha256(raw).hexdigest() != stream.sha256:
            raise ValueError(f"{stream.file} is missing or altered")
        raws.append(raw)
    return Result(answer.rc, raws[0], raws[1], answer.seconds, answer.argv)
