"""Families built like GPT-2 and BERT: LayerNorm, plain network, biases, learned positions or ALiBi."""

from __future__ import annotations

from llmhw_provision.model.dimensions import PLAIN, Parts, decoder, network, windows
from llmhw_provision.model.fields import Fields


def gpt_neox(f: Fields) -> Parts:
    bias = f.flag("attention_bias", default=True)
    return {**decoder(f), **network(f), **PLAIN, "attention_bias": bias, "output_bias": bias}


def gpt2(f: Fields) -> Parts:
    parts = {**decoder(f, tied=True), **PLAIN}
    parts["ffn"] = f.integer("n_inner", default=4 * parts["hidden"])
    parts["position_rows"] = parts["max_positions"] = f.integer("n_positions", "n_ctx", default=1024)
    return parts


def gpt_bigcode(f: Fields) -> Parts:
    parts = gpt2(f)
    return {**parts, "kv_heads": 1 if f.flag("multi_query", default=True) else parts["heads"]}


def gptj(f: Fields) -> Parts:
    parts = {**decoder(f), **PLAIN, "attention_bias": False, "output_bias": False}
    parts["ffn"] = f.integer("n_inner", default=4 * parts["hidden"])
    return {**parts, "norms_per_layer": 1, "head_bias": True}


def starcoder2(f: Fields) -> Parts:
    bias = f.flag("use_bias", default=True)
    parts = {**decoder(f, tied=True, kv_heads=None), **network(f), "gated": False, "norm_bias": True}
    return {
        **parts,
        **windows(f, parts, default="all"),
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
    }


def opt(f: Fields) -> Parts:
    parts = {**decoder(f, tied=True), **network(f), **PLAIN}
    bias = f.flag("enable_bias", default=True)
    final = f.flag("do_layer_norm_before", default=True) and not f.flag("_remove_final_layer_norm", default=False)
    width = f.integer("word_embed_proj_dim", default=parts["hidden"])
    other = 0
    if width != parts["hidden"]:  # OPT-350M: a narrower embedding with two projections
        other = parts["vocab"] * (width - parts["hidden"]) + 2 * width * parts["hidden"]
    return {
        **parts,
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
        "outer_norms": 1 if final else 0,
        "position_rows": f.integer("max_position_embeddings") + 2,
        "other_parameters": other,
    }


def falcon(f: Fields) -> Parts:
    parts = decoder(f, tied=True)
    bias = f.flag("bias", default=False)
    new = f.flag("new_decoder_architecture", default=f.has("n_head_kv"))
    if new:
        parts["kv_heads"] = f.integer("num_kv_heads", "n_head_kv", default=parts["heads"])
        f.divides("num_kv_heads", "num_attention_heads")
        norms = f.integer("num_ln_in_parallel_attn", default=2, high=2)
    else:
        parts["kv_heads"] = 1 if f.flag("multi_query", default=True) else parts["heads"]
        norms = 1 if f.flag("parallel_attn", default=True) else 2
    return {
        **parts,
        "ffn": f.integer("ffn_hidden_size", default=4 * parts["hidden"]),
        "gated": False,
        "norm_bias": True,
        "norms_per_layer": norms,
        "attention_bias": bias,
        "output_bias": bias,
        "mlp_bias": bias,
    }


def bloom(f: Fields) -> Parts:
    parts = {**decoder(f, tied=True), **PLAIN, "outer_norms": 2}
    return {**parts, "ffn": 4 * parts["hidden"]}


def mpt(f: Fields) -> Parts:
    """MPT: no biases; learned positions only without ALiBi."""
    parts = decoder(f, tied=True)
    if not f.has("attn_config"):
        f.refuse("attn_config", "missing")
    attention = f.nested("attn_config")
    kind = attention.text("attn_type", default="multihead_attention")
    if kind == "multiquery_attention":
        parts["kv_heads"] = 1
    elif kind == "grouped_query_attention":
        parts["kv_heads"] = attention.integer("kv_n_heads")
    elif kind != "multihead_attention":
        attention.refuse("attn_type", f"{kind!r} is unknown")
    alibi = attention.flag("alibi", default=False) or attention.flag("rope", default=False)
    learned = f.flag("learned_pos_emb", default=True) and not alibi
    bias = not f.flag("no_bias", default=True)
    return {
        **parts,
        **(PLAIN if bias else {"gated": False}),
        "ffn": f.integer("expansion_ratio", default=4, high=1000) * parts["hidden"],
        "qk_norm": 2 * parts["hidden"] if attention.flag("qk_ln", default=False) else 0,
        "position_rows": parts["max_positions"] if learned else 0,
    }


def bert(f: Fields) -> Parts:
    """An encoder: token types beside positions, a norm behind the embedding, a pooler instead of a head."""
    parts = {**decoder(f, tied=True), **network(f), **PLAIN}
    types = f.integer("type_vocab_size", default=2, low=0)
    hidden = parts["hidden"]
    return {
        **parts,
        "position_rows": f.integer("max_position_embeddings") + types,
        "other_parameters": hidden * (hidden + 1),
    }
