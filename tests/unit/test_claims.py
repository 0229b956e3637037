"""Claims of the source articles: each verdict comes out of the arithmetic, in both languages."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from llmhw_provision.catalogue.loader import ClaimKind, find
from llmhw_provision.claims.chinese import translated
from llmhw_provision.claims.engine import Shown
from llmhw_provision.claims.judge import ARITHMETIC, claims, judge, verdict
from llmhw_provision.cli import main
from llmhw_provision.errors import InputError

HOLDS = {
    *("weights-70b", "native-fp8", "i9-cores", "zero-400-gpus", "offload-to-host", "kv-13b", "h100-memory"),
    *("python-310", "kv-linear", "serve-70b-fp16", "mainstream-tier-70b-quantised", "mig-h100"),
}
CONDITION = {
    *("nvlink-against-pcie", "epyc-128-cores", "raid0-60gbs", "one-ndr-port", "nvswitch-microseconds"),
    *("eight-cards-5600w", "lora-70b-in-80gb", "threadripper-memory", "nvlink-bridge", "i9-memory"),
    *("activation-checkpointing", "zero-is-linear", "h100-fp8-3958", "decode-reads-weights", "deepspeed-gpus"),
    *("nvlink-4-pcie-5", "checkpoint-tens-of-gb", "lora-13b-24-to-48gb", "int8-halves", "entry-tier-7b-lora"),
    *("high-tier-70b-training", "host-memory-offload"),
}
ALL = {name: judge(name) for name in claims()}


def test_verdicts_are_those_of_the_checked_list() -> None:
    found = {name: item.verdict for name, item in ALL.items()}
    assert {name for name, said in found.items() if said == "holds"} == HOLDS
    assert {name for name, said in found.items() if said == "condition"} == CONDITION
    assert len(found) == 55


def test_every_claim_is_either_computed_or_stated() -> None:
    assert set(ARITHMETIC) <= set(ALL)
    for name, item in ALL.items():
        assert (name in ARITHMETIC) == (item.claim.stated is None)
        assert bool(item.lines) == (name in ARITHMETIC)
        assert (item.verdict == "condition") <= (item.claim.condition is not None)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_words_are_complete(language: str) -> None:
    for item in ALL.values():
        for text in (item.says(language), item.because(language), item.condition(language)):  # type: ignore[arg-type]
            assert "{" not in text
            assert bool(re.search("[\u4e00-\u9fff]", text)) == (language == "zh") or not text


def test_figures_in_the_words_are_computed_or_those_of_the_claim() -> None:
    figure = re.compile(r"(?<![{\w])\d[\d,.]* ?(?:[KMGT]i?B(?:/s)?|k?W|TFLOP/s|%)")
    for name, item in ALL.items():
        if name in ARITHMETIC:
            for text in (item.claim.because.en, item.claim.because.zh):
                typed = {found.replace(" ", "") for found in figure.findall(text)}
                assert typed <= {found.replace(" ", "") for found in figure.findall(item.claim.says.en)} | {
                    *("1MB", "1GB"),  # sizes of messages
                    *("24GB", "48GB", "80GB"),  # classes of cards
                }, name


def test_the_verdict_follows_the_arithmetic() -> None:
    plain, conditional = find("claims", "weights-70b", ClaimKind), find("claims", "raid0-60gbs", ClaimKind)
    assert verdict(plain, Shown(True, ())) == "holds"
    assert verdict(plain, Shown(False, ())) == "false"
    assert verdict(conditional, Shown(True, ())) == "condition"
    assert verdict(conditional, Shown(False, ())) == "false"
    with pytest.raises(InputError, match="nothing stated"):
        verdict(plain, None)


def test_known_figures() -> None:
    def value(name: str, key: str) -> str:
        shown = ALL[name].shown
        assert shown
        return shown.values[key]

    assert value("weights-70b", "weights") == "141.1 GB"
    assert value("adam-four-copies", "states") == "1.13 TB"
    assert value("adam-four-copies", "more") == "1.27 TB"
    assert value("twelve-bytes", "13b") == "208.3 GB"
    assert value("kv-13b", "kv") == "1.68"
    assert value("zero2-13b-two-cards", "two") == "117.1 GB"
    assert value("desktop-72b-fp16", "weights") == "145.4 GB"
    assert value("eight-cards-5600w", "host") == "10.2"
    assert 41 < float(value("full-70b-by-qlora", "qlora").split()[0]) < 48


def said(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["claims", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_screen() -> None:
    text = said()
    assert "✗ rtx-5090-128gb (A): There is an RTX 5090 with 128 GB" in text
    assert "false: RTX 5090 has 32 GB, of which 31.4 GiB are usable" in text
    assert "55 claims: 12 hold, 22 hold with a condition, 21 are false" in text
    assert "source" not in text.replace("and source: llmhw", "")
    one = said("weights-70b")
    assert "70,553,706,496 parameters × 2 B = 141.1 GB (131.4 GiB)" in one
    assert "source: bytes of the number format" in one
    assert said("--verdict", "holds").count("✓") == len(HOLDS)


def test_chinese_leaves_no_english_word_in_the_arithmetic() -> None:
    text = said("--lang", "zh", "--why")
    assert "70,553,706,496 个参数 × 2 B" in text
    assert "不成立：RTX 5090 为 32 GB" in text
    words = {
        word for item in ALL.values() for line in item.lines for word in re.findall(r"\b[a-z-]{4,}\b", translated(line))
    }
    assert words == {"adamw", "logits", "lora", "qlora", "token", "torch", "all-reduce"}


def test_json_has_both_languages() -> None:
    data = {item["name"]: item for item in json.loads(said("--json"))}
    one = data["raid0-60gbs"]
    assert one["verdict"] == "condition"
    assert one["condition"]["zh"] == "至少六块盘，且数据可丢失"
    assert one["arithmetic"]
    assert set(data) == set(ALL)


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    result = CliRunner().invoke(main, ["claims", "weights-7b"])
    assert isinstance(result.exception, InputError)
    assert "did you mean 'weights-70b'?" in result.exception.problems[0].hint
