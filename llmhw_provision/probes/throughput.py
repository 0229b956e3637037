"""Our own measurement of a host's GPUs (on_host/bench): how it is started, how far it is, and what it found.

It runs in a unit of its own, since a session that breaks would orphan it; its result is a file that is read later.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.on_host.bench import formulas
from llmhw_provision.probes.reading import json_object, lines, number, output, rows, table, unreadable, whole

KEY, START, STATE, STOP = "throughput", "throughput-start", "throughput-state", "throughput-stop"
UNIT = "llmhw-bench.service"
_FOLDER = "/run/llmhw/bench"
_SOURCES = Path(__file__).resolve().parents[1] / "on_host/bench"
_MAIN = "import sys\nfrom bench.main import main\nsys.exit(main(sys.argv[1:]))\n"
_SPARE_S = 60  # the program ends by itself before the unit's limit
_START = f"""set -e
if systemctl is-active --quiet {UNIT}; then echo "a measurement is running already" >&2; exit 1; fi
rm -rf {_FOLDER}
[ -x "$1" ] || {{ echo "$1 is not there" >&2; exit 1; }}
mkdir -p {_FOLDER}; chmod 700 {_FOLDER}
printf %s "$2" | base64 -d > {_FOLDER}/bench.pyz
exec systemd-run --quiet --collect --unit={UNIT} -p RuntimeMaxSec="$4" -p ProtectSystem=strict -p ProtectHome=yes \\
 -p ReadWritePaths={_FOLDER} -p PrivateTmp=yes -p NoNewPrivileges=yes -p LimitMEMLOCK=infinity \\
 --setenv=HOME=/nonexistent -- "$1" -I -B {_FOLDER}/bench.pyz {_FOLDER}/result.json "$3" """
_STATE = f"systemctl show {UNIT} -p ActiveState --value; cat {_FOLDER}/result.step 2>/dev/null; true"
_RESULT = f"""cat {_FOLDER}/result.json 2>/dev/null && exit 0
journalctl -u {UNIT} -n 1 -o cat --no-pager 2>/dev/null >&2; echo "there is no result of a measurement" >&2; exit 1"""
RESULT = Command(KEY, ("sh", "-c", _RESULT), 15)
ASK_STATE = Command(STATE, ("sh", "-c", _STATE), 15)
END = Command(STOP, ("systemctl", "stop", UNIT), 30)
_TOOL = "throughput"
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Collective:
    """One collective of one size in one run; GB/s as nccl-tests counts them."""

    run: str
    name: str
    ranks: int
    asked: int
    bytes: int
    busbw: float
    wrong: int


@dataclass(frozen=True)
class Left:
    """What was asked and not measured, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class Copy:
    """A copy to or from the host, or within a GPU's memory (`kind`), in GB/s; the PCIe generation while it ran."""

    kind: str
    gpu: int
    gbs: float
    generation: int | None


@dataclass(frozen=True)
class Pair:
    """Copies from one GPU to another in GB/s, alone and together with the way back (asked once for each two)."""

    first: int
    second: int
    peer: bool
    gbs: float
    both: float | None
    equal: bool


@dataclass(frozen=True)
class Product:
    """Products of matrices on one GPU; what nvidia-smi said while they ran."""

    gpu: int
    dtype: str
    kind: str
    shape: tuple[int, ...]
    tflops: float
    load: Mapping[str, float]


@dataclass(frozen=True)
class Sum:
    """What the seeded computation ended with on one GPU, and whether each repetition ended the same."""

    gpu: int
    sha256: str
    stable: bool


@dataclass(frozen=True)
class Measured:
    """One document."""

    device: str
    began: str
    versions: str
    gpus: tuple[str, ...]
    collectives: tuple[Collective, ...]
    copies: tuple[Copy, ...]
    pairs: tuple[Pair, ...]
    products: tuple[Product, ...]
    sums: tuple[Sum, ...]
    left: tuple[Left, ...]
    errors: tuple[str, ...]


def program() -> bytes:
    """The program as a zip file that Python runs; the same bytes each time."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_SOURCES.glob("*.py")):
            archive.writestr(_entry(f"bench/{path.name}"), path.read_bytes())
        archive.writestr(_entry("__main__.py"), _MAIN)
    return stream.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name)
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


def start_command(python: str, request: Mapping[str, Any]) -> Command:
    """Starts the measurement with this Python, unless one is running; an earlier result is gone then."""
    packed = base64.b64encode(program()).decode()
    limit = str(int(request["seconds"]) + _SPARE_S)
    asked = json.dumps(request, separators=(",", ":"), sort_keys=True)
    return Command(START, ("sh", "-c", _START, "sh", python, packed, asked, limit), 60)


def state(evidence: Evidence) -> tuple[bool, str]:
    """Whether the measurement still runs, and at which part it is."""
    said = lines("systemctl", output(evidence, STATE))
    if not said or not said[0].isalpha():
        raise unreadable("systemctl", said[0] if said else "", "no state of a unit")
    return said[0] in ("active", "activating", "reloading", "deactivating"), said[1] if len(said) > 1 else ""


def parse(raw: bytes) -> Measured:
    """The document; raises ProbeError where something lacks, has no sense, or contradicts itself."""
    root = json_object(_TOOL, raw)
    if root.get("format") != 1:
        raise unreadable(_TOOL, str(root.get("format")), "not a format that is known here")
    gpus = tuple(_text(row, "name") for row in rows(root.get("gpus"), _TOOL, "gpus"))
    errors = root.get("errors")
    if not isinstance(errors, list) or not all(isinstance(one, str) for one in errors):
        raise unreadable(_TOOL, str(errors), "errors")
    left: list[Left] = []
    collectives = [_collective(row, left) for row in rows(root.get("collectives"), _TOOL, "collectives")]
    products = [_product(row, left) for row in rows(root.get("products"), _TOOL, "products")]
    names = [("torch", root.get("torch")), ("CUDA", root.get("cuda")), ("NCCL", root.get("nccl"))]
    return Measured(
        device=_text(root, "device"),
        began=_text(root, "began"),
        versions=", ".join(f"{name} {value}" for name, value in names if value),
        gpus=gpus,
        collectives=tuple(one for one in collectives if one),
        copies=tuple(_copy(row) for row in rows(root.get("copies"), _TOOL, "copies")),
        pairs=tuple(_pair(row) for row in rows(root.get("pairs"), _TOOL, "pairs")),
        products=tuple(one for one in products if one),
        sums=tuple(_sum(row) for row in rows(root.get("sums"), _TOOL, "sums")),
        left=tuple(left),
        errors=tuple(errors),
    )


def moment(text: str) -> datetime:
    """A time such as 2026-11-30T22:00:00Z."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise unreadable(_TOOL, text, "not a time") from None


def measured(evidence: Evidence) -> Measured:
    """What the last measurement on the host found."""
    return parse(output(evidence, KEY))


def _left(row: Mapping[str, Any], what: str, left: list[Left]) -> bool:
    why = row.get("unsupported") or row.get("skipped")
    if why is None:
        return False
    left.append(Left(what, str(why)))
    return True


def _collective(row: dict[str, Any], left: list[Left]) -> Collective | None:
    run, name, asked = _text(row, "run"), _text(row, "name"), whole(_TOOL, row.get("asked"), "asked")
    if name not in formulas.COLLECTIVES:
        raise unreadable(_TOOL, name, "not a collective")
    if _left(row, f"{name} of {asked} bytes", left):
        return None
    ranks, nbytes = whole(_TOOL, row.get("ranks"), "ranks"), whole(_TOOL, row.get("bytes"), "bytes")
    seconds = table(row.get("seconds"), _TOOL, "seconds")
    least, mean, most = (_positive(seconds, key) for key in ("min", "avg", "max"))
    busbw = _positive(row, "busbw")
    if ranks < 2 or not asked * 0.9 <= nbytes <= asked or least > most:
        raise unreadable(_TOOL, f"{name}: {ranks} ranks, {nbytes} of {asked} bytes", "no sense")
    if abs(formulas.busbw(name, nbytes, mean, ranks) - busbw) > _TOLERANCE * busbw:
        raise unreadable(_TOOL, f"{name}: {busbw} GB/s", "does not follow from size and time")
    return Collective(run, name, ranks, asked, nbytes, busbw, whole(_TOOL, row.get("wrong"), "wrong"))


def _copy(row: dict[str, Any]) -> Copy:
    generation = _load(row).get("pcie_generation")
    return Copy(
        _text(row, "kind"), _gpu(row, "gpu"), _positive(row, "gbs"), None if generation is None else int(generation)
    )


def _pair(row: dict[str, Any]) -> Pair:
    both = None if row.get("both_gbs") is None else _positive(row, "both_gbs")
    ends = _gpu(row, "from"), _gpu(row, "to")
    return Pair(*ends, _flag(row, "peer"), _positive(row, "gbs"), both, _flag(row, "equal"))


def _product(row: dict[str, Any], left: list[Left]) -> Product | None:
    gpu, dtype = _gpu(row, "gpu"), _text(row, "dtype")
    if _left(row, f"{dtype} product on GPU{gpu}", left):
        return None
    shape = row.get("shape")
    if not isinstance(shape, list) or len(shape) != 3:
        raise unreadable(_TOOL, str(shape), "not a shape")
    sides = tuple(whole(_TOOL, side, "shape") for side in shape)
    return Product(gpu, dtype, _text(row, "kind"), sides, _positive(row, "tflops"), _load(row))


def _sum(row: dict[str, Any]) -> Sum:
    found = _text(row, "sha256")
    if len(found) != 64:
        raise unreadable(_TOOL, found, "not a SHA-256")
    return Sum(_gpu(row, "gpu"), found, _flag(row, "stable"))


def _load(row: Mapping[str, Any]) -> dict[str, float]:
    found = table(row.get("load", {}), _TOOL, "load")
    return {str(name): number(_TOOL, value, str(name)) for name, value in found.items()}


def _gpu(row: Mapping[str, Any], key: str) -> int:
    return whole(_TOOL, row.get(key), key)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise unreadable(_TOOL, f"{key} {value!r}", "not a text")
    return value


def _flag(row: Mapping[str, Any], key: str) -> bool:
    value = row.get(key)
    if not isinstance(value, bool):
        raise unreadable(_TOOL, f"{key} {value!r}", "neither true nor false")
    return value


def _positive(row: Mapping[str, Any], key: str) -> float:
    value = number(_TOOL, row.get(key), key)
    if value <= 0:
        raise unreadable(_TOOL, f"{key} {value!r}", "not above zero")
    return value
