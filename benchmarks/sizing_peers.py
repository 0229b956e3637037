"""The sizing engine beside other estimators on the same published cases: how many each answers, and how well.

    python -m benchmarks.sizing_peers CASES.yaml --date 2026-11-30 --page docs/measurements/sizing_peers.md

Every peer runs in an environment of its own with fixed versions, made under `--home` the first time (about 3 GB). A
peer that cannot be installed is named with what was tried; the others are measured.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.sizing_peers_ask import PEERS, Result, ask
from llmhw_provision.documents import write_atomic
from llmhw_provision.errors import ProvisionError
from llmhw_provision.model import Architecture
from llmhw_provision.sizing.case_error import Unsupported
from llmhw_provision.sizing.cases import Setup, setup
from llmhw_provision.sizing.predict_training import least_layout
from llmhw_provision.sizing.score import ASKED, answer, judge, percentile, read_cases
from llmhw_provision.units import GB, GIB, KIB, MB, MIB, TB

KINDS = ("weights", "kv_cache", "infer_memory", "states", "ft_memory", "train_memory")
UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "MB": MB, "GB": GB, "TB": TB}
PARTS = ("largest layer", "freed", "optimizer states", "saved")  # of a figure, for which peers have no question
_FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3_moe", "mixtral": "mixtral"}


def config_of(model: Architecture) -> dict[str, Any]:
    """The fields of config.json from which a peer reads a model."""
    found: dict[str, Any] = {
        "model_type": _FAMILIES.get(model.family, model.family),
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.ffn or model.moe_ffn,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied,
        "max_position_embeddings": model.max_positions or 131_072,
        "attention_bias": model.attention_bias,
        "hidden_act": "silu" if model.gated else "gelu",
        "torch_dtype": {"fp32": "float32", "fp16": "float16"}.get(model.dtype, "bfloat16"),
    }
    if model.experts:
        found |= {"num_experts": model.experts, "num_experts_per_tok": model.experts_per_token}
        found |= {"num_local_experts": model.experts, "moe_intermediate_size": model.moe_ffn}
        found |= {"n_shared_experts": 1} if model.shared_ffn else {}
    if model.kv_lora_rank:
        names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        found |= {name: getattr(model, name) for name in names}
    return found


def case_of(name: str, case: dict[str, Any], of: Setup) -> dict[str, Any]:
    """A case in plain values, without its figure."""
    model, job = of.model, of.job
    layout = least_layout(of) if case["kind"] in ("ft_memory", "train_memory") and model else of.layout
    bare = model is None or not model.heads or ("params" in of.inputs and "arch" not in of.inputs)
    short = of.inputs.get("new_tokens") == "short" or of.says("vLLM accounting")
    largest = max(model.layer_parameters, model.vocab * model.hidden) if model else 0
    return {
        "id": name,
        "kind": case["kind"],
        "config": {} if bare or model is None else config_of(model),
        "params": int(of.inputs.get("params", 0)) or (model.parameters if model else 0),
        "largest_layer": int(of.inputs.get("largest_layer", 0)) or largest,
        "device": not of.says("active", "max GPU RAM", "peak memory", "reserved", "weights+KV"),
        "method": job.method,
        "dpo": job.kind == "dpo",
        "weights": "nf4-dq" if job.method == "qlora" and job.weights == "bf16" else job.weights,
        "all_linear": not job.adapted or "gate_proj" in job.adapted,
        "in_backward": job.in_backward,
        "times": layout.gpus if of.says("sum over") else 1,
        "prompt": 1 if short else job.prompt or job.context,
        "context": 1 if short else job.context,
        **{key: getattr(job, key) for key in ("scheme", "optimizer", "rank", "sequence", "flash", "concurrency")},
        **{
            key: getattr(layout, key) for key in ("gpus", "nodes", "tp", "pp", "cp", "zero", "micro_batch", "recompute")
        },
        **{key: getattr(layout, key) for key in ("offload_optimizer", "offload_params", "sequence_parallel")},
    }


def cases_of(data: dict[str, Any]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Scored cases of memory in bytes: name → the case as it is published, and as a peer is asked."""
    found = {}
    for index, case in enumerate(data["cases"]):
        if case["kind"] not in KINDS or case["unit"] not in UNITS or case.get("tolerance", {}).get("info"):
            continue
        try:
            of = setup({key: case[key] for key in ASKED}, data.get("models", {}))
            if of.says(*PARTS):
                continue
            name = str(case.get("id") or index)
            found[name] = (case, case_of(name, case, of))
        except (Unsupported, ProvisionError):
            continue
    return found


def own(cases: dict[str, tuple[dict[str, Any], dict[str, Any]]], models: dict[str, Any]) -> Result:
    """The engine's own answers."""
    result = Result()
    for name, (case, _) in cases.items():
        said, reason = answer(case, models)
        if said is None:
            result.reasons[name] = reason
        else:
            result.answers[name] = float(said) * UNITS[case["unit"]]
    return result


def page(results: dict[str, Result], cases: dict[str, Any], source: str, date: str) -> str:
    """The record in Markdown."""
    lines = [
        "# Sizing beside other estimators",
        "",
        f"Written {date} by `python -m benchmarks.sizing_peers CASES.yaml --date DATE --page THIS_FILE`.",
        f"Cases: {source}, {len(cases)} scored figures of memory that are given in bytes.",
        "Each peer runs in an environment of its own, without network, called by its public functions; what it has no",
        "input for counts as not answered. An answer is within tolerance when it satisfies the tolerance of the case.",
        "Errors are those of the cases that a peer answers, which are the easier ones for peers that refuse the rest.",
        "The engine's coefficients were chosen looking at published cases: its row is a fit, not a blind test.",
        "",
        "| estimator | answers | within tolerance | median error | 90th percentile | most often not answered because |",
        "|---|---|---|---|---|---|",
    ]
    for peer, result in results.items():
        lines.append(_row(peer, result, cases))
    lines += ["", "## By kind: answered of all, median error", "", f"| estimator | {' | '.join(KINDS)} |"]
    lines.append("|---" * (len(KINDS) + 1) + "|")
    for peer, result in results.items():
        cells = [
            _cell(result, {name: item for name, item in cases.items() if item[0]["kind"] == kind}) for kind in KINDS
        ]
        lines.append(f"| {_title(peer)} | {' | '.join(cells)} |")
    lines += ["", "## Notes", "", *_NOTES]
    lines += [f"- {peer}: {result.problem}" for peer, result in results.items() if result.problem]
    return "\n".join(lines) + "\n"


_NOTES = (
    "- DeepSpeed's and accelerate's figures are of model states and weights; held against whole runs they",
    "  leave out activations, as their documentation says.",
    "- llm-analysis is given the ratio of its feed-forward width, without which the release refuses widths that are no",
    "  multiple of the hidden size; its heads are always hidden size over number of heads.",
    "- fitcheck-llm is given the true parameter count, as the Hub would; vramcalc the config alone.",
    "- hf-mem reads weights from the headers on the Hub; here they are the parameters in 16 bits.",
    "- Figures of `max GPU RAM`, active or reserved memory are held against totals without the peer's overhead.",
)


def _errors(result: Result, cases: dict[str, Any]) -> list[float]:
    return [
        abs(result.answers[name] / (float(case["value"]) * UNITS[case["unit"]]) - 1)
        for name, (case, _) in cases.items()
        if name in result.answers and case["value"]
    ]


def _within(result: Result, cases: dict[str, Any]) -> int:
    found = [
        judge(case, result.answers[name] / UNITS[case["unit"]])["within"]
        for name, (case, _) in cases.items()
        if name in result.answers
    ]
    return sum(bool(item) for item in found)


def _row(peer: str, result: Result, cases: dict[str, Any]) -> str:
    if result.problem:
        return f"| {_title(peer)} | none | – | – | – | see notes |"
    errors = _errors(result, cases)
    reasons = list(result.reasons.values())
    most = max(set(reasons), key=lambda reason: (reasons.count(reason), reason)) if reasons else ""
    told = f"{most} ({reasons.count(most)})" if most else "–"
    share = f"{len(result.answers)} of {len(cases)}"
    middle = f"{statistics.median(errors):.1%} | {percentile(errors, 90):.0%}" if errors else "– | –"
    return f"| {_title(peer)} | {share} | {_within(result, cases)} | {middle} | {told} |"


def _cell(result: Result, cases: dict[str, Any]) -> str:
    errors = _errors(result, cases)
    return f"{len(errors)}/{len(cases)}, {statistics.median(errors):.1%}" if errors else f"0/{len(cases)}"


def _title(peer: str) -> str:
    return " ".join(PEERS[peer][1][-1].split("==")) if peer in PEERS else f"**{peer}**"


def main() -> int:
    """Runs every peer; exit 1 when one could not be installed or run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--date", required=True, help="date to write into the page")
    parser.add_argument("--home", type=Path, default=Path.home() / ".cache" / "llmhw-peers", help="environments")
    parser.add_argument("--page", type=Path, help="file to write; default standard output")
    parser.add_argument("--json", type=Path, help="every answer and reason")
    parser.add_argument("--only", choices=list(PEERS), action="append", help="some of the peers")
    options = parser.parse_args()
    data = read_cases(options.cases)
    cases = cases_of(data)
    results = {"llmhw-provision": own(cases, data.get("models", {}))}
    for peer in options.only or PEERS:
        print(f"{peer} ...", file=sys.stderr)
        results[peer] = ask(options.home, peer, [asked for _, asked in cases.values()])
    digest = hashlib.sha256(options.cases.read_bytes()).hexdigest()[:16]
    text = page(results, cases, f"{options.cases.name} ({digest})", options.date)
    if options.json:
        write_atomic(
            options.json, json.dumps({peer: result.__dict__ for peer, result in results.items()}, indent=1) + "\n"
        )
    if options.page:
        write_atomic(options.page, text)
    else:
        print(text)
    return 1 if any(result.problem for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
