"""How the comparison of storage tools puts what it read into words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.storage_outcome import Facts, Run, classify, parse

EMPTY = parse("drive S0 aaaa /dev/nvme0n1\ndrive S1 bbbb /dev/nvme1n1\nfiles f0\n")
MADE = parse(
    "drive S0 mounted /dev/nvme0n1\ndrive S1 mounted /dev/nvme1n1\narray md0 running raid0 u1 nvme1n1 nvme0n1\n"
    "recorded u1\nfiles f1\nmounted md0\nnamed md0\n"
)
CUSTOMER = replace(EMPTY, data="d0")
DONE, FAILED = Run(0, 1.0), Run(2, 1.0, ("mdadm: cannot open /dev/nvme1n1", "more"))


@pytest.mark.parametrize(
    ("before", "after", "run", "expected"),
    [
        (EMPTY, MADE, DONE, "finishes"),
        (MADE, MADE, DONE, "nothing changed"),
        (replace(MADE, data="d0"), replace(MADE, data="d0"), DONE, "nothing changed, data kept"),
        (EMPTY, EMPTY, DONE, "says done, nothing is mounted"),
        (EMPTY, replace(MADE, mounted="nvme1n1"), DONE, "says done, something else is mounted"),
        (EMPTY, replace(MADE, nodes={"S0": "nvme0n1", "S1": "nvme7n1"}), DONE, "says done, something else is mounted"),
        (EMPTY, replace(MADE, recorded=()), DONE, "finishes, array not recorded in mdadm.conf"),
        (EMPTY, replace(MADE, recorded=("old", "u1")), DONE, "finishes, stale ARRAY line stays"),
        (EMPTY, replace(MADE, recorded=("u1", "u1")), DONE, "finishes, recorded twice"),
        (EMPTY, replace(MADE, named=""), DONE, "finishes, under another name"),
        (CUSTOMER, MADE, DONE, "builds an array over the customer's data, says done"),
        (CUSTOMER, replace(MADE, data="d0"), DONE, "builds an array over the customer's data, says done"),
        (replace(MADE, data="d0"), MADE, FAILED, "the customer's data cannot be read any more, then fails"),
        (CUSTOMER, EMPTY, Run(2, 1.0), "refuses, nothing changed"),
        (CUSTOMER, CUSTOMER, FAILED, "refuses, names the drive, nothing changed"),
        (CUSTOMER, CUSTOMER, Run(2, 1.0, ("no",)), "refuses, nothing changed"),
        (
            CUSTOMER,
            replace(CUSTOMER, content={"S0": "cccc", "S1": "bbbb"}),
            FAILED,
            "stops half-way (writes to S0), data kept",
        ),
        (EMPTY, replace(EMPTY, arrays=MADE.arrays, files="f2"), FAILED, None),
    ],
)
def test_the_outcome_follows_from_what_was_read(before: Facts, after: Facts, run: Run, expected: str | None) -> None:
    found = classify(before, after, run, serials=("S0", "S1"), culprit="S1")
    assert found == (expected or "stops half-way (other arrays than before, fstab, mdadm.conf or unit altered)")


def test_a_missing_drive_is_named_by_its_serial_only() -> None:
    gone = replace(EMPTY, nodes={"S0": "nvme0n1", "S1": ""})
    words = Run(2, 1.0, ("disk nvme-S1 is missing",))
    assert classify(gone, gone, words, serials=("S0", "S1"), culprit="S1").startswith("refuses, names the drive")
    assert classify(gone, gone, FAILED, serials=("S0", "S1"), culprit="S1") == "refuses, nothing changed"


def test_a_line_that_is_no_fact_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a fact: mkfs: done"):
        parse("mkfs: done")
