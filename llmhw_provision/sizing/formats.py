"""Number formats of weights: how many bits a weight takes and which matrices a format leaves alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from llmhw_provision.model import Architecture, Quantisation

LINEARS = ("attention", "linear_attention", "mlp", "experts", "shared_experts")
_FEED_FORWARD = ("mlp", "experts", "shared_experts")


@dataclass(frozen=True)
class Format:
    """`bits` per weight (block constants included) in the matrix `groups`; everything else takes `rest` bytes."""

    name: str
    bits: Fraction
    source: str
    groups: tuple[str, ...] = LINEARS
    head: bool = False
    rest: int = 2
    whole_layers: int = 0  # layers that keep 16 bits

    @property
    def quantised(self) -> bool:
        """Whether the matrices are stored in less than 16 bits."""
        return self.bits < 16

    def bytes_of(self, group: str) -> Fraction:
        """Bytes per weight of one matrix group, of `embedding`, `head`, `vectors` or `other`."""
        touched = group in self.groups or (group == "head" and self.head)
        return self.bits / 8 if touched else Fraction(self.rest)


def double_quantised_bits(block: int, second_block: int) -> Fraction:
    """Bits per weight of 8-bit block constants which have 32-bit constants of their own. QLoRA, section 3."""
    return Fraction(8, block) + Fraction(32, block * second_block)


def constant_bits(block: int) -> Fraction:
    """Bits per weight of one 32-bit constant per block. QLoRA, section 3."""
    return Fraction(32, block)


def grouped(bits: int, group: int, *, zero_points: bool = True) -> Fraction:
    """Bits per weight of GPTQ or AWQ: a 16-bit scale and a zero point of `bits` per group."""
    return bits + Fraction(16 + (bits if zero_points else 0), group) if group else Fraction(bits)


_IEEE = "bytes of the number format"
_QLORA = "QLoRA, Dettmers et al. 2023, arXiv 2305.14314, section 3"
_GPTQ = "GPTQ and AWQ checkpoints: 16-bit scale and zero point per group; embedding and head stay in 16 bits"
_BLOCK, _SECOND_BLOCK = 64, 256

FORMATS = {
    item.name: item
    for item in (
        Format("fp32", Fraction(32), _IEEE, head=True, rest=4),
        Format("bf16", Fraction(16), _IEEE, head=True),
        Format("fp16", Fraction(16), _IEEE, head=True),
        Format("fp8", Fraction(8), "FP8 checkpoints: linear layers in 8 bits, embedding and head in 16"),
        Format(
            "fp8-mlp",
            Fraction(8),
            "Meta Llama 3.1 405B FP8: feed-forward networks in 8 bits but for the first and last layer",
            groups=_FEED_FORWARD,
            whole_layers=2,
        ),
        Format("int8", Fraction(8), "W8A8, bitsandbytes int8: linear layers in 8 bits, embedding and head in 16"),
        Format("gptq-int8", grouped(8, 128), _GPTQ),
        Format("int4", grouped(4, 128), _GPTQ),
        Format("int4-g32", grouped(4, 32), _GPTQ),
        Format("nf4", 4 + constant_bits(_BLOCK), _QLORA),
        Format("nf4-dq", 4 + double_quantised_bits(_BLOCK, _SECOND_BLOCK), _QLORA),
        Format(
            "mxfp4",
            4 + Fraction(8, 32),
            "OCP Microscaling Formats 1.0: 4 bits and an 8-bit scale per block of 32, experts only (gpt-oss)",
            groups=("experts",),
        ),
    )
}


def format_of(model: Architecture, name: str) -> Format:
    """The format `name`; `published` is what the model's own config.json stores."""
    if name != "published":
        form = FORMATS[name]
        if not form.whole_layers:
            return form
        share = Fraction(min(form.whole_layers, model.layers), model.layers)
        return replace(form, bits=form.bits * (1 - share) + 8 * form.rest * share)
    if model.quantisation is None:
        return FORMATS[model.dtype if model.dtype in FORMATS else "bf16"]
    return _published(model.quantisation)


def _published(stored: Quantisation) -> Format:
    if stored.method == "nf4":
        bits = FORMATS["nf4-dq" if stored.double else "nf4"].bits
    elif stored.method == "mxfp4":
        bits = FORMATS["mxfp4"].bits
    else:
        bits = grouped(stored.bits, stored.group_size, zero_points=stored.zero_points)
    source = "quantization_config of the model's config.json"
    return Format(f"{stored.method} {stored.bits} bit", bits, source, groups=stored.groups, head=stored.head)
