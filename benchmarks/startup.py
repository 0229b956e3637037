"""Start-up: `--help` beside `python -c "import click"`, and `plan` as a whole process (limit 0.6 s)."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import HEADER, interleaved

ROOT = Path(__file__).resolve().parents[1]
PLAN_LIMIT_S = 0.6


def main() -> int:
    """Prints the table; exit 1 when `plan` takes longer than its limit."""
    tool = str(Path(sys.executable).with_name("llmhw-provision"))
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        shutil.copytree(ROOT / "inventories/alphapro660", site)
        samples = interleaved(
            {
                "python -c 'import click'": [sys.executable, "-c", "import click"],
                "llmhw-provision --help": [tool, "--help"],
                "llmhw-provision plan": [tool, "plan", "--site", str(site)],
                "llmhw-provision size": [tool, "size", "--site", str(site)],
            },
            runs=11,
        )
    print(HEADER)
    for sample in samples:
        print(sample.row())
    plan = next(sample for sample in samples if sample.name.endswith("plan"))
    print(f"\nplan: median {plan.median:.3f} s, limit {PLAN_LIMIT_S} s")
    return int(plan.median > PLAN_LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
