"""The benchmark of sizing peers: what a peer is told, what is counted, and a peer that cannot be installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.sizing_peers import cases_of, config_of, own, page
from benchmarks.sizing_peers_ask import DRIVER, PEERS, Result, ask
from tests.unit.sizing_setups import model

DATA = {
    "models": {},
    "cases": [
        {
            "kind": "ft_memory",
            "quantity": "max GPU RAM",
            "unit": "GB",
            "value": 21.3,
            "tolerance": {"rel": 0.15},
            "inputs": {"model": "llama-2-7b", "method": "lora", "mbs": 1, "seq": 1304, "rank": 8, "recompute": "none"},
        },
        {
            "kind": "kv_cache",
            "quantity": "KV cache",
            "unit": "GB",
            "value": 1.7,
            "tolerance": {"rel": 0.05},
            "inputs": {"model": "llama-13b", "context": 2048, "kv_bytes": 2},
        },
        {"kind": "kv_cache", "quantity": "tokens", "unit": "tokens", "value": 5, "inputs": {"model": "llama-13b"}},
        {"kind": "decode", "quantity": "tokens/s", "unit": "tok/s", "value": 5, "inputs": {}},
    ],
}


def test_a_peer_is_told_the_case_but_not_its_figure() -> None:
    cases = cases_of(DATA)
    assert list(cases) == ["0", "1"]
    asked = cases["0"][1]
    assert (asked["method"], asked["rank"], asked["sequence"], asked["micro_batch"]) == ("lora", 8, 1304, 1)
    assert asked["device"] is False
    assert "21.3" not in json.dumps(asked)


def test_config_has_what_transformers_calls_it() -> None:
    config = config_of(model("llama-3.1-8b"))
    assert config["num_key_value_heads"] == 8
    assert config["intermediate_size"] == 14336
    assert config_of(model("deepseek-v3"))["kv_lora_rank"] == 512
    assert config_of(model("mixtral-8x7b"))["num_local_experts"] == 8


def test_answers_errors_and_refusals_are_counted() -> None:
    cases = cases_of(DATA)
    results = {"llmhw-provision": own(cases, {})}
    results["vramcalc"] = Result({"0": 21.3e9 * 1.5}, {"1": "no KV cache"})
    results["deepspeed"] = Result(problem="not installed: `pip install deepspeed==0`: no route")
    text = page(results, cases, "cases.yaml (abc)", "2026-11-30")
    assert "| **llmhw-provision** | 2 of 2 | 2 |" in text
    assert "| vramcalc 0.1.2 | 1 of 2 | 0 | 50.0% | 50% | no KV cache (1) |" in text
    assert "| deepspeed 0.18.2 | none |" in text
    assert "- deepspeed: not installed: `pip install deepspeed==0`: no route" in text
    assert "| vramcalc 0.1.2 | 0/0 | 0/1 |" in text


def test_a_peer_that_cannot_be_installed_is_named(tmp_path: Path) -> None:
    python = tmp_path / PEERS["vramcalc"][0] / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found' >&2\nexit 1\n")
    python.chmod(0o755)
    found = ask(tmp_path, "vramcalc", [])
    assert found.problem == "not installed: `pip install vramcalc==0.1.2`: ERROR: No matching distribution found"


@pytest.mark.parametrize("peer", PEERS)
def test_what_a_peer_lacks_is_its_refusal(peer: str) -> None:
    """Here no peer is installed: each case comes back with the reason, and nothing is guessed."""
    asked = cases_of(DATA)["1"][1]
    done = subprocess.run(
        [sys.executable, "-S", str(DRIVER), peer], input=json.dumps([asked]), capture_output=True, text=True, check=True
    )
    answers = json.loads(done.stdout)
    assert answers[0]["bytes"] is None
    assert answers[0]["reason"]
