"""Reinforcement learning and preference training: the models beside the one that is trained, and generation."""

from __future__ import annotations

from llmhw_provision.model import Architecture
from llmhw_provision.sizing.formats import FORMATS, format_of
from llmhw_provision.sizing.job import Job, Layout
from llmhw_provision.sizing.kv import kv_cache
from llmhw_provision.sizing.states import frozen_weights, training_states
from llmhw_provision.sizing.terms import Term, total, up

PPO = "InstructGPT, Ouyang et al. 2022, arXiv 2203.02155: actor and critic are trained, reference and reward are frozen"
DPO = "Direct Preference Optimization, Rafailov et al. 2023, arXiv 2305.18290: a frozen reference beside the policy"
GRPO = "DeepSeekMath, Shao et al. 2024, arXiv 2402.03300: no critic, a frozen reference"
_HYBRID = "verl, OpenRLHF hybrid engine: weights in the layout of the inference engine beside the training shards"
_DOMAIN = 8  # GPUs of one NVLink domain, over which the inference engine spreads its weights


def other_models(model: Architecture, job: Job, layout: Layout, stage: str) -> list[Term]:
    """Frozen and trained models beside the policy, each as large as the policy. Adapters need no reference copy."""
    frozen = [*job.beside]
    if job.kind in ("dpo", "ppo", "grpo") and job.method == "full":
        frozen.append("reference")
    trained: list[str] = []
    source = {"ppo": PPO, "grpo": GRPO, "dpo": DPO}.get(job.kind, PPO)
    if job.kind == "ppo":
        frozen.append("reward model")
        trained = ["critic"]
    found = []
    if not layout.offload_params:
        for name in frozen:
            base = frozen_weights(model, layout, stage, FORMATS["bf16"])
            found.append(Term(name, base.size, base.formula, source))
    for name in trained:
        states = training_states(model, job, layout, stage)
        parts = [states.adapters if states.adapters is not None else states.weights, states.gradients, states.optimizer]
        terms = [term for term in parts if term is not None]
        if layout.offload_optimizer:
            terms = terms[:1]
        text = " + ".join(term.formula for term in terms)
        found.append(Term(f"{name} with optimizer", total(terms), text, source))
    return found


def generation(model: Architecture, job: Job, layout: Layout) -> list[Term]:
    """Weights of the inference engine and its KV cache while answers are generated on the same GPUs."""
    ways = max(layout.tp, min(layout.gpus, _DOMAIN))
    spread = Layout(gpus=ways, tp=ways)
    base = frozen_weights(model, spread, "only", format_of(model, "bf16"))
    cache = kv_cache(
        model,
        spread,
        context=job.sequence,
        concurrency=layout.micro_batch * (job.rollouts if job.kind == "grpo" else 1),
        kv=job.kv,
    )
    weights = Term("weights for generation", up(base.size), f"{base.formula} / TP {ways}", _HYBRID)
    return [weights, cache]
