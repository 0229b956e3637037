"""Serving throughput and latencies from the table that `vllm bench serve` prints."""

from __future__ import annotations

import re

from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import exact, last_line, number, plain_lines, unreadable

_PAIR = re.compile(r"^(\S[^:]*(?:\([^)]*\))?[^:]*):\s+(\S+)\s*$")
_NAMES = {
    "successful requests": "successful",
    "failed requests": "failed",
    "benchmark duration (s)": "duration_s",
    "total input tokens": "input_tokens",
    "total generated tokens": "output_tokens",
    "request throughput (req/s)": "req_s",
    "output token throughput (tok/s)": "out_tok_s",
    "peak output token throughput (tok/s)": "peak_out_tok_s",
    "peak concurrent requests": "peak_concurrency",
    "maximum request concurrency": "max_concurrency",
    "total token throughput (tok/s)": "total_tok_s",
}
_LATENCY = re.compile(r"^(mean|median|p[0-9.]+|std) (ttft|tpot|itl|e2el) \(ms\)$")


def facts(raw: bytes) -> dict[str, object]:
    """Requests, throughputs, and latencies in ms as `p99_ttft_ms`; raises ProbeError without the closing line."""
    text = plain_lines("vllm bench serve", raw)
    start = next((index for index, line in enumerate(text) if "Serving Benchmark Result" in line), len(text))
    end = next((at for at, line in enumerate(text) if at > start and re.match(r"^={20,}$", line)), None)
    if end is None:
        raise unreadable("vllm bench serve", last_line(raw), "cut off")
    found: dict[str, object] = {}
    for line in text[start + 1 : end]:
        match = _PAIR.match(line)
        if not match:
            if not re.match(r"^-+[^-].*[^-]-+$", line) and line.strip():
                raise unreadable("vllm bench serve", line)
            continue
        key = match[1].strip().lower()
        latency = _LATENCY.match(key)
        name = f"{latency[1]}_{latency[2]}_ms" if latency else _NAMES.get(key)
        if name:
            found[name] = exact(number("vllm bench serve", match[2], match[1]))
    if "successful" not in found or "out_tok_s" not in found:
        raise unreadable("vllm bench serve", text[end], "no requests or no throughput")
    return found


FORMATS = (Format("vllm bench serve", holds(rb"^=+ Serving Benchmark Result =+$"), facts),)
