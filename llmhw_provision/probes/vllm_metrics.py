"""A serving engine's own counters, from vLLM's GET /metrics (Prometheus text)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import lines, unreadable

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: [0-9]+)?$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
_SUMS = {
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "swapped": "vllm:num_requests_swapped",
    "preemptions": "vllm:num_preemptions_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "success": "vllm:request_success_total",
}
# V0 called it gpu_cache_usage_perc; both are a share of 1.
_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_CONFIG = ("block_size", "num_gpu_blocks")


@dataclass(frozen=True)
class Sample:
    """One sample line."""

    name: str
    labels: dict[str, str]
    value: float


def command(port: int) -> Command:
    """Asks the engine that listens on the loopback `port`."""
    return Command("vllm-metrics", ("curl", "-sS", "-f", "-m", "10", f"http://127.0.0.1:{port}/metrics"), 15)


def parse(raw: bytes) -> tuple[Sample, ...]:
    """The samples in order; raises ProbeError when a metric is announced and cut off."""
    found: list[Sample] = []
    last = ""
    for line in lines("/metrics", raw):
        if not line or line.startswith("#"):
            last = line or last
            continue
        match = _SAMPLE.match(line)
        if not match:
            raise unreadable("/metrics", line)
        try:
            value = float(match[3])
        except ValueError:
            raise unreadable("/metrics", line, "not a number") from None
        found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), value))
        last = line
    if last.startswith("#") and not last.startswith("# EOF"):
        raise unreadable("/metrics", last, "cut off")
    if len({(sample.name, *sorted(sample.labels.items())) for sample in found}) != len(found):
        raise unreadable("/metrics", found[0].name, "a sample is listed twice")
    return tuple(found)


def facts(raw: bytes) -> dict[str, object]:
    """Requests and tokens summed over engines, the fullest KV cache, and the cache's size in blocks."""
    samples = parse(raw)
    found: dict[str, object] = {}
    for key, name in _SUMS.items():
        values = [sample.value for sample in samples if sample.name == name and math.isfinite(sample.value)]
        if values:
            found[key] = sum(values)
    usage = [sample.value for sample in samples if sample.name in _USAGE]
    if usage:
        found |= {"kv_cache_usage": max(usage), "kv_cache_usage_perc": max(usage)}
    config = next((sample.labels for sample in samples if sample.name == "vllm:cache_config_info"), {})
    found |= {key: int(config[key]) for key in _CONFIG if config.get(key, "").isdecimal()}
    names = sorted({sample.labels["model_name"] for sample in samples if "model_name" in sample.labels})
    engines = sorted({sample.labels["engine"] for sample in samples if "engine" in sample.labels})
    return found | {"models": names, "model": names[0] if len(names) == 1 else None, "engines": len(engines) or 1}


FORMATS = (Format("vLLM /metrics", holds(rb"^vllm:[a-z_]+(\{| )"), facts),)
