"""The dimensions that all families of models share."""

from __future__ import annotations

from typing import Any

from llmhw_provision.model.fields import LAYER_LIMIT, Fields, count

Parts = dict[str, Any]  # fields of Architecture
TOKENS = 10**12


def decoder(
    f: Fields, *, tied: bool = False, head_dim: int = 0, heads: int = 0, kv_heads: int | None = 0, vocab: int = 0
) -> Parts:
    """The dimensions that all families share; the numbers given are defaults of the family.

    Without num_key_value_heads there are as many as heads; `kv_heads=None`: it must be there.
    """
    hidden = f.integer("hidden_size", "n_embd", "d_model", "n_embed", high=1_000_000)
    layers = f.integer("num_hidden_layers", "n_layer", "n_layers", "num_layers", high=LAYER_LIMIT)
    query = f.integer("num_attention_heads", "n_head", "n_heads", default=heads or None, high=100_000)
    keys = f.integer("num_key_value_heads", default=query if kv_heads == 0 else kv_heads, high=100_000)
    if not f.has("head_dim") and not head_dim:
        f.divides("num_attention_heads", "hidden_size")
    f.divides("num_key_value_heads", "num_attention_heads")
    return {
        "layers": layers,
        "hidden": hidden,
        "heads": query,
        "kv_heads": keys,
        "head_dim": f.integer("head_dim", default=head_dim or max(1, hidden // query), high=100_000),
        "vocab": f.integer("vocab_size", "padded_vocab_size", default=vocab or None),
        "tied": f.flag("tie_word_embeddings", default=tied),
        "max_positions": f.integer(
            "max_position_embeddings",
            "n_positions",
            "max_seq_len",
            "seq_length",
            "model_max_length",
            default=0,
            low=0,
            high=TOKENS,
        ),
    }


def network(f: Fields) -> Parts:
    """The width of the dense feed-forward network."""
    return {"ffn": f.integer("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")}


def windows(f: Fields, parts: Parts, *, default: str) -> Parts:
    """Which layers slide: the list `layer_types` if there is one, else all, none, or those of the pattern `default`.

    A pattern (`1/2`, `5/6`) makes all but each n-th layer slide. A window as wide as the longest context is none.
    """
    window = f.integer("sliding_window", "attention_chunk_size", default=0, low=0, high=TOKENS)
    layers = parts["layers"]
    kinds = f.kinds(layers)
    if kinds:
        sliding = count(kinds, "sliding_attention", "chunked_attention")
    elif default in ("all", "none"):
        sliding = layers if default == "all" else 0
    else:
        sliding = layers - layers // int(default.partition("/")[2])
    longest = parts["max_positions"]
    if not sliding or not window or (longest and window >= longest):
        return {}
    return {"sliding_window": window, "sliding_layers": min(sliding, layers)}


PLAIN: Parts = {
    "gated": False,
    "attention_bias": True,
    "output_bias": True,
    "mlp_bias": True,
    "norm_bias": True,
}
