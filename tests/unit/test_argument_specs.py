"""The generated interface files of the roles are what the models say."""

from pathlib import Path
from typing import Literal

import pytest
import yaml
from pydantic import Field

from llmhw_provision.documents import Record
from llmhw_provision.plan import argument_specs
from llmhw_provision.plan.roles import ROLES, Mode

ROOT = Path(__file__).resolve().parents[2]


class Inner(Record):
    """One inner thing."""

    size_mib: int = Field(ge=1, le=9, description="MiB of it")
    kind: Literal["a", "b"] | None = Field(default=None, description="which | what")


class OuterConfig(Record):
    """Role outer: does things."""

    items: tuple[Inner, ...] = Field(min_length=1, description="the things")
    mode: Mode = Field(description="mode")


@pytest.mark.parametrize("path", sorted(argument_specs.generated(ROOT)), ids=lambda path: str(path.relative_to(ROOT)))
def test_committed_file_is_the_generated_one(path: Path) -> None:
    text = argument_specs.generated(ROOT)[path]
    assert path.read_text() == text, "run: python -m llmhw_provision.plan.argument_specs"


def test_every_role_of_the_table_has_a_folder_with_tasks() -> None:
    assert [role for role in ROLES if not (ROOT / "roles" / role / "tasks/main.yml").is_file()] == []


def test_nested_options_choices_limits_and_optional_ones() -> None:
    main = yaml.safe_load(argument_specs.argument_specs("outer", OuterConfig))["argument_specs"]["main"]
    assert main["short_description"] == "does things"
    whole = main["options"]["outer_config"]
    assert (whole["type"], whole["required"]) == ("dict", True)
    items = whole["options"]["items"]
    assert (items["type"], items["elements"]) == ("list", "dict")
    assert items["description"] == "the things (at least 1 of them)"
    assert items["options"]["size_mib"] == {
        "type": "int",
        "required": True,
        "description": "MiB of it (at least 1, at most 9)",
    }
    assert items["options"]["kind"]["choices"] == ["a", "b"]
    assert items["options"]["kind"]["required"] is False
    assert whole["options"]["mode"]["description"] == "mode (matches `^[0-7]{4}$`)"


def test_the_table_names_nested_options_by_path_and_escapes_bars() -> None:
    table = argument_specs.table("outer", OuterConfig)
    assert "| `outer_config.items[].size_mib` | int | MiB of it (at least 1, at most 9) |\n" in table
    assert "| `outer_config.items[].kind` | `a` or `b` (optional) | which \\| what |\n" in table


def test_a_readme_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        argument_specs.with_table("# outer\n", "table")


def test_a_field_without_description_is_an_error() -> None:
    class Bare(Record):
        """Bare."""

        size: int

    with pytest.raises(ValueError, match="description"):
        argument_specs.table("bare", Bare)


def test_check_writes_nothing_and_says_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert argument_specs.main(["--check"]) == 0
    assert argument_specs.main(["--wrong"]) == 2
    assert "usage" in capsys.readouterr().err
