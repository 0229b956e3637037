"""Sizes at the edges."""

import pytest

from llmhw_provision.units import disk, memory, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [("80 GiB", 80 * 2**30), ("3.84 TB", 3_840_000_000_000), ("512KiB", 524288), ("1 B", 1), ("0.3 KB", 300)],
)
def test_size_with_unit_is_exact(text: str, expected: int) -> None:
    assert parse_size(text, example="1 GiB") == expected


def test_part_of_a_byte_rounds_up() -> None:
    assert parse_size("1.0001 KB", example="1 GB") == 1001


@pytest.mark.parametrize(
    "text", [80, 1.5, True, None, "80", "", "GiB", "80 gibs", "-1 GB", "1e3 GB", "٣ GB", "9 PiB" * 40]
)
def test_what_is_not_a_size_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ValueError, match=r"write for example '20 GiB'|known units"):
        parse_size(text, example="20 GiB")


def test_wrong_case_names_the_nearest_unit() -> None:
    with pytest.raises(ValueError, match="did you mean 'GiB'"):
        parse_size("80 gib", example="20 GiB")


def test_absurd_size_is_refused() -> None:
    with pytest.raises(ValueError, match="limit 8 EiB"):
        parse_size("99999999 PB", example="1 TB")


def test_text_of_sizes() -> None:
    assert (memory(81559 * 2**20), memory(2**29)) == ("79.6 GiB", "512.0 MiB")
    assert (disk(3_840_000_000_000), disk(960_197_124_096), disk(1_073_741_824)) == ("3.84 TB", "960.2 GB", "1.1 GB")
