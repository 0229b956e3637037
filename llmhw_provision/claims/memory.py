"""Claims about the memory of training and fine-tuning."""

from __future__ import annotations

from dataclasses import replace

from llmhw_provision.claims.engine import (
    Arithmetic,
    Shown,
    about,
    card,
    each,
    fits,
    gpu,
    least,
    line,
    model,
    size,
    states_of,
    trained,
    verdict,
)
from llmhw_provision.sizing import activations, flops
from llmhw_provision.sizing.formats import FORMATS
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.need import checkpoint
from llmhw_provision.sizing.search import largest_model
from llmhw_provision.sizing.states import frozen_weights
from llmhw_provision.units import GB, TB, disk, memory

_70B, _13B, _7B = "llama-3.1-70b", "llama-2-13b", "llama-2-7b"


def _weights_70b() -> Shown:
    term = frozen_weights(model(_70B), Layout(), "only", FORMATS["bf16"])
    return Shown(about(term.size, 140 * GB), (line(term),), {"weights": disk(term.size), "gib": memory(term.size)})


def _adam_560() -> Shown:
    terms = states_of(_70B)
    optimizer = terms[-1].size
    lines = (*map(line, terms), f"Σ = {disk(size(terms))}; P × 2 B × 4 = {disk(model(_70B).parameters * 8)}")
    more = size(states_of(_70B, scheme="mixed-fp32-grads"))
    values = {"optimizer": disk(optimizer), "states": disk(size(terms)), "more": disk(more)}
    return Shown(about(optimizer, 560 * GB, 0.1), lines, values)


def _activations() -> Shown:
    shares, lines = [], []
    for name, sequence, samples, recompute in (
        (_70B, 2048, 1, "full"),
        (_70B, 8192, 1, "none"),
        (_7B, 4096, 16, "none"),
    ):
        layout = Layout(micro_batch=samples, recompute=recompute)  # type: ignore[arg-type]
        of = model(name)
        term = activations.kept(of, Job(sequence=sequence), layout)
        shares.append(term.size / of.parameters)
        lines.append(f"{of.title}: {line(term)} = {shares[-1]:.2f} × P")
    values = {"least": f"{min(shares):.2f}", "most": f"{max(shares):.1f}"}
    return Shown(all(2 <= share <= 3 for share in shares), tuple(lines), values)


def _one_card_70b() -> Shown:
    terms = states_of(_70B)
    room = card("h100-sxm").usable
    cards = -(-size(terms) // room)
    lines = (*map(line, terms), f"Σ = {disk(size(terms))} / {memory(room)} = {cards} × H100 80GB")
    return Shown(size(terms) <= room, lines, {"states": disk(size(terms)), "cards": str(cards)})


def _lora_70b() -> Shown:
    lora, qlora = (least(_70B, "h100-sxm", 1, method=method, sequence=512) for method in ("lora", "qlora"))
    lines = tuple(
        f"{found.job.method}: {found.peak.terms[0].formula} = {memory(found.peak.terms[0].size)}; "
        f"Σ = {memory(found.device_bytes)}"
        for found in (lora, qlora)
    )
    values = {"lora": disk(lora.device_bytes), "qlora": disk(qlora.device_bytes)}
    return Shown(lora.device_bytes <= 40 * GB, lines, values)


def _checkpoints() -> tuple[dict[str, int], tuple[str, ...]]:
    terms = {name: checkpoint(model(count), Job()) for name, count in (("7b", "7B"), ("70b", "70B"), ("700b", "700B"))}
    return {name: term.size for name, term in terms.items()}, tuple(map(line, terms.values()))


def _checkpoint_100gb() -> Shown:
    sizes, lines = _checkpoints()
    right = sizes["70b"] <= 110 * GB and sizes["700b"] <= 110 * GB
    return Shown(right, lines, {name: disk(found) for name, found in sizes.items()})


def _checkpoint_tens() -> Shown:
    sizes, lines = _checkpoints()
    adapters = checkpoint(model(_70B), Job(method="lora"))
    right = 10 * GB <= sizes["7b"] < 100 * GB and sizes["700b"] > TB
    values = {name: disk(found) for name, found in sizes.items()} | {"lora": disk(adapters.size)}
    return Shown(right, (*lines, f"LoRA 70B: {line(adapters)}"), values)


def _pretrains() -> Shown:
    small, large = (trained(name, "h100-sxm", 8, kind="pretrain") for name in ("70B", "700B"))
    layout = Layout(gpus=8, zero=3, sharder="fsdp", recompute="full")
    most = largest_model(Job(kind="pretrain"), layout, card("h100-sxm").usable)
    lines = (verdict("70B, 8 × H100", small), verdict("700B, 8 × H100", large), f"max P = {most / 1e9:.1f} × 10⁹")
    values = {"70b": memory(small.device_bytes), "700b": memory(large.device_bytes), "most": f"{most / 1e9:.0f}"}
    return Shown(fits(small) and fits(large), lines, values)


def _full_by_qlora() -> Shown:
    terms = states_of(_70B)
    qlora = least(_70B, "h100-sxm", 1, method="qlora", sequence=512)
    lines = (f"full: Σ {disk(size(terms))}; 128 GB", f"QLoRA: {disk(qlora.device_bytes)}")
    return Shown(size(terms) <= 128 * GB, lines, {"full": disk(size(terms)), "qlora": disk(qlora.device_bytes)})


def _lora_70b_four() -> Shown:
    one, four = (trained(_70B, "h100-sxm", count, method="lora") for count in (1, 4))
    lines = (verdict("1 × H100", one), verdict("4 × H100", four))
    values = {"one": memory(one.device_bytes), "four": memory(four.device_bytes)}
    return Shown(fits(four) and not fits(one), lines, values)


def _full_13b_128gb() -> Shown:
    mixed, pure = (states_of(_13B, scheme=scheme) for scheme in ("mixed", "pure"))
    lines = (each(mixed, _13B), each(pure, _13B), f"RTX 5090: {memory(card('rtx-5090').usable)}")
    values = {"mixed": disk(size(mixed)), "pure": disk(size(pure)), "gb": str(gpu("rtx-5090").memory_gb_marketing)}
    return Shown(size(mixed) <= 128 * GB, lines, values)


def _flash() -> Shown:
    ratios, lines = [], []
    of = model("llama-3.1-8b")
    for sequence in (1024, 4096, 16384):
        job = Job(sequence=sequence)
        with_scores = activations.kept(of, replace(job, flash=False), Layout()).size
        without = activations.kept(of, job, Layout()).size
        ratios.append(with_scores / without)
        lines.append(f"s = {sequence:,}: {memory(with_scores)} / {memory(without)} = {ratios[-1]:.1f}")
    values = {"short": f"{ratios[0]:.1f}", "long": f"{ratios[-1]:.0f}"}
    return Shown(all(5 <= ratio <= 10 for ratio in ratios), tuple(lines), values)


def _checkpointing() -> Shown:
    of, job = model("llama-3.1-8b"), Job(sequence=32768)
    every = activations.kept(of, job, Layout())
    inputs = activations.kept(of, job, Layout(recompute="full"))
    ratio = every.size / inputs.size
    more = flops.hardware_ratio(of, job.sequence, "full") - 1
    lines = (line(every), line(inputs), f"{ratio:.0f} : 1; +{more:.0%} FLOPs")
    values = {
        "every": memory(every.size),
        "inputs": memory(inputs.size),
        "ratio": f"{ratio:.0f}",
        "more": f"{more:.0%}",
    }
    return Shown(ratio >= 10, lines, values)


def _zero() -> Shown:
    ways = 64
    sizes = [size(states_of("7.5B", ways=ways, zero=stage)) for stage in (0, 1, 2, 3)]
    lines = tuple(f"ZeRO-{stage}, 7.5B, {ways} GPU: {disk(found)}" for stage, found in enumerate(sizes))
    values = {f"z{stage}": disk(found) for stage, found in enumerate(sizes)}
    return Shown(about(sizes[3], sizes[0] / ways), lines, values)


def _twelve_bytes() -> Shown:
    values: dict[str, str] = {}
    lines: list[str] = []
    for key, name in (("7b", _7B), ("13b", _13B)):
        found = [states_of(name, scheme=scheme) for scheme in ("mixed", "mixed-fp32-grads")]
        values |= {key: disk(size(found[0])), f"{key}more": disk(size(found[1]))}
        lines += [each(terms, name) for terms in found]
    one = size(states_of(_7B)) / model(_7B).parameters
    return Shown(about(one, 12, 0.05), tuple(lines), {**values, "each": f"{one:.0f}"})


def _zero2_13b() -> Shown:
    two = trained(_13B, "h100-sxm", 2, layout={"zero": 2, "sharder": "deepspeed", "tp": 1, "pp": 1})
    four = trained(_13B, "h100-sxm", 4, layout={"zero": 3, "sharder": "deepspeed", "tp": 1, "pp": 1})
    terms = states_of(_13B, ways=2, zero=2)
    states = size(terms)
    lines = (
        *map(line, terms),
        verdict("2 × 80 GB, ZeRO-2", two),
        verdict("4 × 80 GB, ZeRO-3", four),
    )
    return Shown(fits(two), lines, {"two": disk(states), "four": memory(four.device_bytes)})


def _lora_terms() -> Shown:
    found = trained(_7B, "h100-sxm", 1, method="lora")
    terms = sorted(found.peak.terms, key=lambda term: -term.size)
    lines = tuple(f"{term.name} {memory(term.size)}" for term in terms)
    names = {term.kind for term in terms}
    return Shown(names == {"states", "activations", "kv"}, lines, {"kv": str(sum(term.kind == "kv" for term in terms))})


def _lora_13b() -> Shown:
    big = trained(_13B, "l40s", 1, method="lora")
    small, quantised = (trained(_13B, "rtx-4090", 1, method=method) for method in ("lora", "qlora"))
    lines = (verdict("LoRA, 48 GB", big), verdict("LoRA, 24 GB", small), verdict("QLoRA, 24 GB", quantised))
    values = {"big": memory(big.device_bytes), "small": memory(small.device_bytes)}
    values["qlora"] = memory(quantised.device_bytes)
    return Shown(fits(big) and not fits(small) and fits(quantised), lines, values)


def _lora_7b_24gb() -> Shown:
    found = trained(_7B, "rtx-4090", 1, method="lora")
    free = trained(_7B, "rtx-4090", 1, method="lora", layout={"recompute": "none"})
    lines = (verdict(f"recompute {found.layout.recompute}", found), verdict("recompute none", free))
    values = {"need": memory(found.device_bytes), "free": memory(free.device_bytes)}
    return Shown(fits(found), lines, values)


def _full_13b_48gb() -> Shown:
    mixed = trained(_13B, "l40s", 4)
    pure = trained(_13B, "l40s", 4, scheme="pure")
    lines = (verdict("4 × L40S, 16 B/P", mixed), verdict("4 × L40S, 8 B/P", pure))
    values = {"states": disk(size(states_of(_13B))), "mixed": memory(mixed.device_bytes)}
    return Shown(fits(mixed), lines, {**values, "pure": memory(pure.device_bytes)})


def _tier_70b() -> Shown:
    full, lora = trained(_70B, "h100-sxm", 8), trained(_70B, "h100-sxm", 4, method="lora")
    offloaded = trained(_70B, "h100-sxm", 8, offload="all")
    values = {"full": memory(full.device_bytes), "lora": memory(lora.device_bytes)}
    lines = (
        verdict("8 × 80 GB, full", full),
        verdict("4 × 80 GB, LoRA", lora),
        f"8 × 80 GB, offload: host {memory(offloaded.host_bytes)}",
    )
    return Shown(fits(lora) and not fits(full), lines, {**values, "host": memory(offloaded.host_bytes)})


def _full_7b_80gb() -> Shown:
    one, two = trained(_7B, "h100-sxm", 1), trained(_7B, "l40s", 2)
    pure = trained(_7B, "h100-sxm", 1, scheme="pure")
    eight = trained(_7B, "h100-sxm", 1, scheme="pure", optimizer="adamw-8bit")
    lines = (
        verdict("1 × 80 GB, 16 B/P", one),
        verdict("2 × 48 GB, 16 B/P", two),
        verdict("1 × 80 GB, 8 B/P", pure),
        verdict("1 × 80 GB, 6 B/P", eight),
    )
    values = {"states": disk(size(states_of(_7B))), "pure": memory(pure.device_bytes)}
    return Shown(fits(one) and fits(two), lines, {**values, "eight": memory(eight.device_bytes)})


def _host_memory() -> Shown:
    values, lines = {}, []
    for key, name in (("13b", _13B), ("32b", "qwen2.5-32b"), ("70b", _70B)):
        found = trained(name, "h100-sxm", 8, offload="all")
        values[key] = disk(found.host_bytes)
        lines.append(f"{model(name).title}: host Σ = {disk(found.host_bytes)} ({memory(found.host_bytes)})")
    enough = trained(_13B, "h100-sxm", 8, offload="all").host_bytes <= TB
    return Shown(enough, tuple(lines), values)


def _qwen_fp16() -> Shown:
    term = frozen_weights(model("qwen2.5-72b"), Layout(), "only", FORMATS["fp16"])
    lines = (line(term), f"RTX 5090: {memory(gpu('rtx-5090').usable_bytes)}")
    return Shown(term.size <= 128 * GB, lines, {"weights": disk(term.size), "gib": memory(term.size)})


MEMORY: dict[str, Arithmetic] = {
    "weights-70b": _weights_70b,
    "adam-four-copies": _adam_560,
    "activations-of-parameters": _activations,
    "one-card-trains-70b": _one_card_70b,
    "lora-70b-below-40gb": _lora_70b,
    "checkpoint-100gb": _checkpoint_100gb,
    "checkpoint-tens-of-gb": _checkpoint_tens,
    "eight-h100-pretrain-700b": _pretrains,
    "full-70b-by-qlora": _full_by_qlora,
    "lora-70b-in-80gb": _lora_70b_four,
    "desktop-full-13b": _full_13b_128gb,
    "desktop-72b-fp16": _qwen_fp16,
    "flash-attention-3": _flash,
    "activation-checkpointing": _checkpointing,
    "zero-is-linear": _zero,
    "twelve-bytes": _twelve_bytes,
    "zero2-13b-two-cards": _zero2_13b,
    "lora-memory-parts": _lora_terms,
    "lora-13b-24-to-48gb": _lora_13b,
    "entry-tier-7b-lora": _lora_7b_24gb,
    "mainstream-tier-13b-full": _full_13b_48gb,
    "high-tier-70b-training": _tier_70b,
    "full-7b-80gb": _full_7b_80gb,
    "host-memory-offload": _host_memory,
}
