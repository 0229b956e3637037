"""Families with a mixture of experts, latent attention or linear attention."""

from __future__ import annotations

from llmhw_provision.model.dense import llama, mistral, qwen2, qwen3
from llmhw_provision.model.dimensions import Parts, decoder, network, windows
from llmhw_provision.model.fields import LAYER_LIMIT, Fields, count


def _experts(f: Fields, *names: str, chosen: str = "num_experts_per_tok") -> Parts:
    found = {
        "experts": f.integer(*names, high=1_000_000),
        "experts_per_token": f.integer(chosen, "experts_per_token", high=1_000_000),
    }
    f.at_most(chosen, names[0])
    return found


def _all_experts(f: Fields, parts: Parts) -> Parts:
    return {**_experts(f, "num_local_experts"), "moe_ffn": parts["ffn"], "moe_layers": parts["layers"]}


def _fine_experts(f: Fields, parts: Parts) -> Parts:
    """Experts as DeepSeek counts them: the first layers dense, shared experts as wide as routed ones."""
    first = f.integer("first_k_dense_replace", low=0)
    step = f.integer("moe_layer_freq", default=1)
    width = f.integer("moe_intermediate_size")
    f.at_most("first_k_dense_replace", "num_hidden_layers")
    return {
        **_experts(f, "n_routed_experts"),
        "moe_ffn": width,
        "moe_layers": sum(index % step == 0 for index in range(first, parts["layers"])),
        "shared_ffn": width * f.or_none("n_shared_experts"),
    }


def _sparse_layers(f: Fields, layers: int) -> int:
    step = f.integer("decoder_sparse_step", default=1)
    dense = f.layers("mlp_only_layers", layers)
    return sum(index not in dense and (index + 1) % step == 0 for index in range(layers))


def mixtral(f: Fields) -> Parts:
    parts = mistral(f)
    return {**parts, **_all_experts(f, parts)}


def phimoe(f: Fields) -> Parts:
    parts = {**decoder(f, kv_heads=None), **network(f)}
    bias = f.flag("attention_bias", default=False)
    return {
        **parts,
        **windows(f, parts, default="all"),
        **_all_experts(f, parts),
        "attention_bias": bias,
        "output_bias": bias,
        "head_bias": f.flag("lm_head_bias", default=False),
        "norm_bias": True,
    }


def qwen2_moe(f: Fields) -> Parts:
    parts = qwen2(f)
    return {
        **parts,
        **_experts(f, "num_experts"),
        "moe_ffn": f.integer("moe_intermediate_size"),
        "moe_layers": _sparse_layers(f, parts["layers"]),
        "shared_ffn": f.or_none("shared_expert_intermediate_size"),
        "shared_gate": True,
    }


def qwen3_moe(f: Fields, *, head_dim: int = 0) -> Parts:
    parts = qwen3(f, head_dim=head_dim)
    return {
        **parts,
        **_experts(f, "num_experts"),
        "moe_ffn": f.integer("moe_intermediate_size"),
        "moe_layers": _sparse_layers(f, parts["layers"]),
    }


def qwen3_next(f: Fields) -> Parts:
    """Every n-th layer full attention with an output gate, the others gated DeltaNet."""
    parts = {**qwen3_moe(f, head_dim=256), "gated_attention": True, "shared_gate": True}
    kinds = f.kinds(parts["layers"])
    interval = f.integer("full_attention_interval", default=4)
    key = f.integer("linear_num_key_heads", default=16) * f.integer("linear_key_head_dim", default=128)
    heads = f.integer("linear_num_value_heads", default=32)
    head = f.integer("linear_value_head_dim", default=128)
    kernel = f.integer("linear_conv_kernel_dim", default=4)
    channels = 2 * key + heads * head
    return {
        **parts,
        "shared_ffn": f.or_none("shared_expert_intermediate_size"),
        "linear_layers": count(kinds, "linear_attention") if kinds else parts["layers"] - parts["layers"] // interval,
        "linear_in": channels + heads * head + 2 * heads,
        "linear_out": heads * head,
        "linear_other": channels * kernel + 2 * heads + head,
        "linear_state": channels * kernel + heads * head * f.integer("linear_key_head_dim", default=128),
    }


def glm4_moe(f: Fields) -> Parts:
    parts = {**decoder(f, kv_heads=None), **network(f), "attention_bias": f.flag("attention_bias", default=False)}
    normed = f.flag("use_qk_norm", default=False)
    return {**parts, **_fine_experts(f, parts), "qk_norm": 2 * parts["head_dim"] if normed else 0}


def deepseek(f: Fields) -> Parts:
    """DeepSeek V2, V3, R1 and Kimi K2: latent attention and fine-grained experts (the prediction layer left out)."""
    parts = {**decoder(f, head_dim=1), **network(f), "attention_bias": f.flag("attention_bias", default=False)}
    return {
        **parts,
        **_fine_experts(f, parts),
        "head_dim": f.integer("v_head_dim", default=128),
        "q_lora_rank": f.or_none("q_lora_rank"),
        "kv_lora_rank": f.integer("kv_lora_rank"),
        "qk_nope_head_dim": f.integer("qk_nope_head_dim"),
        "qk_rope_head_dim": f.integer("qk_rope_head_dim"),
        "v_head_dim": f.integer("v_head_dim"),
    }


def deepseek_moe(f: Fields) -> Parts:
    parts = llama(f)
    return {**parts, **_fine_experts(f, parts)}


def gpt_oss(f: Fields) -> Parts:
    parts = {**decoder(f, kv_heads=None, head_dim=64), **network(f)}
    bias = f.flag("attention_bias", default=True)
    return {
        **parts,
        **windows(f, parts, default="1/2"),
        **_all_experts(f, parts),
        "attention_bias": bias,
        "output_bias": bias,
        "sinks": True,
        "router_bias": True,
        "expert_bias": True,
    }


def llama4(f: Fields) -> Parts:
    """Llama 4: experts on every n-th layer with one shared expert, chunked attention on three layers of four."""
    bias = f.flag("attention_bias", default=False)
    parts = {**decoder(f, kv_heads=None, head_dim=128), "ffn": f.integer("intermediate_size_mlp", default=16384)}
    layers, width = parts["layers"], f.integer("intermediate_size")
    listed = f.layers("moe_layers", layers)
    step = f.integer("interleave_moe_layer_step", default=1, high=LAYER_LIMIT)
    return {
        **parts,
        **windows(f, parts, default="3/4"),
        **_experts(f, "num_local_experts"),
        "moe_ffn": width,
        "shared_ffn": width,
        "moe_layers": len(listed) if listed else layers // step,
        "attention_bias": bias,
        "output_bias": bias,
    }
