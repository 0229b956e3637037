"""software.yml: every record dated and sourced, names and branches without gaps, ends of life by the day."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmhw_provision.catalogue import software as module
from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.catalogue.software import Supported, ordered, software

TABLES = software()
RAW = yaml.safe_load(Path(module.__file__).with_name("software.yml").read_text(encoding="utf-8"))
DEBS = ("ubuntu2204", "ubuntu2404", "ubuntu2604", "debian12", "debian13")


def records(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict):
        if "confidence" in data:
            yield data
        for value in data.values():
            yield from records(value)
    elif isinstance(data, list):
        for value in data:
            yield from records(value)


def test_every_record_says_where_it_comes_from() -> None:
    found = list(records(RAW))
    assert len(found) > 80
    for record in found:
        # a source cut off by YAML (a comment sign, a stray comma) would end like this
        assert re.search(r"[A-Za-z0-9)]$", record["source"]), record
        assert datetime.date(2026, 1, 1) <= record["date"] <= datetime.date(2026, 12, 31)


def test_nothing_below_the_records_is_without_source() -> None:
    for section, data in RAW.items():
        for record in data.values() if isinstance(data, dict) else data:
            if section not in ("catalogue", "slurm_upstream", "uv"):
                assert {"source", "date", "confidence"} <= set(record), (section, record)


@pytest.mark.parametrize(
    ("day", "over"), [((2028, 6, 30), False), ((2028, 7, 1), True), ((2026, 11, 30), False), ((2030, 1, 1), True)]
)
def test_support_lasts_to_the_last_day_of_its_month(day: tuple[int, int, int], over: bool) -> None:
    assert TABLES.drivers["580"].over(datetime.date(*day)) is over


def test_ended_without_a_month_is_over() -> None:
    record = Supported(ended=True, source="x", date="2026-11-30", confidence="low")
    assert record.over(datetime.date(2020, 1, 1))
    assert not record.past(datetime.date(2999, 1, 1))


def test_every_gpu_of_the_catalogue_has_an_architecture() -> None:
    assert [name for name in names("gpus") if not TABLES.architecture(find("gpus", name, Gpu).compute_capability)] == []


def test_a_package_rule_is_never_ambiguous() -> None:
    for component in {item.component for item in TABLES.packages}:
        rules = [item for item in TABLES.packages if item.component == component]
        for distro in TABLES.distros:
            for branch in map(int, TABLES.drivers):
                for origin in ("vendor", "distribution"):
                    for modules in ("open", "closed"):
                        fits = [
                            item
                            for item in rules
                            if item.origin == origin
                            and distro in item.distros
                            and modules in item.modules
                            and item.since <= branch < item.below
                        ]
                        assert len(fits) <= 1, (component, distro, branch, origin, modules)


def test_distributions_named_in_rules_exist() -> None:
    assert {name for item in TABLES.packages for name in item.distros} <= set(TABLES.distros)
    assert set(TABLES.slurm) <= set(TABLES.distros)
    seen = {where for branch in TABLES.drivers.values() for where in branch.versions}
    assert seen <= {"vendor", *TABLES.distros}


def test_versions_belong_to_their_branch() -> None:
    for name, branch in TABLES.drivers.items():
        assert [item.version for item in branch.versions.values() if item.version.split(".")[0] != name] == []


@pytest.mark.parametrize(
    ("os", "version", "name"),
    [
        ("debian", "12", "debian12"),
        ("ubuntu", "24.04", "ubuntu2404"),
        ("rocky", "9.5", "el9"),
        ("almalinux", "10.1", "el10"),
        ("rhel", "9.8", "el9"),
        ("debian", "1", None),
        ("fedora", "9", None),
        ("ubuntu", "24.10", None),
    ],
)
def test_distribution_by_os_release(os: str, version: str, name: str | None) -> None:
    assert TABLES.distro_of(os, version) == name


def test_versions_compare_by_number() -> None:
    assert ordered("580.65.06") < ordered("580.159.03")
    assert ordered("6.8.0-84-generic") == (6, 8, 0)
    assert ordered("6.1.0-50-amd64") > ordered("5.18")
    assert ordered("0.7.2.post1") == (0, 7, 2)


def test_repositories_of_other_distributions_are_known_as_such() -> None:
    assert {item.slug for item in TABLES.distros.values()} <= set(TABLES.repositories["cuda"].slugs)


def test_environments_agree_on_torch() -> None:
    assert {item.packages["torch"] for item in TABLES.environments.values()} == {"2.14.0"}
    assert {item.cuda for item in TABLES.environments.values()} == {TABLES.catalogue.default_cuda}
