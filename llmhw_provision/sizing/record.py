"""The record of the engine's accuracy as a page, and why cases that are missed are missed."""

from __future__ import annotations

import statistics
from typing import Any

from llmhw_provision.sizing.bands import PARTS
from llmhw_provision.sizing.efficiency import record as speed_record
from llmhw_provision.sizing.score import percentile

MEASURED = ("train_memory", "ft_memory", "infer_memory")
MEMORY = (
    *("train_memory", "ft_memory", "infer_memory", "states", "activations", "logits", "kv_cache", "vllm_kv"),
    *("weights", "params", "fit", "host_ram", "overhead", "max_context"),
)
SPEED = (
    *("train_throughput", "train_mfu", "train_time", "decode", "offload_infer"),
    *("flops", "comm", "min_gpus", "storage", "checkpoint"),
)
# case -> why the engine cannot meet the figure; a miss without a line here is not explained
EXPLAINED: dict[str, str] = {}


def page(result: dict[str, Any], record: dict[str, Any], share: float) -> str:
    """The page in Markdown."""
    return "\n".join([*_head(result), *_kinds(result), *_bands(record, share), *_misses(result)]) + "\n"


def _head(result: dict[str, Any]) -> list[str]:
    judged = [case for case in result["cases"] if case["kind"] in MEMORY and case.get("within") is not None]
    within = sum(case["within"] for case in judged)
    errors = [abs(case["error"]) for case in judged if case["kind"] in MEASURED and case["error"] is not None]
    return [
        "# Sizing: memory and speed against published cases",
        "",
        "Written by `python -m llmhw_provision.sizing.measure CASES.yaml --date DATE --page THIS_FILE`.",
        "A prediction reads kind, inputs, quantity and unit of a case, never its value, tolerance or name.",
        "Coefficients of the engine were chosen looking at published cases: this is a fit, not a blind test.",
        "Formulas were also revised after comparing with further rows of the same public tables (torchtitan,",
        "torchtune, LitGPT, Qwen, Unsloth, LLaMA-Factory, llm-foundry, vLLM logs, Hugging Face's memory anatomy):",
        "a later score on rows of these sources is no blind test either.",
        "The bands below leave each source out once.",
        "",
        f"Memory kinds: {within} of {len(judged)} cases within the published tolerance ({within / len(judged):.0%}).",
        f"Measured memory of GPUs ({len(errors)} cases): {_errors(errors)}.",
        *_speeds(result),
        "",
    ]


def _speeds(result: dict[str, Any]) -> list[str]:
    judged = [case for case in result["cases"] if case["kind"] in SPEED and case.get("within") is not None]
    if not judged:
        return []
    within = sum(case["within"] for case in judged)
    lines = [
        f"Speed, network, storage: {within} of {len(judged)} cases within the tolerance ({within / len(judged):.0%})."
    ]
    found = speed_record()
    errors, bands = found["errors"], found["bands"]
    lines.append(
        f"Speeds: {found['source']} ({found['date']}). Training, median error {errors['train_fitted_median']:.1%} "
        f"fitted and {errors['train_left_out_median']:.1%} on sources left out, of which nine in ten runs lie within "
        f"±{bands['train']:.1%}. Decoding: median {errors['decode_median']:.1%}, nine in ten within "
        f"±{bands['decode']:.1%}; its coefficients were chosen looking at these figures, whose sources are too few to "
        "leave one out."
    )
    return lines


def _errors(errors: list[float]) -> str:
    return f"median error {statistics.median(errors):.1%}, 90th percentile {percentile(errors, 90):.1%}"


def _kinds(result: dict[str, Any]) -> list[str]:
    lines = ["| kind | within | scored | median error | 90th percentile |", "|---|---|---|---|---|"]
    for kind, counts in result["kinds"].items():
        if not counts["scored"] or (counts["median_error"] is None and not counts["within"]):
            continue
        errors = ("–", "–")
        if counts["median_error"] is not None:
            errors = (f"{counts['median_error']:.1%}", f"{counts['p90_error']:.1%}")
        lines.append(f"| {kind} | {counts['within']} | {counts['scored']} | {errors[0]} | {errors[1]} |")
    silent = [kind for kind, counts in result["kinds"].items() if counts["scored"] and not counts["within"]]
    return [*lines, "", *([f"Not answered: {', '.join(silent)}.", ""] if silent else [])]


def _bands(record: dict[str, Any], share: float) -> list[str]:
    bands = ", ".join(f"{kind} ±{100 * value / PARTS:.1f} %" for kind, value in record["bands"].items())
    return [
        "## Error bands",
        "",
        f"{record['date']}, from {record['source']}; {record['method']} lie within. {bands}.",
        f"With all sources in the fit {share:.0%} lie within. Kinds that hardly occur take the widest band.",
        "",
    ]


def _misses(result: dict[str, Any]) -> list[str]:
    lines = ["## Misses", ""]
    for case in result["cases"]:
        if case.get("within") is not False or case["kind"] not in (*MEMORY, *SPEED, "rule_of_thumb", "quant"):
            continue
        said = case["reason"] or f"predicted {_text(case['predicted'])}, published {_text(case['published'])}"
        lines.append(f"- `{case['id']}` ({case['kind']}): {said}. {EXPLAINED.get(case['id'], 'Not explained.')}")
    return lines if len(lines) > 2 else [*lines, "None."]


def _text(value: float | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{value:,.4g}"
