"""Names of many hosts in one text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmhw_provision.hostlist import compress, expand

NAMES = st.sets(st.from_regex(r"[a-z]{1,3}(-[a-z])?[0-9]{0,3}", fullmatch=True), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node-01", ("node-01",)),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("n[1,3-4]-ib", ("n1-ib", "n3-ib", "n4-ib")),
        ("a,n[1-2],b7", ("a", "n1", "n2", "b7")),
    ],
)
def test_expand(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["n[2-1]", "n[100-1]", "n[]", "n[1-", "n]", "n[1]x[2]", "n[a-b]", "n[1-9999]"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"range|backward|more than"):
        expand(text)


def test_widths_stay_apart() -> None:
    assert compress(["n9", "n10", "n11", "n01", "login"]) == "n9,n[01,10-11],login"


@settings(max_examples=50, deadline=None)
@given(NAMES)
def test_compress_and_expand_give_the_names_back(names: set[str]) -> None:
    assert set(expand(compress(sorted(names)))) == names
    assert len(expand(compress(sorted(names)))) == len(names)
