"""Families built like Llama: rotary positions, gated network, mostly RMSNorm; one feed-forward network per layer."""

from __future__ import annotations

from llmhw_provision.model.dimensions import PLAIN, Parts, decoder, network, windows
from llmhw_provision.model.fields import LAYER_LIMIT, Fields


def llama(f: Fields) -> Parts:
    bias = f.flag("attention_bias", default=False) or f.flag("bias", default=False)
    return {
        **decoder(f),
        **network(f),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": f.flag("mlp_bias", default=False),
    }


def mistral(f: Fields) -> Parts:
    parts = {**decoder(f, kv_heads=None), **network(f)}
    return {**parts, **windows(f, parts, default="all")}


def internlm(f: Fields) -> Parts:
    """InternLM 1 and 2 (`bias`, on unless denied, on all four projections) and 3 (`bias`, `qkv_bias`, off)."""
    bias = f.flag("bias", default=f.text("model_type") != "internlm3")
    parts = {**decoder(f), **network(f), "output_bias": bias}
    return {**parts, "attention_bias": bias or f.flag("qkv_bias", default=False)}


def qwen(f: Fields) -> Parts:
    """Qwen 1: the file's intermediate_size counts gate and up together; q, k and v have biases in any case."""
    width = f.integer("intermediate_size", low=2)
    head = f.integer("kv_channels", default=128)
    bias = not f.flag("no_bias", default=True)
    parts = {**decoder(f, head_dim=head), "ffn": width // 2, "head_dim": head}
    return {**parts, "attention_bias": True, "output_bias": bias, "mlp_bias": bias}


def qwen2(f: Fields) -> Parts:
    parts = {**decoder(f, kv_heads=None), **network(f), "attention_bias": True}
    slides = f.flag("use_sliding_window", default=False)
    return {**parts, **(_upper_windows(f, parts) if slides else {})}


def _upper_windows(f: Fields, parts: Parts) -> Parts:
    first = f.integer("max_window_layers", default=28, low=0)
    window = f.integer("sliding_window", default=4096, low=0)
    sliding = max(0, parts["layers"] - first)
    return {"sliding_window": window, "sliding_layers": sliding} if window and sliding else {}


def qwen3(f: Fields, *, head_dim: int = 128) -> Parts:
    bias = f.flag("attention_bias", default=False)
    parts = {**decoder(f, kv_heads=None, head_dim=head_dim), **network(f), "attention_bias": bias, "output_bias": bias}
    slides = f.flag("use_sliding_window", default=False)
    return {**parts, "qk_norm": 2 * parts["head_dim"], **(_upper_windows(f, parts) if slides else {})}


def gemma(f: Fields) -> Parts:
    bias = f.flag("attention_bias", default=False)
    return {
        **decoder(f, tied=True, kv_heads=None, head_dim=256),
        **network(f),
        "attention_bias": bias,
        "output_bias": bias,
    }


def gemma2(f: Fields) -> Parts:
    parts = {**gemma(f), "norms_per_layer": 4}
    return {**parts, **windows(f, parts, default="1/2")}


def gemma3(f: Fields) -> Parts:
    bias = f.flag("attention_bias", default=False)
    parts = {**decoder(f, tied=True, heads=8, kv_heads=4, head_dim=256, vocab=262_208), **network(f)}
    pattern = f.integer("sliding_window_pattern", "_sliding_window_pattern", default=6, high=LAYER_LIMIT)
    return {
        **parts,
        **windows(f, parts, default=f"{pattern - 1}/{pattern}"),
        "attention_bias": bias,
        "output_bias": bias,
        "norms_per_layer": 4,
        "qk_norm": 2 * parts["head_dim"],
    }


def phi(f: Fields) -> Parts:
    """Phi 1 and 2: attention and network side by side behind one LayerNorm, biases everywhere."""
    parts = {**decoder(f), **network(f), **PLAIN, "head_bias": True, "norms_per_layer": 1}
    return {**parts, "qk_norm": 4 * parts["head_dim"] if f.flag("qk_layernorm", default=False) else 0}


def phi3(f: Fields) -> Parts:
    parts = {**decoder(f), **network(f)}
    return {**parts, **windows(f, parts, default="all")}


def chatglm(f: Fields) -> Parts:
    """ChatGLM 1 (a GPT with 2-D positions) and ChatGLM 2, 3, GLM-4 (multi-query, SwiGLU, RMSNorm)."""
    if f.has("inner_hidden_size"):
        parts = decoder(f, tied=True)
        return {**parts, **PLAIN, "ffn": f.integer("inner_hidden_size")}
    head = f.integer("kv_channels", default=128)
    parts = {**decoder(f, head_dim=head), "ffn": f.integer("ffn_hidden_size"), "head_dim": head}
    if f.flag("multi_query_attention", default=False):
        parts["kv_heads"] = f.integer("multi_query_group_num", default=1)
        f.divides("multi_query_group_num", "num_attention_heads")
    bias = f.flag("add_bias_linear", default=False)
    return {
        **parts,
        "attention_bias": bias or f.flag("add_qkv_bias", default=False),
        "output_bias": bias,
        "mlp_bias": bias,
        "outer_norms": 1 if f.flag("post_layer_norm", default=True) else 0,
    }


def glm(f: Fields) -> Parts:
    return {
        **decoder(f, kv_heads=None, head_dim=128),
        **network(f),
        "attention_bias": f.flag("attention_bias", default=True),
    }


def glm4(f: Fields) -> Parts:
    return {**glm(f), "norms_per_layer": 4}


def mllama(f: Fields) -> Parts:
    """Llama 3.2 Vision: layers counted with those that attend to the image; eight more rows of embedding."""
    parts = {**decoder(f, kv_heads=None), **network(f), "extra_vocab_rows": 8}
    if not f.has("cross_attention_layers"):
        f.refuse("cross_attention_layers", "missing")
    return {**parts, "cross_layers": len(f.layers("cross_attention_layers", parts["layers"]))}


def cohere(f: Fields) -> Parts:
    parts = {**decoder(f, tied=True), **network(f), "norms_per_layer": 1}
    q_and_k = (parts["heads"] + parts["kv_heads"]) * parts["head_dim"]
    return {**parts, "qk_norm": q_and_k if f.flag("use_qk_norm", default=False) else 0}


def cohere2(f: Fields) -> Parts:
    parts = {**decoder(f, tied=True), **network(f), "norms_per_layer": 1}
    pattern = f.integer("sliding_window_pattern", default=4, high=LAYER_LIMIT)
    return {**parts, **windows(f, parts, default=f"{pattern - 1}/{pattern}")}


def olmo(f: Fields) -> Parts:
    return {**llama(f), "norms_per_layer": 0, "outer_norms": 0}


def olmo2(f: Fields) -> Parts:
    parts = llama(f)
    return {**parts, "qk_norm": (parts["heads"] + parts["kv_heads"]) * parts["head_dim"]}


def smollm3(f: Fields) -> Parts:
    return {**llama(f), **decoder(f, tied=True, kv_heads=None)}
