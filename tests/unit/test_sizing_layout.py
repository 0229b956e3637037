"""The search finds what trying every layout finds: same winner, same order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from llmhw_provision.catalogue.loader import Gpu, find
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.cards import Card, card_of
from llmhw_provision.sizing.chips import chip_of
from llmhw_provision.sizing.compute import training_step, uneven_share
from llmhw_provision.sizing.decode import Serving
from llmhw_provision.sizing.estimate import Estimate, Hardware, estimate, limit
from llmhw_provision.sizing.job import Job, Layout, Sharder, under
from llmhw_provision.sizing.layout import Floor, best, describe, fewest, level, search, simplicity
from llmhw_provision.sizing.legal import Space, divisors, spread_rules
from llmhw_provision.sizing.limits import require
from llmhw_provision.sizing.network import Links
from llmhw_provision.sizing.speed import links_of, served
from llmhw_provision.sizing.step_time import StepTimes
from llmhw_provision.sizing.terms import total
from llmhw_provision.sizing.training import Known, gradients_persist, moments
from llmhw_provision.sizing.why import parts_of
from llmhw_provision.units import GIB
from llmhw_provision.workload import Parallel
from tests.unit.sizing_setups import model

LORA = Job(sequence=4096, method="lora")


def hardware(gpu: str, gpus: int, nodes: int = 1, host: int = 0) -> Hardware:
    return Hardware(card_of(find("gpus", gpu, Gpu), gpu), gpus, nodes, host)


def sharder(zero: int, layout: Layout) -> Sharder:
    if zero > 1:
        return "fsdp"
    if layout.tp * layout.pp * layout.cp * layout.ep > 1:
        return "megatron"
    return "deepspeed" if zero else "ddp"


def every_frame(space: Space, offloads: tuple[tuple[bool, bool], ...]) -> list[Layout]:
    """Each combination of numbers up to that of the GPUs, held against the rules one by one."""
    gpus, found = space.hardware.all_gpus, []
    ways = range(1, gpus + 1)
    contexts = ways if space.job.trains else (1,)
    experts = range(1, space.model.experts + 1) if space.model.experts and space.job.method == "full" else (1,)
    for tp, pp, cp in product(ways, ways, contexts):
        base = Layout(gpus=gpus, nodes=space.hardware.nodes, tp=tp, pp=pp, cp=cp)
        if gpus % (tp * pp * cp) or spread_rules(space, base):
            continue
        caches = (1,) if space.job.trains else range(1, tp + 1)
        for ep, dcp, zero, (optimizer, params) in product(
            experts, caches, range(4) if space.job.trains else (0,), offloads
        ):
            frame = replace(base, ep=ep, dcp=dcp, zero=zero, offload_optimizer=optimizer, offload_params=params)
            frame = replace(frame, sequence_parallel=tp > 1 and space.job.trains)
            frame = replace(frame, sharder=sharder(zero, frame) if space.job.trains else "ddp")
            alone = frame.dp * cp == 1 and zero and not optimizer
            if frame.dp * cp % ep or alone or (pp > 1 and (zero == 2 or optimizer)) or (optimizer and zero < 2):
                continue
            split = max(tp, pp, cp, ep) > 1
            if space.job.trains and split and (zero > 1 or space.job.kind not in ("pretrain", "sft")):
                continue  # no launcher has FSDP within split tensors, none splits preferences
            try:
                require(space.model, space.job, frame)
            except InputError:
                continue
            found.append(frame)
    return found


def every(space: Space, offloads: tuple[tuple[bool, bool], ...] = ((False, False),)) -> list[Layout]:
    """Each frame with each recomputation and each micro-batch that divides a rank's samples."""
    frames = every_frame(space, offloads)
    if not space.job.trains:
        return frames
    found = []
    for frame, recompute in product(frames, ("none", "selective-op", "full")):
        samples = -(-space.batch // frame.dp)
        for micro in range(1, samples + 1):
            if samples % micro == 0:
                count = samples // micro
                found.append(replace(frame, recompute=recompute, micro_batch=micro, micro_batches=count))  # type: ignore[arg-type]
    return found


def whole(space: Space, layout: Layout) -> tuple[float, Estimate]:
    job = space.job
    if not job.trains:
        job = replace(job, concurrency=-(-job.concurrency // layout.dp))
    found = estimate(job, space.model, space.hardware, layout)
    assert space.chip is not None
    if not job.trains:
        return served(found, space.chip).token_seconds, found
    step = training_step(space.model, job, layout, links_of(space.hardware, space.chip))
    return step.seconds, found


def brute(space: Space, count: int) -> list[tuple[float, Layout]]:
    tried = [whole(space, layout) for layout in every(space)]
    if all(item.verdict != "fits" for _, item in tried):
        tried += [whole(space, layout) for layout in every(space, ((True, False), (True, True)))]
    good = [(seconds, item) for seconds, item in tried if item.verdict != "does not fit"]
    if not good:
        own = [(seconds, item) for seconds, item in tried if not item.layout.offload_optimizer]
        seconds, least = min(own, key=lambda item: (item[1].device_bytes, simplicity(item[1].layout)))
        return [(seconds, least.layout)]
    found: list[tuple[float, Layout]] = []
    for verdict in ("fits", "tight"):
        same = [(seconds, item.layout) for seconds, item in good if item.verdict == verdict]
        for exact in (True, False):
            some = [(seconds, layout) for seconds, layout in same if space.exact(layout) == exact]
            fastest = min((seconds for seconds, _ in some), default=0.0)
            found += sorted(some, key=lambda each: (level(each[0], fastest), simplicity(each[1]), each[0]))
    return found[:count]


SPACES = {
    "8B in full": Space(Job(sequence=8192), model("llama-3.1-8b"), hardware("h100-sxm", 4), batch=4),
    "8B in full, bridged pairs": Space(Job(sequence=2048), model("llama-3.1-8b"), hardware("h100-pcie", 4), batch=12),
    "8B in full, two hosts": Space(Job(sequence=4096), model("llama-3.1-8b"), hardware("a100-sxm-80", 2, 2), batch=4),
    "70B adapters": Space(LORA, model("llama-3.1-70b"), hardware("h100-pcie", 4), batch=16),
    "7B, only tight": Space(Job(sequence=2048), model("qwen2.5-7b"), hardware("rtx-4090", 8), batch=8),
    "7B, states in the host": Space(
        Job(sequence=2048), model("qwen2.5-7b"), hardware("l40s", 2, host=512 * GIB), batch=4
    ),
    "8 experts": Space(Job(sequence=4096), model("mixtral-8x7b"), hardware("h200-sxm", 8), batch=8),
    "preferences": Space(Job(kind="dpo", sequence=2048), model("qwen2.5-7b"), hardware("h100-sxm", 4), batch=4),
    "a batch that not every layout makes up": Space(
        Job(sequence=4096), model("llama-3.1-8b"), hardware("h100-sxm", 8), batch=12
    ),
    "does not fit": Space(Job(sequence=4096), model("llama-3.1-70b"), hardware("a100-sxm-40", 4), batch=8),
    "served": Space(
        Job(kind="serve", concurrency=24, context=8192), model("llama-3.1-70b"), hardware("h100-sxm", 8), batch=1
    ),
    "experts served": Space(
        Job(kind="serve", concurrency=512, context=4096), model("qwen3-30b-a3b"), hardware("h100-sxm", 8), batch=1
    ),
    "served over PCIe": Space(
        Job(kind="serve", concurrency=5, context=4096), model("qwen2.5-7b"), hardware("rtx-4090", 4), batch=1
    ),
}


@pytest.mark.parametrize("name", SPACES)
def test_the_search_ranks_as_trying_every_layout_does(name: str) -> None:
    space = SPACES[name]
    found = search(space, 12)
    assert [(item.seconds, item.layout) for item in found.ranked] == brute(space, 12)
    assert found.legal >= len(every(space))


def test_the_bound_is_below_every_need_and_drops_most() -> None:
    space = SPACES["7B, only tight"]
    assert space.chip is not None
    known, dropped, layouts = Known(), 0, every(space)
    floor, times = (
        Floor(limit(space.job, space.hardware.card.usable)),
        StepTimes(space.model, space.job, links_of(space.hardware, space.chip)),
    )
    for layout in layouts:
        seconds, item = whole(space, layout)
        assert times.seconds(layout) == seconds
        assert moments(space.model, space.job, layout, known=known) == item.moments
        job, need = under(space.job, layout), 0
        for stage in layout.stages:
            held, active = known.held(space.model, job, layout, stage), known.active(space.model, job, layout, stage)
            size = total((*held.kept, *active.kept, *active.loss))
            need = max(need, size + (total(held.gradients) if gradients_persist(layout) else 0))
        assert need <= item.device_bytes
        assert floor.may_fit(need) or item.verdict != "fits"
        assert floor.may_be_tight(need) or item.verdict == "does not fit"
        dropped += not floor.may_be_tight(need)
    assert dropped > len(layouts) / 2


def test_layouts_that_differ_in_nothing_visible_go_by_simplicity() -> None:
    plain = Layout(gpus=8, zero=3, sharder="fsdp")
    others = [replace(plain, tp=2), replace(plain, recompute="full"), replace(plain, micro_batches=2)]
    others += [replace(plain, offload_optimizer=True), replace(plain, cp=2, tp=2)]
    assert all(simplicity(plain) < simplicity(other) for other in others)
    assert level(7.9, 7.9) == level(8.0, 7.9) == 0
    assert (level(8.1, 7.9), level(8.25, 7.9)) == (1, 2)


def test_tensor_parallelism_stays_inside_a_bridged_pair() -> None:
    for gpu, most in (("h100-pcie", 2), ("l40s", 2), ("h100-sxm", 8)):
        space = Space(Job(sequence=4096), model("llama-3.1-8b"), hardware(gpu, 8), batch=8)
        assert max(frame.tp for frame in space.frames()) == most
    space = Space(Job(), model("llama-3.1-8b"), hardware("h100-pcie", 8), Parallel(tp=4), batch=8)
    assert {frame.tp for frame in space.frames()} == {4}  # given is taken as it is
    serve = Space(Job(kind="serve"), model("llama-3.1-70b"), hardware("l40s", 8))
    assert max(frame.tp for frame in serve.frames()) == 8  # priced over PCIe


def test_a_pair_is_priced_by_its_bridge_and_what_lies_beyond_by_pcie() -> None:
    space = Space(Job(sequence=4096), model("llama-3.1-8b"), hardware("h100-pcie", 4), batch=8)
    seconds = {}
    for tp in (2, 4):
        layout = Layout(gpus=4, tp=tp, sharder="megatron", sequence_parallel=True, micro_batches=8 // (4 // tp))
        step = training_step(space.model, space.job, layout, links_of(space.hardware, chip_of("h100-pcie")))
        seconds[tp] = next(part.seconds for part in step.parts if part.name == "tensor parallel")
    assert seconds[4] > 10 * seconds[2]


def test_divided_gradients_are_reduced_in_every_micro_step() -> None:
    def moved(layout: Layout) -> float:
        step = training_step(model("llama-3.1-8b"), Job(), layout, Links(chip_of("h100-sxm")))
        return next(part.moved for part in step.parts if part.name == "gradients")

    once = moved(Layout(gpus=8, zero=1, sharder="deepspeed", micro_batches=4))
    assert moved(Layout(gpus=8, zero=1, sharder="deepspeed")) == once
    assert moved(Layout(gpus=8, zero=2, sharder="deepspeed", micro_batches=4)) == pytest.approx(5 / 2 * once)
    assert moved(Layout(gpus=8, zero=2, sharder="fsdp", micro_batches=4)) == pytest.approx(4 * once)


def test_uneven_stages_cost_what_the_fullest_one_works() -> None:
    assert uneven_share(32, 4) == 0
    assert uneven_share(126, 16) == 0  # 126 layers, embedding and head
    assert uneven_share(61, 16) == pytest.approx(64 / 63 - 1)
    assert uneven_share(80, 32) == pytest.approx(96 / 82 - 1)
    layout = Layout(gpus=6, pp=3, sharder="megatron", micro_batches=6)
    step = training_step(model("llama-3.1-8b"), Job(), layout, Links(chip_of("h100-sxm"), 6))
    assert {"uneven stages", "pipeline bubble"} <= {part.name for part in step.parts}


def test_the_largest_models() -> None:
    found = search(Space(Job(sequence=8192), model("llama-3.1-405b"), hardware("h100-sxm", 8, 128), batch=2048), 3)
    first = found.ranked[0]
    assert (first.layout.tp, first.estimate.verdict) == (8, "fits")
    assert first.layout.pp >= 8
    assert found.estimated < found.legal / 20


def test_contradictions_are_named_and_not_searched() -> None:
    with pytest.raises(InputError) as raised:
        best(Job(), model("llama-3.1-8b"), hardware("h100-sxm", 8), Parallel(tp=3), 8)
    assert "tp 3 does not divide the 32 attention heads" in [problem.message for problem in raised.value.problems]
    with pytest.raises(InputError, match="zero 2 contradicts sharder megatron"):
        best(Job(), model("llama-3.1-8b"), hardware("h100-sxm", 8), Parallel(zero=2, sharder="megatron"), 8)


@pytest.mark.parametrize("given", [Parallel(micro_batches=4), Parallel(micro_batch=4), Parallel(offload="optimizer")])
def test_what_does_not_fit_as_it_is_given_is_still_shown(given: Parallel) -> None:
    found = best(Job(), model("llama-3.1-70b"), hardware("a100-sxm-40", 2, host=512 * GIB), given, 64)
    assert found.verdict == "does not fit"
    assert all(getattr(found.layout, name) == value for name, value in given if value and name != "offload")
    assert found.layout.offload_optimizer is (given.offload == "optimizer")


def test_without_a_chip_the_simplest_that_fits() -> None:
    found = best(Job(), model("llama-3.1-8b"), Hardware(Card("80 GB", 80_000 * 2**20, 80), 8), Parallel(), 8)
    assert describe(found.job, found.layout).startswith("ZeRO-")


def test_experts_and_latent_caches_are_spread_over_the_ranks_of_a_server() -> None:
    serve = Job(kind="serve", weights="fp8", concurrency=64, context=8192)
    space = Space(serve, model("deepseek-v3"), hardware("h100-sxm", 8, 2))
    best_one = search(space).ranked[0]
    assert best_one.estimate.verdict == "fits"
    assert (best_one.layout.tp * best_one.layout.ep, best_one.layout.dcp > 1) == (16, True)
    parts = {part.name for part in parts_of(best_one.estimate)}
    assert {"expert parallel", "decode context parallel"} <= parts
    for given, message in ((Parallel(cp=3, tp=8), "cp 3 does not divide the 8"), (Parallel(ep=3), "ep 3")):
        with pytest.raises(InputError, match=message):
            search(replace(space, given=given))
    with pytest.raises(InputError, match="cp 2 does not divide the 1 tensor-parallel ranks"):
        search(Space(serve, model("llama-3.1-70b"), hardware("h100-sxm", 8), Parallel(cp=2, tp=8)))


def test_a_batch_visits_the_experts_of_all_ranks() -> None:
    of = Serving(model("mixtral-8x7b"), "bf16", Layout(), chip_of("h100-sxm"), batch=1, context=1024, engine="vllm")
    spread = replace(of, layout=Layout(ep=8))
    experts = of.model.group_parameters("experts") * 2
    assert of.read - experts * 2 / 8 == pytest.approx(spread.read - experts * (1 - (1 - 2 / 8) ** 8) / 8, rel=1e-6)


def test_fewest_looks_at_every_layout() -> None:
    card = card_of(find("gpus", "h100-sxm", Gpu), "h100-sxm")
    serve = Job(kind="serve", context=4096)
    assert fewest(model("deepseek-v3"), serve, card) == 32  # two hosts and more: TP 8 and pipeline stages
    assert fewest(model("llama-3.1-405b"), Job(sequence=4096), card) <= 128


@pytest.mark.parametrize("count", [1, 12, 64, 97])
def test_divisors(count: int) -> None:
    assert divisors(count) == [ways for ways in range(1, count + 1) if count % ways == 0]
