"""Start-up: `--help` beside `python -c "import click"`, `plan` (limit 0.6 s) and `size` (0.5 s) as whole processes."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import HEADER, interleaved

ROOT = Path(__file__).resolve().parents[1]
LIMITS_S = {"plan": 0.6, "size": 0.5}


def main() -> int:
    """Prints the table; exit 1 when `plan` or `size` takes longer than its limit."""
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
    late = 0
    for verb, limit in LIMITS_S.items():
        found = next(sample for sample in samples if sample.name.endswith(verb))
        print(f"\n{verb}: median {found.median:.3f} s, limit {limit} s")
        late += found.median > limit
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main())
