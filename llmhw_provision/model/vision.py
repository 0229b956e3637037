"""Parameters of vision towers and their projectors, from `vision_config`; defaults are those of the classes."""

from __future__ import annotations

from collections.abc import Callable

from llmhw_provision.model.fields import LAYER_LIMIT, Fields


def block(h: int, ffn: int, *, attention_bias: bool, gated: bool = False, mlp_bias: bool = True, norms: int) -> int:
    """Parameters of one encoder layer of width `h`; `norms` is what its norms hold together."""
    attention = 4 * h * h + (4 * h if attention_bias else 0)
    mlp = (3 if gated else 2) * h * ffn + ((2 * ffn if gated else ffn) + h if mlp_bias else 0)
    return attention + mlp + norms


def _width(f: Fields, default: int, *names: str) -> int:
    return f.integer(*(names or ("hidden_size",)), default=default, high=1_000_000)


def _depth(f: Fields, name: str, default: int) -> int:
    return f.integer(name, default=default, high=LAYER_LIMIT)


def _patches(f: Fields, *, image: int, patch: int) -> tuple[int, int]:
    """Patches of one picture, and values of one patch."""
    side = f.integer("patch_size", default=patch, high=10_000)
    size = f.integer("image_size", default=image, high=100_000)
    return (size // side) ** 2, f.integer("num_channels", "in_chans", "in_channels", default=3, high=1000) * side * side


def qwen2_vl(f: Fields, hidden: int) -> int:
    h = _width(f, 1280, "embed_dim")
    ratio = f.integer("mlp_ratio", default=4, high=1000)
    _, patch = _patches(f, image=14, patch=14)
    merged = h * f.integer("spatial_merge_size", default=2, high=100) ** 2
    return (
        patch * f.integer("temporal_patch_size", default=2, high=100) * h
        + _depth(f, "depth", 32) * block(h, ratio * h, attention_bias=True, norms=4 * h)
        + 2 * h
        + merged * (merged + 1)
        + (merged + 1) * hidden
    )


def qwen2_5_vl(f: Fields, hidden: int) -> int:
    h = _width(f, 1280)
    ffn = f.integer("intermediate_size", default=3420)
    _, patch = _patches(f, image=14, patch=14)
    merged = h * f.integer("spatial_merge_size", default=2, high=100) ** 2
    return (
        patch * f.integer("temporal_patch_size", default=2, high=100) * h
        + _depth(f, "depth", 32) * block(h, ffn, attention_bias=True, gated=True, norms=2 * h)
        + h
        + merged * (merged + 1)
        + (merged + 1) * hidden
    )


def llava(f: Fields, hidden: int) -> int:
    """CLIP and a projector of two layers."""
    h = _width(f, 1024)
    count, patch = _patches(f, image=336, patch=14)
    ffn = f.integer("intermediate_size", default=4096)
    layers = _depth(f, "num_hidden_layers", 24) * block(h, ffn, attention_bias=True, norms=4 * h)
    tower = h + patch * h + (count + 1) * h + 4 * h + layers
    return tower + (h + 1) * hidden + (hidden + 1) * hidden


def gemma3(f: Fields, hidden: int) -> int:
    """SigLIP, and a projection behind a norm."""
    h = _width(f, 1152)
    count, patch = _patches(f, image=896, patch=14)
    ffn = f.integer("intermediate_size", default=4304)
    layers = _depth(f, "num_hidden_layers", 27) * block(h, ffn, attention_bias=True, norms=4 * h)
    return (patch + 1) * h + count * h + layers + 2 * h + h * hidden + h


def mllama(f: Fields, hidden: int) -> int:
    """Llama 3.2 Vision: local layers, global layers with two gates each, positions per tile and aspect ratio."""
    h = _width(f, 1280)
    count, patch = _patches(f, image=448, patch=14)
    tiles = f.integer("max_num_tiles", default=4, high=1000)
    ratios = f.length("supported_aspect_ratios") or 8
    local = _depth(f, "num_hidden_layers", 32)
    globally = _depth(f, "num_global_layers", 8)
    one = block(h, f.integer("intermediate_size", default=5120), attention_bias=False, norms=4 * h)
    positions = (count + 1) * h + 1 + (ratios + 1) * tiles * (count + 1) * h
    tile_positions = 2 * ((ratios + 1) * tiles * h + 1)
    tower = patch * h + h + positions + tile_positions + 4 * h + (local + globally) * one + 2 * globally
    output = f.integer("vision_output_dim", default=7680)
    return tower + (output + 1) * hidden


def llama4(f: Fields, hidden: int) -> int:
    h = _width(f, 1408)
    count, patch = _patches(f, image=448, patch=14)
    ffn = f.integer("intermediate_size", default=5632)
    layers = _depth(f, "num_hidden_layers", 34) * block(h, ffn, attention_bias=True, norms=4 * h)
    inner = f.integer("projector_input_dim", default=4096)
    output = f.integer("projector_output_dim", default=4096)
    tower = patch * h + h + (count + 1) * h + 4 * h + layers + ffn * inner + inner * output
    return tower + f.integer("vision_output_dim", default=7680) * hidden


def mistral3(f: Fields, hidden: int) -> int:
    """Pixtral, a merger of 2 × 2 patches and a projector without biases."""
    h = _width(f, 1024)
    _, patch = _patches(f, image=1024, patch=16)
    ffn = f.integer("intermediate_size", default=4096)
    one = block(h, ffn, attention_bias=False, gated=True, mlp_bias=False, norms=2 * h)
    layers = _depth(f, "num_hidden_layers", 24) * one
    return patch * h + h + layers + h + 4 * h * h + h * hidden + hidden * hidden


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
