"""compare: fewest GPUs, then power; prices only where the site gives them; nothing offloaded unless asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from llmhw_provision.catalogue.loader import names
from llmhw_provision.cli import main
from llmhw_provision.errors import InputError

LORA = ("--model", "llama-3.1-70b", "--job", "sft", "--method", "lora")
SITE = """schema: 1
site: customer-a
hosts: [{name: a-01, address: 192.0.2.10}]
prices: {currency: EUR, each: {ga660m: 150000, alphapro660: 320000}}
"""
WORKLOAD = "schema: 1\nmodel: llama-3.1-70b\njob: sft\nmethod: lora\n"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["compare", *arguments])


def said(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(*arguments, "--json"))["rows"]
    return found


@pytest.fixture(scope="module")
def everything() -> str:
    return said(*LORA, "--json")


def test_all_machines_and_tiers_by_gpus_then_power(everything: str) -> None:
    found = json.loads(everything)["rows"]
    assert {row["name"] for row in found} == {*names("machines"), *names("tiers")}
    sure = [(row["gpus"], row["watts"]) for row in found if row["verdict"] == "fits"]
    assert sure == sorted(sure)
    assert len(sure) >= 3
    order = [row["verdict"] for row in found]
    assert order == sorted(order, key=["fits", "tight", "does not fit"].index)
    assert found[0]["name"] == "ga660m"


def test_fewer_gpus_come_before_less_power() -> None:
    over = [word for name in ("mainstream-6000-ada", "ga660m", "high-h100") for word in ("--over", name)]
    found = rows("--model", "llama-3.1-8b", "--job", "serve", "--concurrency", "32", "--context", "8192", *over)
    assert [(row["name"], row["gpus"]) for row in found] == [
        ("ga660m", 1),
        ("high-h100", 1),
        ("mainstream-6000-ada", 2),
    ]
    assert found[2]["watts"] < found[0]["watts"] < found[1]["watts"]


def test_fewest_is_the_least_that_fits() -> None:
    one = rows(*LORA, "--over", "high-h100")[0]
    assert (one["gpus"], one["machines"], one["tight_on_gpus"]) == (4, 1, 2)
    assert "(tight on 2)" in said(*LORA, "--over", "high-h100")
    fewer = json.loads(
        CliRunner()
        .invoke(main, ["size", *LORA, "--gpu", "h100-sxm", "--gpus", "2", "--offload", "none", "--json"])
        .stdout
    )
    assert fewer["machines"][0]["verdict"] == "tight"


def test_more_machines_only_where_they_have_adapters() -> None:
    full = ("--model", "llama-3.1-70b", "--job", "sft", "--batch", "64")
    found = {row["name"]: row for row in rows(*full, "--over", "alphapro660", "--over", "ga660m")}
    assert found["alphapro660"]["machines"] == 4
    assert found["alphapro660"]["watts"] == 4 * 10_200
    assert found["ga660m"]["verdict"] == "does not fit"
    assert rows(*full, "--over", "alphapro660", "--nodes", "2")[0]["verdict"] == "tight"


def test_offloading_only_when_asked_for() -> None:
    small = ("--model", "llama-2-7b", "--job", "sft", "--over", "ga660m")
    assert rows(*small)[0]["gpus"] == 2
    asked = rows(*small, "--offload", "optimizer")[0]
    assert asked["gpus"] == 1 or asked["layout"]["offload_optimizer"]


def test_no_price_is_invented(everything: str) -> None:
    text = said(*LORA, "--over", "a330")
    assert "prices: none known; name yours under prices in site.yaml or with --price" in text
    assert all(row.get("price") is None for row in json.loads(everything)["rows"])


def test_prices_of_the_site_and_of_options(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(SITE)
    (tmp_path / "workload.yaml").write_text(WORKLOAD)
    over = [word for name in ("ga660m", "alphapro660", "high-h100") for word in ("--over", name)]
    found = {row["name"]: row.get("price") for row in rows("--site", str(tmp_path), "--price", "ga660m=140000", *over)}
    assert (found["ga660m"], found["alphapro660"], found["high-h100"]) == (140_000, 320_000, None)
    text = said("--site", str(tmp_path), "--over", "ga660m")
    assert "EUR" in text
    assert "150,000" in text
    cards = rows(*LORA, "--over", "h200-sxm", "--price", "h200-sxm=30000", "--currency", "USD")
    assert cards[0]["price"] == cards[0]["gpus"] * 30_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--over", "alphapro"), "did you mean 'alphapro660'?"),
        (("--price", "ga660m=cheap", "--currency", "EUR"), "--price 'ga660m=cheap' is no price"),
        (("--price", "ga660=5", "--currency", "EUR"), "did you mean 'ga660m'?"),
        (("--price", "ga660m=0", "--currency", "EUR"), "outside 1 to 10^12"),
        (("--price", "ga660m=5", "--currency", "euro"), "prices: currency"),
    ],
)
def test_refusals(options: tuple[str, ...], words: str) -> None:
    result = run(*LORA, *options)
    assert isinstance(result.exception, InputError)
    problem = result.exception.problems[0]
    assert words in f"{problem.message} {problem.hint}"


def test_a_price_needs_its_currency() -> None:
    result = run(*LORA, "--price", "ga660m=5")
    assert result.exit_code == 2
    assert "--price and --currency go together" in result.output


def test_doubts_are_named() -> None:
    assert "medium confidence: NVIDIA H20 96GB" in said(*LORA, "--over", "h20")
    assert "confidence" not in said(*LORA, "--over", "h200-sxm")
