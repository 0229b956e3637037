"""evidence/<host>.json: what one host said, kept without loss and replayable."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Literal

from pydantic import Field

from llmhw_provision.documents import Record, dump_json, write_atomic
from llmhw_provision.documents import read as read_document
from llmhw_provision.evidence import Evidence, Origin, Result


class _Saved(Record):
    key: str
    argv: tuple[str, ...]
    rc: int
    seconds: float
    stdout: str
    stderr: str
    encoding: Literal["utf-8", "base64"]


class EvidenceFile(Record):
    """evidence/<host>.json."""

    format: Literal[1] = Field(alias="schema")
    host: str
    origin: Origin
    read_at: str
    problem: str = ""
    hint: str = ""
    results: tuple[_Saved, ...]


def save(evidence: Evidence, path: Path) -> None:
    """Writes `evidence` to `path`; `load` gives the same value back."""
    saved = tuple(_saved(key, result) for key, result in evidence.results.items())
    about = {name: getattr(evidence, name) for name in ("host", "origin", "read_at", "problem", "hint")}
    write_atomic(path, dump_json(EvidenceFile(schema=1, results=saved, **about)))


def load(path: Path) -> Evidence:
    """The evidence in the file at `path`; raises InputError when it cannot be read."""
    file = read_document(path, EvidenceFile)
    results = {item.key: _loaded(item) for item in file.results}
    return Evidence(file.host, file.origin, results, file.read_at, file.problem, file.hint)


def _saved(key: str, result: Result) -> _Saved:
    encoding: Literal["utf-8", "base64"] = "utf-8"
    try:
        out, err = result.stdout.decode(), result.stderr.decode()
        if "\0" in out + err:
            raise UnicodeError
    except UnicodeError:
        encoding = "base64"
        out, err = base64.b64encode(result.stdout).decode(), base64.b64encode(result.stderr).decode()
    return _Saved(
        key=key, argv=result.argv, rc=result.rc, seconds=result.seconds, stdout=out, stderr=err, encoding=encoding
    )


def _loaded(item: _Saved) -> Result:
    raw = base64.b64decode if item.encoding == "base64" else str.encode
    return Result(item.rc, raw(item.stdout), raw(item.stderr), item.seconds, item.argv)
