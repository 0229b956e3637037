"""nccl-tests: the table of sizes with time and bandwidth, in every layout since 2019, behind any launcher's prefix.

Columns are found by the heading line (an `error` column before 2.13, then `#wrong` and root, later #iters,
per-iteration columns, timestamps). "Avg bus bandwidth" hangs on the sizes chosen: judge busbw at one large size.
Without the line "Out of bounds values" the run did not end.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.kinds import Typical
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import screen, shows

_TOOL = "nccl-tests"
_TYPES = r"(?:u?int(?:8|32|64)?|char|half|float|double|bfloat16|b?float8|fp8_e4m3|fp8_e5m2|f8e4m3|f8e5m2)"
_TAG = re.compile(r"\[\d+\](?!\s*NCCL)")
_ROW = re.compile(rf"(?:^|[\s:>|#])(\d+\s+\d+\s+{_TYPES}\s.*)$")
_HEAD = re.compile(r"\bsize\s+count\s+type\b.*\bbusbw\b.*$")
_PREFIX = re.compile(r"^\s*(\d+:|\[\d+,\d+\](?:<std(?:out|err)>:?)?|\[\d+\]|[\w.-]+:)(?=\s*#|\s+\d+\s+\d+\s)")
_SETUP = re.compile(r"nThread (\d+) nGpus (\d+) minBytes (\d+) maxBytes (\d+) step: (\d+)\((factor|bytes)\)")
_RANK = re.compile(r"\bRank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+\d+ \[\S+\] (.+)$")
_REDUCED = re.compile(r"Reducing maxBytes to (\d+) due to memory limitation")
_BOUNDS = re.compile(r"Out of bounds values\s*: (\d+) (OK|FAILED)\s*$")
_AVERAGE = re.compile(r"Avg bus bandwidth\s*: ([\d.e+-]+)(?: (OK|FAILED))?\s*$")
_NAME = re.compile(r"Collective test (?:starting|concluded): (\w+?)(?:_perf)?\s*$")
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "cuda_802_system_not_ready",
        re.compile(r"Test CUDA failure .*'system not yet initialized'|code=802|SystemNotReady"),
    ),
    ("cuda_failure", re.compile(r"Test CUDA failure ")),
    ("nccl_failure", re.compile(r"Test NCCL failure ")),
    ("invalid_gpu_count", re.compile(r"Invalid number of GPUs: ")),
    ("nccl_error", re.compile(r"^(?:\S+: ?)?# error: \S")),
    ("incompatible_nccl", re.compile(r"Incompatible NCCL versions\. ")),
    ("timeout", re.compile(r"DUE TO TIME LIMIT|Test timeout \(", re.I)),
)
_COLLAPSE = 0.5  # busbw at a larger size below this part of the best before: a fallback path, not noise
_LARGE = 1 << 25
_SINGLE = "busbw is 0 for a single rank"


def all_reduce(gpus: int) -> Command:
    """all_reduce_perf over `gpus` GPUs of one host at 8 and 16 GiB: below 1 GiB the curve is not saturated."""
    return Command("nccl-all-reduce", ("all_reduce_perf", "-b", "8G", "-e", "16G", "-f", "2", "-g", str(gpus)), 300)


@dataclass(frozen=True)
class Row:
    """One size: bus bandwidth in GB/s out of place and in place (None: not measured), wrong ("N/A": unchecked)."""

    size: int
    count: int
    redop: str
    root: str
    algbw: tuple[float | None, float | None]
    busbw: tuple[float | None, float | None]
    wrong: tuple[str, str]


@dataclass
class Run:
    """One run. `ended` is true when its closing lines are there; `cut` when the last line is no whole line."""

    rows: list[Row] = field(default_factory=list)
    ranks: list[tuple[int, str, str]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    fields: int = 0
    setup: tuple[int, ...] = ()
    reduced: int = 0
    name: str = ""
    prefix: str = ""
    nccl: str = ""
    bounds: tuple[int, str] | None = None
    average: float | None = None
    average_said: str = ""
    error: str = ""
    cut: bool = False
    elided: bool = False
    no_operator: bool = False

    @property
    def ended(self) -> bool:
        """Whether all sizes that were asked for are there, and the closing lines."""
        if self.bounds is None or self.average is None:
            return False
        if not self.setup:
            return True
        last, asked, step = self.rows[-1].size, self.reduced or self.setup[3], self.setup[4]
        return last * max(step, 2) > asked if self.setup[5] else last + max(step, 1) > asked


def parse(raw: bytes) -> Run:
    """The run; raises ProbeError when there is neither a row nor a known error, or a row does not fit the heading."""
    run = Run(cut=not raw.endswith(b"\n"))
    whole = raw if not run.cut else raw[: raw.rfind(b"\n") + 1]
    for line in screen(_TOOL, whole):
        _take(run, line)
    if run.cut and not run.error:
        tail = raw[len(whole) :].decode("utf-8", "replace")
        run.error = next((name for name, pattern in _ERRORS if pattern.search(tail)), "")
    if not run.rows and not run.error:
        raise unreadable(_TOOL, raw.decode("utf-8", "replace").strip()[-100:], "no row: cut off")
    return run


def _take(run: Run, line: str) -> None:
    prefix = _PREFIX.match(line)
    if prefix and not run.prefix:
        run.prefix = prefix[1]
    plain = _TAG.sub(" ", line)
    head, row, setup, rank = _HEAD.search(plain), _ROW.search(plain), _SETUP.search(plain), _RANK.search(plain)
    bounds, average, name, version = (
        _BOUNDS.search(plain),
        _AVERAGE.search(plain),
        _NAME.search(plain),
        _VERSION.search(plain),
    )
    if head:
        run.columns = head[0].split()
    elif row and not setup and not rank:
        run.rows.append(_row(run, row[1].split(), line))
    elif setup:
        run.setup = (*(int(number) for number in setup.groups()[:5]), int(setup[6] == "factor"))
    elif rank:
        run.ranks.append((int(rank[1]), rank[2], rank[3].strip()))
    elif bounds:
        run.bounds = (int(bounds[1]), bounds[2])
    elif average:
        run.average, run.average_said = _number(average[1], line), average[2] or ""
    elif name:
        run.name = name[1]
    elif version:
        run.nccl = version[1]
    elif reduced := _REDUCED.search(plain):
        run.reduced = int(reduced[1])
    elif plain.strip(" #") in ("...", "[...]", "…"):
        run.elided = True
    if not run.error:
        run.error = next((known for known, pattern in _ERRORS if pattern.search(plain)), "")


def _row(run: Run, words: list[str], line: str) -> Row:
    names = run.columns
    if not names:
        raise unreadable(_TOOL, line, "a row without a heading")
    if "redop" in names and len(words) > 3 and not words[3].isalpha():  # all-to-all leaves it blank
        names = [name for name in names if name != "redop"]
        run.no_operator = True
    width = len(names) + (1 if names[-1] == "timestamp" else 0)
    if "root" in names and not re.fullmatch(r"-?\d+", (words + [""] * len(names))[names.index("root")]):
        raise unreadable(_TOOL, line, "no root rank")
    if len(words) not in (width, width - 1):
        raise unreadable(_TOOL, line, f"{len(words)} fields under {len(names)} headings")
    run.fields = len(words)
    cells: dict[str, list[str]] = {}
    for name, word in zip(names, words, strict=False):
        cells.setdefault(name, []).append(word)
    wrong = cells.get("#wrong") or cells.get("error") or ["N/A"]
    if len(cells.get("busbw", [])) != 2 or len(cells.get("algbw", [])) != 2:
        raise unreadable(_TOOL, line, "no two busbw columns")
    for word in (*cells.get("time", []), *wrong):
        _number(word, line)
    first, second = ([_number(word, line) for word in cells[name]] for name in ("algbw", "busbw"))
    redop, root = cells.get("redop", [""])[0], cells.get("root", ["-1"])[0]
    return Row(
        int(words[0]), int(words[1]), redop, root, (first[0], first[1]), (second[0], second[1]), (wrong[0], wrong[-1])
    )


def _number(word: str, line: str) -> float | None:
    if word == "N/A":
        return None
    if not re.fullmatch(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", word):
        raise unreadable(_TOOL, line, f"{word} is no number")
    value = float(word)
    if not math.isfinite(value):
        raise unreadable(_TOOL, line, f"{word} is no number")
    return value


def collective(run: Run) -> str:
    """Which collective it was: by name, else by operator, root and the ratio of busbw to algbw (doc/PERFORMANCE.md)."""
    if run.name:
        return run.name
    last = run.rows[-1]
    alg, bus = last.algbw[0], last.busbw[0]
    if not alg or not bus:
        return ""
    ratio = bus / alg
    if last.root.isdecimal():
        return "broadcast" if last.redop in ("", "none") else "reduce"
    if last.redop not in ("", "none"):
        return "all_reduce" if ratio >= 0.99 else "reduce_scatter"
    if ratio > 0.995:
        return "sendrecv"
    return "alltoall" if run.no_operator or (last.wrong[1] == "N/A" and last.wrong[0] != "N/A") else "all_gather"


def collapse(run: Run) -> int | None:
    """The size at which bus bandwidth falls below half of what a smaller size reached; None when it does not."""
    best = 0.0
    for row in run.rows:
        value = row.busbw[0] or 0.0
        if row.size >= _LARGE and value < best * _COLLAPSE:
            return row.size
        best = max(best, value)
    return None


def verdict(run: Run) -> str:
    """pass, fail or `error: incomplete`: what the output alone shows, without a threshold."""
    wrong = any(word not in ("0", "N/A") for row in run.rows for word in row.wrong) and "#wrong" in run.columns
    failed = run.bounds is not None and run.bounds[1] == "FAILED"
    if run.error or failed or wrong or run.average_said == "FAILED" or separate(run) or collapse(run) is not None:
        return "fail"
    return "pass" if run.ended else "error: incomplete"


def separate(run: Run) -> bool:
    """Whether each process ran alone (tests built without MPI): rank 0 announced more than once."""
    numbers = [rank for rank, _, _ in run.ranks]
    return len(numbers) != len(set(numbers))


def run_facts(run: Run) -> dict[str, object]:
    """Facts of a run, whichever form it was read from."""
    facts: dict[str, object] = {"verdict": verdict(run)}
    if run.error:
        facts["error"] = run.error
    elif separate(run):
        facts["error"] = "ranks_not_joined"
    if run.ranks and not run.elided and {rank for rank, _, _ in run.ranks} == set(range(len(run.ranks))):
        facts["ranks"] = len({rank for rank, _, _ in run.ranks})
        facts["hosts"] = sorted({host for _, host, _ in run.ranks})
    if not run.rows:
        return facts | {"complete": False}
    last = run.rows[-1]
    facts |= {
        "complete": run.ended,
        "collective": collective(run),
        "prefix": run.prefix,
        "columns": len(run.columns),
    }
    facts |= {"fields_per_row": run.fields, "nccl": run.nccl, "last_size": last.size, "last_busbw_oop": last.busbw[0]}
    facts |= {
        "last_busbw_ip": last.busbw[1],
        "collapse_at": collapse(run),
        "busbw_about": Typical(last.busbw[0] or 0.0),
    }
    times = Counter(row.size for row in run.rows)
    for row in run.rows:
        for place, kind in enumerate(("oop", "ip")):
            if row.size and times[row.size] == 1:
                facts[f"busbw_{kind}_at_{row.size}"] = row.busbw[place]
                facts[f"algbw_{kind}_at_{row.size}"] = row.algbw[place]
    checked = [word for row in run.rows for word in row.wrong if word != "N/A"]
    facts["nwrong"] = (
        "N/A" if not checked else sum(int(float(word)) for word in checked) if "#wrong" in run.columns else None
    )
    if run.bounds is not None:
        facts |= {"oob": f"{run.bounds[0]} {run.bounds[1]}", "rows": len(run.rows), "avg_busbw": run.average}
        facts |= {"max_size": last.size, "busbw_oop_at_max": last.busbw[0], "busbw_ip_at_max": last.busbw[1]}
        facts["average_check"] = run.average_said or "unchecked"
    if facts.get("ranks") == 1 and not any(row.busbw[0] for row in run.rows):
        facts["note"] = _SINGLE
    return facts


def facts(raw: bytes) -> dict[str, object]:
    """Ranks, bus bandwidth by size, average, wrong values, whether it ended; errors; a verdict without thresholds."""
    return run_facts(parse(raw))


FORMATS: tuple[Format, ...] = (
    Format(
        "nccl-tests",
        shows(
            r"[^\n]*(?:\bsize +count +type\b[^\n]*\bbusbw\b|"
            r"nThread \d+ nGpus \d+ minBytes|Test (?:CUDA|NCCL) failure |Collective test starting: )"
        ),
        facts,
    ),
)
