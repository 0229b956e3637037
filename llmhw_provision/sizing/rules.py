"""Rules of thumb and estimators that others publish, as they publish them, to compare with the engine's own terms."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from llmhw_provision.sizing.terms import Term, number, up

ACCELERATE = "Hugging Face accelerate, estimate-memory: training takes four times the weights"
ZERO_ACTIVATIONS = "ZeRO, arXiv 1910.02054, section 3.2: 12 × hidden × batch × sequence × layers values"
_STAGE_2, _STAGE_3 = "DeepSpeed runtime/zero/stage_1_and_2.py", "DeepSpeed runtime/zero/stage3.py"
_FACTOR = Fraction(3, 2)


@dataclass(frozen=True)
class DeepSpeedSetting:
    """What DeepSpeed's estimators ask for; `revised`: as in the code since 0.14, not as in the documentation."""

    params: int
    largest_layer: int
    gpus_per_node: int
    nodes: int
    stage: int
    offload_optimizer: bool = False
    offload_params: bool = False
    zero_init: bool = True
    revised: bool = False

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return self.gpus_per_node * self.nodes


def deepspeed_gpu(setting: DeepSpeedSetting) -> Term:
    """Bytes per GPU by DeepSpeed's estimator for ZeRO-2 or ZeRO-3."""
    params, gpus = setting.params, setting.gpus
    if setting.stage == 3:
        each = 18 if not setting.offload_optimizer else 0 if setting.offload_params else 2
        size = 4 * setting.largest_layer + each * params // gpus
        return Term(
            "DeepSpeed estimate", size, f"4 B × {setting.largest_layer:,} + {each} B × {params:,} / {gpus}", _STAGE_3
        )
    if setting.offload_optimizer:
        return Term("DeepSpeed estimate", 2 * params, f"2 B × {params:,}", _STAGE_2)
    whole, shared = (2, 18) if setting.revised else (4, 16)
    text = f"{whole} B × {params:,} + {shared} B × {params:,} / {gpus}"
    return Term("DeepSpeed estimate", whole * params + shared * params // gpus, text, _STAGE_2)


def deepspeed_host(setting: DeepSpeedSetting) -> Term:
    """Bytes per host by DeepSpeed's estimator for ZeRO-2 or ZeRO-3."""
    params, ranks = setting.params, setting.gpus_per_node
    if setting.stage == 2:
        each = Fraction(max(4 * setting.gpus, 16) if setting.offload_optimizer else 4 * ranks)
    elif setting.offload_optimizer:
        each = Fraction(18 if setting.offload_params else 16, setting.nodes)
        each = each if setting.zero_init else max(each, Fraction(4 * ranks))
    else:
        params = setting.largest_layer if setting.zero_init else params
        each = Fraction(4 * ranks)
    source = _STAGE_3 if setting.stage == 3 else _STAGE_2
    return Term(
        "DeepSpeed host estimate", up(params * each * _FACTOR), f"{params:,} × {number(each)} B × 1.5", source, "host"
    )


def accelerate_training(weights: int) -> Term:
    """Bytes of weights, gradients and Adam states by accelerate's rule."""
    return Term("training states", 4 * weights, f"4 × {weights:,} B", ACCELERATE)


def zero_activations(*, hidden: int, layers: int, tokens: int, width: int = 2) -> Term:
    """Bytes of all activations of a GPT by the ZeRO paper's approximation."""
    text = f"12 × {hidden:,} × {layers} layers × {tokens:,} tokens × {width} B"
    return Term("activations", 12 * hidden * layers * tokens * width, text, ZERO_ACTIVATIONS, "activations")


def attention_coefficient(*, heads: int, hidden: int, sequence: int) -> Fraction:
    """5·a·s/h of Korthikanti et al.: what attention adds to the 34 of a layer without a fused kernel."""
    return Fraction(5 * heads * sequence, hidden)


def selective_share(*, heads: int, hidden: int, sequence: int) -> Fraction:
    """Share of the activations that selective recomputation leaves: 34 / (34 + 5·a·s/h)."""
    return 34 / (34 + attention_coefficient(heads=heads, hidden=hidden, sequence=sequence))
