"""Parameters of vision towers and their projectors, from `vision_config`; defaults are those of the classes."""

from __future__ import annotations

from collections.abc import Callable

from llmhw_provision.model.fields import LAYER_LIMIT, Fields


def block(h: int, ffn: int, *, attention_bias: bool, gated: bool = False, mlp_bias: bool = True, norms: int) -> int:
    """Parameters of one encoder layer of width `h`; `norms` is what its norms hold together."""
    attention = 4 * h * h + (4 * h if attention_bias else 0)
    mlp = (3 if gated else 2) * h * ffn + ((2 * ffn if gated else ffn) + h if mlp_bias else 0)
    return attention + mlp + norms


def _patches(f: Fields) -> int:
    """Patches of one picture."""
    side = f.integer("patch_size", high=10_000)
    return (f.integer("image_size", high=100_000) // side) ** 2


def _patch(f: Fields, side: int | None = None) -> int:
    """Values of one patch; `side` where the file leaves it out."""
    channels = f.integer("num_channels", "in_chans", "in_channels", default=3, high=1000)
    return channels * f.integer("patch_size", default=side, high=10_000) ** 2


def _width(f: Fields, *names: str, default: int | None = None) -> int:
    return f.integer(*(names or ("hidden_size",)), default=default, high=1_000_000)


def _depth(f: Fields, name: str, *, default: int | None = None) -> int:
    return f.integer(name, default=default, high=LAYER_LIMIT)


def _merger(f: Fields, h: int, output: int) -> int:
    """The two layers that join neighbouring patches."""
    merged = h * f.integer("spatial_merge_size", default=2, high=100) ** 2
    return merged * (merged + 1) + (merged + 1) * output


def qwen2_vl(f: Fields, _: int) -> int:
    """The file's hidden_size is what the tower hands to the text model."""
    h = _width(f, "embed_dim", default=1280)
    ratio = f.integer("mlp_ratio", default=4, high=1000)
    layers = _depth(f, "depth", default=32) * block(h, ratio * h, attention_bias=True, norms=4 * h)
    patch = _patch(f, 14) * f.integer("temporal_patch_size", default=2, high=100) * h
    return patch + layers + 2 * h + _merger(f, h, _width(f))


def qwen2_5_vl(f: Fields, _: int) -> int:
    h = _width(f)
    ffn = f.integer("intermediate_size", default=3420)
    layers = _depth(f, "depth", default=32) * block(h, ffn, attention_bias=True, gated=True, norms=2 * h)
    patch = _patch(f, 14) * f.integer("temporal_patch_size", default=2, high=100) * h
    return patch + layers + h + _merger(f, h, _width(f, "out_hidden_size"))


def llava(f: Fields, hidden: int) -> int:
    """CLIP and a projector of two layers."""
    h, ffn = _width(f), f.integer("intermediate_size")
    layers = _depth(f, "num_hidden_layers") * block(h, ffn, attention_bias=True, norms=4 * h)
    tower = h + _patch(f) * h + (_patches(f) + 1) * h + 4 * h + layers
    return tower + (h + 1) * hidden + (hidden + 1) * hidden


def gemma3(f: Fields, hidden: int) -> int:
    """SigLIP (with a pooling head unless the file says no), and a projection behind a norm."""
    h, ffn = _width(f), f.integer("intermediate_size")
    one = block(h, ffn, attention_bias=True, norms=4 * h)
    head = one - h if f.flag("vision_use_head", default=True) else 0  # one norm less, a probe more
    tower = (_patch(f) + 1) * h + _patches(f) * h + _depth(f, "num_hidden_layers") * one + 2 * h + head
    return tower + h * hidden + h


def mllama(f: Fields, hidden: int) -> int:
    """Llama 3.2 Vision: local layers, global layers with two gates each, positions per tile and aspect ratio."""
    h = _width(f, default=1280)
    count = _patches(f)
    tiles = f.integer("max_num_tiles", default=4, high=1000)
    ratios = f.length("supported_aspect_ratios") or 8
    local = _depth(f, "num_hidden_layers", default=32)
    globally = _depth(f, "num_global_layers", default=8)
    one = block(h, f.integer("intermediate_size", default=5120), attention_bias=False, norms=4 * h)
    positions = (count + 1) * h + 1 + (ratios + 1) * tiles * (count + 1) * h
    tile_positions = 2 * ((ratios + 1) * tiles * h + 1)
    tower = _patch(f) * h + h + positions + tile_positions + 4 * h + (local + globally) * one + 2 * globally
    output = f.integer("vision_output_dim", default=7680)
    return tower + (output + 1) * hidden


def llama4(f: Fields, hidden: int) -> int:
    h, ffn = _width(f), f.integer("intermediate_size")
    layers = _depth(f, "num_hidden_layers") * block(h, ffn, attention_bias=True, norms=4 * h)
    inner, output = f.integer("projector_input_dim"), f.integer("projector_output_dim")
    tower = _patch(f) * h + h + (_patches(f) + 1) * h + 4 * h + layers + ffn * inner + inner * output
    return tower + f.integer("vision_output_dim") * hidden


def mistral3(f: Fields, hidden: int) -> int:
    """Pixtral, a merger of 2 × 2 patches and a projector without biases."""
    h, ffn = _width(f, default=1024), f.integer("intermediate_size", default=4096)
    one = block(h, ffn, attention_bias=False, gated=True, mlp_bias=False, norms=2 * h)
    layers = _depth(f, "num_hidden_layers", default=24) * one
    return _patch(f, 16) * h + h + layers + h + 4 * h * h + h * hidden + hidden * hidden


# model_type of the whole -> (model_type of the text if it does not say, tower)
TOWERS: dict[str, tuple[str, Callable[[Fields, int], int]]] = {
    "qwen2_vl": ("qwen2", qwen2_vl),
    "qwen2_5_vl": ("qwen2", qwen2_5_vl),
    "llava": ("llama", llava),
    "gemma3": ("gemma3_text", gemma3),
    "mllama": ("mllama_text_model", mllama),
    "llama4": ("llama4_text", llama4),
    "mistral3": ("mistral", mistral3),
}
# model_type that the text of such a model may state itself
TEXTS = {"qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2"}
