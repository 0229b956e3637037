"""How many recorded outputs the probes read as expected: `python -m llmhw_provision.probes.score INDEX.yaml --json`.

A probe is given the bytes of a sample and nothing else. `unsupported`: no probe knows the form, it cannot be read, or
an expected fact is not produced; `mismatch`: a fact is produced with another value.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import click
import yaml

from llmhw_provision.errors import InputError, ProvisionError
from llmhw_provision.probes.kinds import Typical
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of

_REMARK = r"(?: \(|: | all )"
WHOLE = frozenset({"bad", "inactive", "nonzero"})


def score(index: Path) -> list[dict[str, Any]]:
    """One row a sample: file, verdict, got, expected. Raises InputError when the index or a sample cannot be read."""
    try:
        document = yaml.safe_load(index.read_text())
        entries = [(str(item["file"]), item.get("expect") or {}) for item in document["samples"]]
        raws = [(index.parent / file).read_bytes() for file, _ in entries]
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{index}: not a list of samples: {error}") from None
    return [judge(file, raw, expected) for (file, expected), raw in zip(entries, raws, strict=True)]


def judge(file: str, raw: bytes, expected: dict[str, Any]) -> dict[str, Any]:
    """The row of one sample."""
    try:
        facts = facts_of(raw)
    except ProbeError as error:
        return {"file": file, "verdict": "unsupported", "got": {"unread": str(error)}, "expected": expected}
    got = {key: plain(asked(facts[key], value, whole=key in WHOLE)) for key, value in expected.items() if key in facts}
    verdict = "match" if len(got) == len(expected) else "unsupported"
    if any(not same(value, expected[key]) for key, value in got.items()):
        verdict = "mismatch"
    return {"file": file, "verdict": verdict, "got": got, "expected": expected}


def plain(value: object) -> Any:
    """`value` as JSON has it: tuples and sets as lists, keys as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def asked(got: Any, expected: Any, *, whole: bool = False) -> Any:
    """A fact in the terms it is asked for: of a list its length where a count is expected, of a table the rows named.

    Of a set the members named, a typical value as it is spoken, and a text with the remark that follows it in the
    question: "pass (>= 460 at 16 GiB)". `whole` tables are kept: one fault too many would be a false alarm.
    """
    count = isinstance(expected, int) and not isinstance(expected, bool)
    if count and isinstance(got, list | tuple | dict):
        return len(got)
    if count and isinstance(got, Typical) and got.spoken(expected):
        return expected
    if isinstance(expected, list) and isinstance(got, frozenset):
        return [item for item in expected if item in got]
    if isinstance(expected, dict) and isinstance(got, dict) and not whole:
        named = {str(key): value for key, value in got.items()}
        return {str(key): asked(named[str(key)], value) for key, value in expected.items() if str(key) in named}
    if isinstance(expected, str) and isinstance(got, str) and got and re.match(rf"{re.escape(got)}{_REMARK}", expected):
        return expected
    return got


def same(got: Any, expected: Any) -> bool:
    """Whether a fact has the expected value; true is not 1, and numbers agree to nine digits."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return got is expected
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(expected, list) and isinstance(got, list):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, dict) and isinstance(got, dict):
        wanted = {str(key): value for key, value in expected.items()}
        return got.keys() == wanted.keys() and all(same(got[key], wanted[key]) for key in wanted)
    return type(got) is type(expected) and got == expected


@click.command()
@click.argument("index", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON.")
def main(index: Path, as_json: bool) -> None:
    """Print which samples of INDEX the probes read as expected."""
    try:
        rows = score(index)
    except ProvisionError as error:
        for problem in error.problems:
            click.echo(f"error: {problem.message}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps({"samples": rows}, indent=2, ensure_ascii=False))
        return
    for row in rows:
        click.echo(f"{row['verdict']:12} {row['file']}")


if __name__ == "__main__":
    main()
