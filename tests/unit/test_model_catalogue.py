"""The catalogue of models: counts made by others, names by which a model is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import llmhw_provision.catalogue.loader
from llmhw_provision.catalogue.loader import ModelKind, find, names
from llmhw_provision.errors import InputError

FOLDER = Path(llmhw_provision.catalogue.loader.__file__).parent
TABLES = sorted(path.stem for path in FOLDER.glob("*.yml"))
UNCOUNTED = {
    "qwen-72b",
    "baichuan2-7b",
    "baichuan2-13b",
    "kimi-k2",
    "kimi-k2-thinking",
}  # no count made by others was found


@pytest.mark.parametrize("name", names("models"))
def test_parameters_are_those_counted_by_others(name: str) -> None:
    model = find("models", name, ModelKind)
    if name in UNCOUNTED:
        assert model.params is None
    else:
        assert model.architecture.parameters == model.params


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("mixtral-8x7b", 12.9),  # Mixtral of Experts, arXiv 2401.04088
        ("qwen1.5-moe-a2.7b", 2.7),  # names and model cards of the others
        ("qwen2-57b-a14b", 14),
        ("qwen3-30b-a3b", 3.3),
        ("qwen3-235b-a22b", 22),
        ("deepseek-v2", 21),
        ("deepseek-v3", 37),
        ("kimi-k2", 32),
        ("glm-4.5-air", 12),
        ("llama-4-scout", 17),
        ("phi-3.5-moe", 6.6),
    ],
)
def test_active_parameters_are_near_the_published_ones(name: str, billions: float) -> None:
    """Publishers differ in counting embeddings and vision towers: within 13 %."""
    assert find("models", name, ModelKind).architecture.active_parameters / 1e9 == pytest.approx(billions, rel=0.13)


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gpt-oss-20b", 3.61), ("gpt-oss-120b", 5.13)],  # model card, arXiv 2508.10925: embedding not counted
)
def test_active_parameters_without_the_embedding(name: str, billions: float) -> None:
    model = find("models", name, ModelKind).architecture
    assert round((model.active_parameters - model.embedding_parameters) / 1e9, 2) == billions


@pytest.mark.parametrize(
    ("spelling", "title"),
    [
        ("llama-3.1-8b", "Llama 3.1 8B"),
        ("Llama-3.1-8B", "Llama 3.1 8B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama 3.1 8B"),
        ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3 671B"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5 7B"),
    ],
)
def test_a_model_is_found_by_name_repository_and_alias(spelling: str, title: str) -> None:
    assert find("models", spelling, ModelKind).title == title


def test_no_spelling_stands_for_two_models() -> None:
    spellings: list[str] = []
    for name in names("models"):
        model = find("models", name, ModelKind)
        spellings += {spelling.lower() for spelling in (name, model.repo, *model.aliases)}
    assert len(spellings) == len(set(spellings))


def test_a_near_miss_is_named() -> None:
    with pytest.raises(InputError) as caught:
        find("models", "llama-3.1-8", ModelKind)
    assert caught.value.problems[0].hint == "did you mean 'llama-3.1-8b'?"


@pytest.mark.parametrize("table", TABLES)
def test_a_record_read_alone_equals_the_record_in_the_whole_table(table: str) -> None:
    whole = yaml.safe_load((FOLDER / f"{table}.yml").read_text(encoding="utf-8"))
    assert tuple(whole) == names(table)
    assert all(llmhw_provision.catalogue.loader._record(table, name) == record for name, record in whole.items())
