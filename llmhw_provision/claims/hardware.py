"""Claims about parts, links, storage, power and serving."""

from __future__ import annotations

from fractions import Fraction

from llmhw_provision.catalogue.loader import CpuKind, DiskKind, MachineKind, NicKind, find
from llmhw_provision.catalogue.software import software
from llmhw_provision.claims.engine import Arithmetic, Shown, about, fits, gpu, line, model, served, verdict
from llmhw_provision.sizing import kv
from llmhw_provision.sizing.checkpoint import DISK_REACHED, token_bytes
from llmhw_provision.sizing.chips import chip_of
from llmhw_provision.sizing.compute import training_step
from llmhw_provision.sizing.decode import Serving, decode_step
from llmhw_provision.sizing.formats import FORMATS
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.network import PCIE, Links, seconds
from llmhw_provision.sizing.power import power
from llmhw_provision.sizing.states import frozen_weights
from llmhw_provision.units import GB, disk, memory


def _nvlink() -> Shown:
    chip = chip_of("h100-sxm")
    both, pcie = gpu("h100-sxm").nvlink_gbs_both_ways, 2 * PCIE[5] / GB
    reduced = Links(chip, 8).bus(8, collective="all-reduce") / GB
    lines: tuple[str, ...] = (
        f"NVLink 4: {both:.0f} = 2 × {chip.nvlink / GB:.0f} GB/s",
        f"PCIe 5 x16: {pcie:.0f} = 2 × {pcie / 2:.0f} GB/s",
    )
    lines += (f"all-reduce, 8 × H100: {reduced:.0f} GB/s",)
    values = {"one": f"{chip.nvlink / GB:.0f}", "pcie": f"{pcie / 2:.0f}", "reduced": f"{reduced:.0f}"}
    return Shown(both >= 900 and about(pcie, 128), lines, values)


def _fp8() -> Shown:
    found = [gpu(name) for name in ("h100-sxm", "rtx-5090", "rtx-4090", "l40s")]
    lines = tuple(f"{item.title}: FP8 {item.tflops_fp8:.0f}, 16 bit {item.tflops_16bit:.0f} TFLOP/s" for item in found)
    return Shown(all(item.tflops_fp8 for item in found), lines)


def _low_precision() -> Shown:
    lines: list[str] = []
    ratios: list[float] = []
    for item in (gpu("h100-sxm"), gpu("rtx-5090")):
        pair = (item.tflops_16bit / item.tflops_32bit, item.tflops_fp8 / item.tflops_32bit)
        ratios += pair
        plain = f"{item.tflops_32bit:.0f}"
        text = f"{item.tflops_16bit:.0f} / {plain} = {pair[0]:.1f}; {item.tflops_fp8:.0f} / {plain} = {pair[1]:.1f}"
        lines.append(f"{item.title}: {text}")
    names = ("h16", "h8", "g16", "g8")
    values = {name: f"{ratio:.0f}" for name, ratio in zip(names, ratios, strict=True)}
    return Shown(all(4 <= ratio <= 8 for ratio in ratios), tuple(lines), values)


def _token_reads() -> Shown:
    of = model("llama-3.1-8b")
    layout = Layout(gpus=8, zero=3, sharder="fsdp", micro_batch=1, micro_batches=2)
    step = training_step(of, Job(kind="pretrain", sequence=8192), layout, Links(chip_of("h100-sxm"), 8))
    each = token_bytes(of.vocab)
    rate = step.tokens_per_second * each
    lines = (f"{step.tokens_per_second:,.0f} tokens/s × {each} B = {rate / 1e6:.2f} MB/s",)
    return Shown(rate >= 10 * GB, lines, {"rate": f"{rate / 1e6:.2f} MB/s"})


def _two_sockets() -> Shown:
    kind = find("machines", "alphapro660", MachineKind)
    cpu = find("cpus", kind.cpu.kind, CpuKind)
    every = kind.cpu.sockets * cpu.cores
    lines = (f"{kind.cpu.sockets} × {cpu.cores} = {every}", f"{cpu.title}: DDR5-{cpu.memory_mts} < DDR5-6400")
    return Shown(cpu.cores == 128, lines, {"all": str(every), "rate": str(cpu.memory_mts)})


def _raid() -> Shown:
    kind = find("machines", "alphapro660", MachineKind)
    data = next(disks for disks in kind.disks if not disks.system)
    drive = find("disks", data.kind, DiskKind)
    each = drive.read_gbs * DISK_REACHED
    count = -int(-60 // each)
    write = count * drive.write_gbs * DISK_REACHED
    lines = (
        f"60 / ({drive.read_gbs:g} × {DISK_REACHED:g}) → {count}",
        f"{count} × {drive.write_gbs:g} × {DISK_REACHED:g} = {write:.0f} GB/s",
    )
    return Shown(data.count * each >= 60, lines, {"count": str(count), "write": f"{write:.0f}"})


def _one_port() -> Shown:
    rate = find("nics", "connectx-7-ndr", NicKind).rate_gbit / 8 * GB
    of, job = model("llama-3.1-8b"), Job(kind="pretrain", sequence=8192)
    layout = Layout(gpus=1024, nodes=128, zero=3, sharder="fsdp", micro_batch=1)
    one, eight = (training_step(of, job, layout, Links(chip_of("h100-sxm"), 8, rate * n / 8)) for n in (1, 8))
    lines: tuple[str, ...] = (
        f"{rate * 8 / GB:.0f} Gbit/s / 8 = {rate / GB:.0f} GB/s; / 8 GPU = {rate / 8 / GB:.2f} GB/s",
    )
    lines += tuple(
        f"8B, 1024 GPU, {n} × NDR: {item.seconds:.2f} s, MFU {item.mfu:.2f}" for n, item in ((1, one), (8, eight))
    )
    values = {"each": f"{rate / 8 / GB:.2f}", "slower": f"{one.seconds / eight.seconds:.1f}"}
    return Shown(rate == 50 * GB, lines, values)


def _microseconds() -> Shown:
    bus = Links(chip_of("h100-sxm"), 8).bus(8, collective="all-reduce")
    small, large = (seconds(size, "all-reduce", 8, bus) for size in (1e6, GB))
    lines = (f"1 MB: 2 × 7/8 × 1 MB / {bus / GB:.0f} GB/s = {small * 1e6:.1f} µs", f"1 GB: {large * 1e3:.1f} ms")
    return Shown(small < 1e-4, lines, {"small": f"{small * 1e6:.0f}", "large": f"{large * 1e3:.1f}"})


def _power() -> Shown:
    drawn = power(gpus=8, gpu_watts=gpu("h100-sxm").power_w, switched=True)
    lines = (f"8 × {gpu('h100-sxm').power_w} W = {drawn.gpus:,} W", f"{drawn.formula} = {drawn.host:,} W")
    return Shown(drawn.gpus == 5600, lines, {"host": f"{drawn.host / 1000:.1f}"})


def _rtx_5090() -> Shown:
    item = gpu("rtx-5090")
    lines = (f"{item.title}: {item.memory_gb_marketing} GB, {memory(item.usable_bytes)}, {item.power_w} W",)
    values = {"gb": str(item.memory_gb_marketing), "gib": memory(item.usable_bytes), "watts": str(item.power_w)}
    return Shown(item.memory_gb_marketing >= 128, lines, values)


def _official(kind: str, quoted: int) -> Shown:
    cpu = find("cpus", kind, CpuKind)
    lines = (f"{cpu.title}: DDR5-{cpu.memory_mts} < DDR5-{quoted}",)
    return Shown(cpu.memory_mts < quoted, lines, {"title": cpu.title, "rate": str(cpu.memory_mts)})


def _threadripper() -> Shown:
    return _official("threadripper-pro-7985wx", 6400)


def _i9_memory() -> Shown:
    return _official("core-i9-14900k", 7200)


def _i9() -> Shown:
    cpu = find("cpus", "core-i9-14900k", CpuKind)
    return Shown(cpu.cores == 24, (f"{cpu.title}: {cpu.cores} / {cpu.threads}",), {"threads": str(cpu.threads)})


def _bridge() -> Shown:
    lines = tuple(
        f"{gpu(name).title}: {gpu(name).nvlink_gbs_both_ways:g} GB/s" for name in ("h100-pcie", "rtx-5090", "l40s")
    )
    right = gpu("h100-pcie").nvlink_gbs_both_ways > 0 and gpu("rtx-5090").nvlink_gbs_both_ways == 0
    return Shown(right, lines, {"bridge": f"{gpu('h100-pcie').nvlink_gbs_both_ways:g}"})


def _no_nvlink() -> Shown:
    found = [gpu(name) for name in ("l40s", "rtx-6000-ada")]
    lines = tuple(
        f"{item.title}: NVLink {item.nvlink_gbs_both_ways:g} GB/s, {item.nvlink_links} links" for item in found
    )
    return Shown(all(item.nvlink_gbs_both_ways for item in found), lines)


def _kv() -> Shown:
    of = model("llama-13b")
    term = kv.kv_cache(of, Layout(), context=2048, concurrency=1, kv="fp16")
    waste = Fraction(kv.BLOCK - 1, 2048)
    lines = (line(term), f"({kv.BLOCK} - 1) / 2048 = {float(waste):.1%}")
    return Shown(about(term.size, 1.7 * GB) and waste < Fraction(4, 100), lines, {"kv": f"{term.size / GB:.2f}"})


def _sparse() -> Shown:
    item = gpu("h100-sxm")
    lines = (f"{item.tflops_fp8:.0f} × 2 (2:4) = {2 * item.tflops_fp8:.0f} TFLOP/s",)
    return Shown(about(2 * item.tflops_fp8, 3958, 0.001), lines, {"dense": f"{item.tflops_fp8:,.0f}"})


def _h100() -> Shown:
    item = gpu("h100-sxm")
    lines = (f"{item.memory_gb_marketing} GB, {item.memory_bandwidth_gbs:.0f} GB/s, {item.power_w} W",)
    right = item.memory_gb_marketing == 80 and item.memory_bandwidth_gbs == 3350 and item.power_w <= 700
    return Shown(right, lines, {"gib": memory(item.usable_bytes)})


def _decode() -> Shown:
    chip = chip_of("h100-sxm")
    dense = Serving(model("llama-3.1-8b"), "bf16", Layout(), chip, engine="vllm")
    sparse = Serving(model("qwen3-30b-a3b"), "bf16", Layout(), chip, engine="vllm")
    every = frozen_weights(sparse.model, Layout(), "only", FORMATS["bf16"]).size
    part = decode_step(dense)[0]
    lines: tuple[str, ...] = (f"{dense.model.title}: {part.name}: {part.formula}",)
    lines += (f"{sparse.model.title}: {sparse.read / GB:.1f} / {every / GB:.1f} GB",)
    values = {"read": f"{sparse.read / GB:.1f}", "all": f"{every / GB:.1f}", "dense": f"{dense.read / GB:.1f}"}
    return Shown(part.name == "memory", lines, values)


def _python() -> Shown:
    wanted = software().python_packages["torch"].requires_python
    return Shown(wanted.startswith(">=3.10"), (f"torch: Requires-Python {wanted}",), {"wanted": wanted})


def _kv_linear() -> Shown:
    def cached(name: str, context: int, count: int) -> int:
        return kv.kv_cache(model(name), Layout(), context=context, concurrency=count, kv="bf16").size

    full, sliding = "llama-3.1-8b", "gemma-3-27b"
    once, twice, longer = cached(full, 8192, 1), cached(full, 8192, 2), cached(full, 16384, 1)
    ratio = cached(sliding, 16384, 1) / cached(sliding, 8192, 1)
    lines: tuple[str, ...] = (
        f"{model(full).title}: {disk(once)} → × 2 requests {disk(twice)}; × 2 tokens {disk(longer)}",
    )
    lines += (f"{model(sliding).title}: × 2 tokens → × {ratio:.2f}",)
    return Shown(twice == 2 * once == longer, lines, {"ratio": f"{ratio:.2f}"})


def _watts() -> Shown:
    found = [gpu(name) for name in ("rtx-4090", "l40s", "rtx-6000-ada")]
    lines = tuple(f"{item.title}: {item.power_w} W" for item in found)
    values = {"watts": str(found[0].power_w), "l40s": str(found[1].power_w)}
    return Shown(all(300 <= item.power_w <= 350 for item in found[:2]), lines, values)


def _serve_70b() -> Shown:
    found = [served("llama-3.1-70b", kind, count, weights="fp16") for kind, count in (("h100-pcie", 4), ("l40s", 8))]
    two = served("llama-3.1-70b", "h100-pcie", 2, weights="fp16", concurrency=1)
    lines = tuple(verdict(f"{item.hardware.gpus} × {item.hardware.card.nominal} GB", item) for item in (*found, two))
    kept = [item.cache.cache if item.cache else 0 for item in (found[0], two)]
    values = {"four": memory(kept[0]), "two": memory(kept[1])}
    lines += (f"KV: 4 × 80 GB {values['four']} / GPU; 2 × 80 GB {values['two']} / GPU",)
    return Shown(all(map(fits, found)), lines, values)


def _halves() -> Shown:
    lines, ratios = [], []
    for name in ("llama-3.1-70b", "llama-3.1-8b"):
        half, whole = (frozen_weights(model(name), Layout(), "only", FORMATS[form]).size for form in ("int8", "bf16"))
        ratios.append(half / whole)
        lines.append(f"{model(name).title}: {disk(half)} / {disk(whole)} = {half / whole:.0%}")
    values = {"large": f"{ratios[0]:.0%}", "small": f"{ratios[1]:.0%}"}
    return Shown(all(about(ratio, 0.5, 0.15) for ratio in ratios), tuple(lines), values)


def _quantised_70b() -> Shown:
    found = served("llama-3.1-70b", "l40s", 2, weights="int4")
    return Shown(fits(found), (verdict("2 × L40S, int4", found),), {"need": memory(found.device_bytes)})


HARDWARE: dict[str, Arithmetic] = {
    "nvlink-against-pcie": _nvlink,
    "native-fp8": _fp8,
    "low-precision-speed": _low_precision,
    "nvme-for-tokens": _token_reads,
    "epyc-128-cores": _two_sockets,
    "raid0-60gbs": _raid,
    "one-ndr-port": _one_port,
    "nvswitch-microseconds": _microseconds,
    "eight-cards-5600w": _power,
    "rtx-5090-128gb": _rtx_5090,
    "threadripper-memory": _threadripper,
    "nvlink-bridge": _bridge,
    "i9-cores": _i9,
    "i9-memory": _i9_memory,
    "kv-13b": _kv,
    "h100-fp8-3958": _sparse,
    "h100-memory": _h100,
    "decode-reads-weights": _decode,
    "python-310": _python,
    "kv-linear": _kv_linear,
    "nvlink-4-pcie-5": _nvlink,
    "tdp-300-350w": _watts,
    "serve-70b-fp16": _serve_70b,
    "int8-halves": _halves,
    "mainstream-tier-70b-quantised": _quantised_70b,
    "ada-nvlink": _no_nvlink,
}
