"""Plan and inventory of 1, 16, 128 and 1,024 machines, each in a process of its own; `ansible-inventory` beside.

python -m benchmarks.plan_fleet [--runs RUNS] [--date DATE --page FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNTS = (1, 16, 128, 1024)
LIMIT_S, LIMIT_MB = 5.0, 500
_COLUMNS = (
    *("machines", "plan s", "plan.json s", "inventory s", "process s", "CPU s", "peak MB", "plan.json kB"),
    *("ansible-inventory s", "its CPU s", "its MB"),
)
_CHILD = """
import json, resource, sys, time
from pathlib import Path
from llmhw_provision.cli.plan import make_plan
from llmhw_provision.documents import dump_json, write_atomic
from llmhw_provision.inventory import write_inventory
folder, parts = Path(sys.argv[1]), {}
def timed(name, work):
    start = time.perf_counter()
    found = work()
    parts[name] = time.perf_counter() - start
    return found
plan = timed("plan", lambda: make_plan(folder))
timed("plan.json", lambda: write_atomic(folder / "plan.json", dump_json(plan)))
timed("inventory", lambda: write_inventory(plan, folder / "inventory"))
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({**parts, "cpu": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1000}))
"""


@dataclass(frozen=True)
class Taken:
    """One number of machines: medians in seconds, peak in MB, the file in bytes."""

    count: int
    parts: dict[str, float]
    whole: float
    cpu: float
    peak_mb: float
    plan_bytes: int
    ansible_s: float
    ansible_cpu: float
    ansible_mb: float


def site(folder: Path, count: int) -> Path:
    """A site of `count` AlphaPro660 beside the controller and login node of the committed cluster."""
    shutil.copytree(ROOT / "inventories" / "cluster", folder, ignore=shutil.ignore_patterns("inventory", "plan.json"))
    text = (folder / "site.yaml").read_text(encoding="utf-8")
    last = f"10.0.{count // 256}.{count % 256}"
    addresses = f"10.0.0.1-{last}" if count > 1 else last
    name = f"ap660-[0001-{count:04d}]" if count > 1 else "ap660-0001"
    old = 'name: "ap660-[01-04]", address: "192.0.2.[11-14]"'
    if old not in text:
        raise SystemExit(f"{folder / 'site.yaml'} has no {old}")
    text = text.replace(old, f'name: "{name}", address: "{addresses}"')
    (folder / "site.yaml").write_text(text, encoding="utf-8")
    work = (folder / "workload.yaml").read_text(encoding="utf-8").replace("llama-3.1-70b", "llama-3.1-8b")
    (folder / "workload.yaml").write_text(work.replace("batch: 1024", "batch: 8192"), encoding="utf-8")
    return folder


def _child(command: list[str]) -> tuple[str, float, float]:
    """Output of one process, its CPU seconds, and its seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, cpu, time.perf_counter() - start


def measure(count: int, often: int) -> Taken:
    """Medians of `often` runs for `count` machines."""
    with tempfile.TemporaryDirectory() as name:
        folder = site(Path(name) / "site", count)
        runs = []
        for _ in range(often):
            shutil.rmtree(folder / "inventory", ignore_errors=True)
            said, _, seconds = _child([sys.executable, "-c", _CHILD, str(folder)])
            runs.append({**json.loads(said), "whole": seconds})
        size = (folder / "plan.json").stat().st_size
        ansible = [_ansible(folder) for _ in range(often)]
    middle: Callable[[str], float] = lambda key: statistics.median(run[key] for run in runs)  # noqa: E731
    parts = {key: middle(key) for key in ("plan", "plan.json", "inventory")}
    return Taken(
        *(count, parts, middle("whole"), middle("cpu"), max(run["mb"] for run in runs), size),
        *(statistics.median(item[part] for item in ansible) for part in range(3)),
    )


def _ansible(folder: Path) -> tuple[float, float, float]:
    tool = Path(sys.executable).with_name("ansible-inventory")
    report = folder.parent / "time"
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[2:], check=True, stdout=subprocess.DEVNULL); "
        "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000))"
    )
    listing = [str(tool), "-i", str(folder / "inventory" / "hosts.yml"), "--list", "--export"]
    os.environ.setdefault("ANSIBLE_LOCAL_TEMP", str(folder.parent / "tmp"))
    _, cpu, seconds = _child([sys.executable, "-c", code, str(report), *listing])
    return seconds, cpu, float(report.read_text())


def page(found: list[Taken], date: str, often: int) -> str:
    """The page of measurements."""
    rows = [
        f"| {item.count:,} | {item.parts['plan']:.2f} | {item.parts['plan.json']:.2f} | {item.parts['inventory']:.2f} "
        f"| {item.whole:.2f} | {item.cpu:.2f} | {item.peak_mb:.0f} | {item.plan_bytes / 1000:,.0f} "
        f"| {item.ansible_s:.2f} | {item.ansible_cpu:.2f} | {item.ansible_mb:.0f} |"
        for item in found
    ]
    small, large = found[-2], found[-1]
    per = (large.cpu - small.cpu) / (large.count - small.count) * 1000
    earlier = (small.cpu - found[0].cpu) / (small.count - found[0].count) * 1000
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"""# Plan and inventory of a fleet

Measured {date} on {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, at idle priority
beside other work, with

    python -m benchmarks.plan_fleet --runs {often} --date DATE --page THIS_FILE

AlphaPro660 with eight GPUs each, a controller and a login node beside them (`inventories/cluster`, its range of nodes
made longer): versions, storage, rails, Slurm's files, `plan.json`, and the inventory with one file per host, each
written through a temporary name and synced. Every run is a process of its own; runs per row: {often} (medians). Elapsed
seconds contain waiting for the other work, CPU seconds do not: the limit is held against CPU seconds.

| {" | ".join(_COLUMNS)} |
|{"---|" * len(_COLUMNS)}
{chr(10).join(rows)}

{large.count:,} machines: {large.cpu:.2f} CPU seconds (limit {LIMIT_S:.0f}), {large.peak_mb:.0f} MB (limit {LIMIT_MB}).
Each further machine costs {per:.1f} ms beyond {small.count}, and {earlier:.1f} ms up to there: the cost is linear.

`ansible-inventory` is asked with `--export`, which leaves variables with their groups. Without it `--list` copies every
variable of a group into each host, the site's lines of /etc/hosts too, which is hosts × hosts: at 1,024 machines it had
taken 27 CPU seconds and 877 MB when it was stopped.

Machines of one kind are thought about once (`plan/alike.py`), and what they share stands in `plan.json` once
(`plan/profiles.py`). Before that a machine cost about 200 ms, most of it the search for a layout, and 24 kB.
"""


def main() -> int:
    """Measures, prints or writes the page; exit 1 when a limit is passed or the cost is not linear."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--date", default="(no date)")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    found = [measure(count, given.runs) for count in COUNTS]
    text = page(found, given.date, given.runs)
    if given.page:
        given.page.write_text(text, encoding="utf-8")
    else:
        print(text)
    small, large = found[-2], found[-1]
    linear = large.cpu <= 1.3 * small.cpu * large.count / small.count
    return 0 if linear and large.cpu <= LIMIT_S and large.peak_mb <= LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
