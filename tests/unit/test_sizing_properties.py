"""What must hold for every model, job and layout."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture, from_dimensions, from_parameters
from llmhw_provision.sizing.bands import band
from llmhw_provision.sizing.estimate import verdict
from llmhw_provision.sizing.formats import FORMATS
from llmhw_provision.sizing.job import Job, JobKind, Layout, Loss, Method, Optimizer, Recompute, Scheme
from llmhw_provision.sizing.limits import require
from llmhw_provision.sizing.search import need
from llmhw_provision.sizing.shards import held, parameters
from llmhw_provision.sizing.states import training_states
from llmhw_provision.sizing.terms import total
from llmhw_provision.sizing.training import moments

POWERS = st.sampled_from([1, 2, 4, 8])


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    heads = draw(st.sampled_from([8, 16, 32]))
    experts = draw(st.sampled_from([0, 0, 8]))
    layers = draw(st.integers(8, 40))
    width = draw(st.integers(1, 64)) * 64
    return from_dimensions(
        hidden=heads * 64,
        layers=layers,
        heads=heads,
        kv_heads=draw(st.sampled_from([1, 2, 8])),
        ffn=width,
        vocab=draw(st.integers(1000, 200_000)),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        norm_bias=draw(st.booleans()),
        experts=experts,
        experts_per_token=2 if experts else 0,
        moe_ffn=width if experts else 0,
        moe_layers=layers if experts else 0,
        sliding_window=draw(st.sampled_from([0, 128])),
        sliding_layers=draw(st.sampled_from([0, 4])),
    )


def choice(kind: object) -> st.SearchStrategy[str]:
    return st.sampled_from(get_args(kind))


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    return Job(
        kind=draw(choice(JobKind)),  # type: ignore[arg-type]
        method=draw(choice(Method)),  # type: ignore[arg-type]
        weights=draw(st.sampled_from(["bf16", "fp8", "int8", "int4", "nf4"])),
        scheme=draw(choice(Scheme)),  # type: ignore[arg-type]
        optimizer=draw(choice(Optimizer)),  # type: ignore[arg-type]
        in_backward=draw(st.booleans()),
        loss=draw(choice(Loss)),  # type: ignore[arg-type]
        sequence=draw(st.integers(1, 64)) * 128,
        flash=draw(st.booleans()),
        compile=draw(st.booleans()),
        rank=draw(st.integers(1, 256)),
        runtime=draw(st.sampled_from(["vllm", "transformers"])),
        concurrency=draw(st.integers(1, 500)),
        context=draw(st.integers(1, 20_000)),
        kv=draw(st.sampled_from(["bf16", "fp8"])),
    )


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    tp, pp, cp, dp = (draw(POWERS) for _ in range(4))
    sharder, zero = draw(
        st.sampled_from(
            [
                ("ddp", 0),
                ("deepspeed", 1),
                ("deepspeed", 2),
                ("deepspeed", 3),
                ("fsdp", 2),
                ("fsdp", 3),
                ("megatron", 1),
            ]
        )
    )
    return Layout(
        gpus=tp * pp * cp * dp,
        tp=tp,
        pp=pp,
        vpp=draw(st.sampled_from([1, 1, 2])),
        cp=cp,
        ep=draw(st.sampled_from([1, 1, 2])),
        zero=zero,
        sharder=sharder,  # type: ignore[arg-type]
        sequence_parallel=draw(st.booleans()),
        micro_batch=draw(st.integers(1, 16)),
        micro_batches=draw(st.integers(1, 16)),
        recompute=draw(choice(Recompute)),  # type: ignore[arg-type]
        offload_optimizer=draw(st.booleans()),
        offload_params=draw(st.booleans()),
        offload_activations=draw(st.booleans()),
    )


def possible(model: Architecture, job: Job, layout: Layout) -> bool:
    try:
        require(model, job, layout)
    except InputError:
        return False
    return True


@st.composite
def runs(draw: st.DrawFn) -> tuple[Architecture, Job, Layout]:
    """A model, a job and a layout that go together."""
    model, job, layout = draw(architectures()), draw(jobs()), draw(layouts())
    if not job.trains:
        job = replace(job, method="full", in_backward=False)
        layout = Layout(gpus=layout.gpus, tp=layout.tp, pp=layout.pp, cp=layout.cp)
    elif job.method == "full":
        job = replace(job, weights="bf16")
    else:
        job = replace(job, in_backward=False, kind="sft" if job.kind == "pretrain" else job.kind)
        job = replace(job, weights="bf16") if job.method == "qlora" else job
    if layout.zero < 3:
        layout = replace(layout, offload_params=False, offload_optimizer=layout.zero > 0 and layout.offload_optimizer)
    if layout.recompute == "selective" and job.flash:
        layout = replace(layout, recompute="none")
    layout = replace(
        layout,
        sequence_parallel=layout.sequence_parallel and layout.tp > 1,
        vpp=layout.vpp if layout.pp > 1 else 1,
        ep=layout.ep if model.experts else 1,
        micro_batches=1 if job.in_backward else layout.micro_batches,
    )
    assume(possible(model, job, layout))
    return model, job, layout


def device(model: Architecture, job: Job, layout: Layout) -> int:
    return need(model, job, layout).device


@settings(deadline=None, max_examples=60)
@given(runs())
def test_named_terms_sum_to_the_total(run: tuple[Architecture, Job, Layout]) -> None:
    found = need(*run)
    assert found.device == sum(term.size for term in found.terms)
    assert found.allocated <= found.reserved <= found.device
    assert all(term.size >= 0 and term.name and term.formula and term.source for term in found.terms)
    assert len({term.name for term in found.terms}) == len(found.terms)


@settings(deadline=None, max_examples=60)
@given(runs(), st.integers(1, 8), st.integers(1, 8))
def test_more_batch_sequence_context_or_requests_never_need_less(
    run: tuple[Architecture, Job, Layout], more: int, longer: int
) -> None:
    model, job, layout = run
    base = device(model, job, layout)
    assert device(model, job, replace(layout, micro_batch=layout.micro_batch + more)) >= base
    assert device(model, replace(job, sequence=job.sequence + 128 * longer * layout.cp), layout) >= base
    assert device(model, replace(job, context=job.context + longer), layout) >= base
    assert device(model, replace(job, concurrency=job.concurrency + more), layout) >= base


@settings(deadline=None, max_examples=60)
@given(runs(), st.integers(1, 8))
def test_a_larger_model_never_needs_less(run: tuple[Architecture, Job, Layout], more: int) -> None:
    model, job, layout = run
    base = device(model, job, layout)
    assert device(replace(model, ffn=model.ffn + 64 * more), job, layout) >= base
    assert device(replace(model, vocab=model.vocab + 1000 * more), job, layout) >= base
    deeper = replace(model, layers=model.layers + more, moe_layers=model.moe_layers + (more if model.experts else 0))
    assert device(deeper, job, layout) >= base


@settings(deadline=None, max_examples=60)
@given(st.integers(100_000_000, 10**12), st.sampled_from([1.2, 2.0, 5.0]))
def test_more_parameters_never_need_less(count: int, factor: float) -> None:
    few, many = (from_parameters(int(size)) for size in (count, count * factor))
    for job in (Job(), Job(method="qlora"), Job(kind="serve")):
        assert device(many, job, Layout(recompute="full")) >= device(few, job, Layout(recompute="full"))


@settings(deadline=None, max_examples=60)
@given(architectures(), st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_shards_sum_to_the_whole(model: Architecture, tp: int, pp: int) -> None:
    assume(possible(model, Job(), Layout(gpus=tp * pp, tp=tp, pp=pp)))
    whole = parameters(held(model, Layout()))
    assert whole == model.parameters
    layout = Layout(gpus=tp, tp=tp)
    parts = {part.group: part.parameters for part in held(model, layout)}
    replicated = sum(matrix.weights for matrix in model.matrices if not matrix.sharded)
    copies = (tp - 1) * (parts["vectors"] + replicated + model.position_rows * model.hidden)
    together = tp * parameters(held(model, layout)) - copies
    padding = 2 * 128 * tp * model.hidden + tp * len(parts)
    assert whole <= together <= whole + padding
    piped = Layout(gpus=pp, pp=pp)
    stages = pp * parameters(held(model, piped, "first"))
    assert stages + parameters(held(model, piped, "last")) >= whole


@settings(deadline=None, max_examples=60)
@given(architectures(), jobs(), st.integers(1, 512))
def test_shards_of_zero_sum_to_the_whole(model: Architecture, job: Job, ranks: int) -> None:
    job = replace(job, method="full", in_backward=False, optimizer="adamw")
    alone = training_states(model, job, Layout())
    spread = training_states(model, job, Layout(gpus=ranks, zero=3, sharder="fsdp"))
    for one, each in ((alone.weights, spread.weights), (alone.optimizer, spread.optimizer)):
        assert one is not None
        assert each is not None
        assert one.size <= ranks * each.size <= one.size + 12 * ranks * len(held(model, Layout()))


@settings(deadline=None, max_examples=60)
@given(architectures(), jobs(), POWERS, POWERS, st.sampled_from([1, 2, 8, 64, 512]))
def test_a_higher_zero_stage_never_needs_more_states(model: Architecture, job: Job, tp: int, pp: int, dp: int) -> None:
    layout = Layout(gpus=tp * pp * dp, tp=tp, pp=pp, sharder="deepspeed")
    assume(possible(model, Job(), replace(layout, sharder="ddp")))
    for stage in layout.stages:
        sizes = []
        for zero in range(4):
            found = training_states(model, job, replace(layout, zero=zero), stage)
            parts = (found.weights, found.gradients, found.optimizer, found.adapters)
            sizes.append(total(term for term in parts if term is not None))
        assert sizes == sorted(sizes, reverse=True)


@settings(deadline=None, max_examples=40)
@given(runs())
def test_the_peak_is_the_largest_moment(run: tuple[Architecture, Job, Layout]) -> None:
    model, job, layout = run
    assume(job.trains)
    found = moments(model, job, layout)
    assert need(model, job, layout).device == max(moment.device for moment in found)
    assert any(moment.name == "optimizer step" for moment in found)


@given(st.integers(0, 10**12), st.integers(0, 10**11), st.integers(1, 10**12))
def test_verdicts_follow_the_band(size: int, uncertain: int, room: int) -> None:
    found = verdict(size, uncertain, room)
    assert (found == "fits") == (size + uncertain <= room)
    assert (found == "does not fit") == (size - uncertain > room)


@settings(deadline=None, max_examples=50)
@given(runs())
def test_the_band_is_within_the_need(run: tuple[Architecture, Job, Layout]) -> None:
    found = need(*run)
    assert 0 < band(found.terms) < found.device


def test_every_format_keeps_at_least_what_its_bits_say() -> None:
    model = from_parameters(10**9)
    for form in FORMATS.values():
        assert form.bytes_of("vectors") in (2, 4)
        assert 0 < form.bits <= 32, model.title
