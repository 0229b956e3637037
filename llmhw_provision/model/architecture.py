"""What a model is made of: dimensions as published in its config.json, and what follows from them exactly."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Group = Literal["attention", "linear_attention", "mlp", "experts", "shared_experts", "router"]
Method = Literal["gptq", "awq", "fp8", "mxfp4", "nf4", "int8", "other"]


@dataclass(frozen=True)
class Matrix:
    """Equal linear layers of the whole model: `count` of them with `outputs` × `inputs` weights each."""

    name: str
    group: Group
    inputs: int
    outputs: int
    count: int
    active: int  # how many of them one token passes
    bias: bool = False
    sharded: bool = True  # whether tensor parallelism divides it

    @property
    def weights(self) -> int:
        """Weights of all copies, biases left out."""
        return self.inputs * self.outputs * self.count

    @property
    def parameters(self) -> int:
        """Weights and biases of all copies."""
        return self.weights + (self.outputs * self.count if self.bias else 0)

    @property
    def active_parameters(self) -> int:
        """Weights and biases that one token passes."""
        return self.active * self.outputs * (self.inputs + (1 if self.bias else 0))


@dataclass(frozen=True, kw_only=True)
class Quantisation:
    """How the stored weights are quantised: `groups` of matrices in `bits`, everything else in the stored dtype."""

    method: Method
    bits: int
    group_size: int = 0  # weights that share one scale; 0: one scale per tensor or output row
    zero_points: bool = False
    double: bool = False  # the scales themselves are quantised (QLoRA)
    groups: tuple[Group, ...] = ("attention", "linear_attention", "mlp", "experts", "shared_experts")
    head: bool = False  # whether the output head is quantised too


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A decoder (or encoder) of `layers` blocks, each a token mixer and a feed-forward network.

    Layers are counted by kind, not listed: `sliding_layers`, `linear_layers` and `cross_layers` of the mixers (the rest
    is full self-attention), `moe_layers` of the feed-forward networks (the rest is dense). Counts are exact for the
    weights that transformers builds from the same config.json, buffers left out.
    """

    title: str
    family: str  # model_type of config.json
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int  # width of a dense feed-forward network
    vocab: int
    tied: bool  # the output head is the embedding matrix
    max_positions: int = 0
    dtype: str = "bf16"  # of the published weights
    gated: bool = True  # gate, up and down instead of up and down
    # biases
    attention_bias: bool = False  # on q, k, v
    output_bias: bool = False  # on o
    mlp_bias: bool = False
    head_bias: bool = False
    # norms and other vectors
    norms_per_layer: int = 2
    outer_norms: int = 1  # final norm, norm of the embedding
    norm_bias: bool = False  # LayerNorm with bias instead of RMSNorm
    qk_norm: int = 0  # parameters per softmax layer of the norms of q and k
    sinks: bool = False  # one learned attention sink per head and layer
    gated_attention: bool = False  # q_proj makes an output gate of q's size too
    # embeddings
    position_rows: int = 0  # learned positions (and token types)
    extra_vocab_rows: int = 0  # rows of the embedding that the head does not have
    # multi-head latent attention
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    # mixers that are not full self-attention
    sliding_window: int = 0
    sliding_layers: int = 0
    cross_layers: int = 0  # attention to the image instead of to the text
    linear_layers: int = 0  # linear attention or state space: constant state instead of a KV cache
    linear_in: int = 0  # outputs of their input projections
    linear_out: int = 0  # inputs of their output projection
    linear_other: int = 0  # parameters of one such layer beside these two matrices
    linear_state: int = 0  # values of state per layer and sequence
    # mixture of experts
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn: int = 0  # width of one routed expert
    moe_layers: int = 0
    shared_ffn: int = 0  # width of all shared experts together
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    # the rest
    vision_parameters: int = 0  # tower and projector
    other_parameters: int = 0
    other_idle_parameters: int = 0  # of these, what a token does not pass
    quantisation: Quantisation | None = None

    @property
    def mla(self) -> bool:
        """Whether attention caches one latent vector instead of keys and values."""
        return self.kv_lora_rank > 0

    @property
    def q_dim(self) -> int:
        """Values of all query heads of one token."""
        return self.heads * (self.qk_nope_head_dim + self.qk_rope_head_dim if self.mla else self.head_dim)

    @property
    def kv_dim(self) -> int:
        """Values of all keys of one token (values are as many, except with latent attention)."""
        return self.kv_heads * (self.qk_nope_head_dim + self.qk_rope_head_dim if self.mla else self.head_dim)

    @property
    def softmax_layers(self) -> int:
        """Layers with softmax attention: full, sliding and cross."""
        return self.layers - self.linear_layers

    @property
    def full_layers(self) -> int:
        """Layers whose KV cache grows with the context without bound."""
        return self.layers - self.linear_layers - self.sliding_layers - self.cross_layers

    @property
    def dense_layers(self) -> int:
        """Layers with a dense feed-forward network."""
        return self.layers - self.moe_layers

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        """Every linear layer of the text model except the output head; layers of size 0 left out."""
        found = (*self._attention(), *self._linear_attention(), *self._mlp(), *self._moe())
        return tuple(matrix for matrix in found if matrix.weights)

    def _attention(self) -> tuple[Matrix, ...]:
        n, h, bias = self.softmax_layers, self.hidden, self.attention_bias
        if not self.mla:
            q = self.q_dim * (2 if self.gated_attention else 1)
            return (
                Matrix("q_proj", "attention", h, q, n, n, bias),
                Matrix("k_proj", "attention", h, self.kv_dim, n, n, bias),
                Matrix("v_proj", "attention", h, self.kv_dim, n, n, bias),
                Matrix("o_proj", "attention", self.q_dim, h, n, n, self.output_bias),
            )
        latent = self.kv_lora_rank + self.qk_rope_head_dim
        expanded = self.heads * (self.qk_nope_head_dim + self.v_head_dim)
        query = (
            (
                Matrix("q_a_proj", "attention", h, self.q_lora_rank, n, n, bias, sharded=False),
                Matrix("q_b_proj", "attention", self.q_lora_rank, self.q_dim, n, n),
            )
            if self.q_lora_rank
            else (Matrix("q_proj", "attention", h, self.q_dim, n, n),)
        )
        return (
            *query,
            Matrix("kv_a_proj_with_mqa", "attention", h, latent, n, n, bias, sharded=False),
            Matrix("kv_b_proj", "attention", self.kv_lora_rank, expanded, n, n),
            Matrix("o_proj", "attention", self.heads * self.v_head_dim, h, n, n, self.output_bias or bias),
        )

    def _linear_attention(self) -> tuple[Matrix, ...]:
        n = self.linear_layers
        return (
            Matrix("in_proj", "linear_attention", self.hidden, self.linear_in, n, n),
            Matrix("out_proj", "linear_attention", self.linear_out, self.hidden, n, n),
        )

    def _mlp(self) -> tuple[Matrix, ...]:
        return _feed_forward(self, "mlp", self.ffn, self.dense_layers, self.dense_layers, self.mlp_bias)

    def _moe(self) -> tuple[Matrix, ...]:
        n = self.moe_layers
        routed = n * self.experts, n * self.experts_per_token
        return (
            Matrix("router", "router", self.hidden, self.experts, n, n, self.router_bias, sharded=False),
            Matrix("shared_gate", "router", self.hidden, 1 if self.shared_gate else 0, n, n, sharded=False),
            *_feed_forward(self, "experts", self.moe_ffn, *routed, self.expert_bias),
            *_feed_forward(self, "shared_experts", self.shared_ffn, n, n, False),
        )

    @property
    def embedding_parameters(self) -> int:
        """Parameters of token and position embeddings."""
        return (self.vocab + self.extra_vocab_rows + self.position_rows) * self.hidden

    @property
    def head_parameters(self) -> int:
        """Parameters of an output head of its own; 0 when it is tied to the embedding."""
        return (0 if self.tied else self.vocab * self.hidden) + (self.vocab if self.head_bias else 0)

    @cached_property
    def matrix_parameters(self) -> int:
        """Weights of all linear layers of the text model except the head, biases left out."""
        return sum(matrix.weights for matrix in self.matrices)

    @cached_property
    def vector_parameters(self) -> int:
        """Parameters of norms, biases, sinks and gates."""
        norm = self.hidden * (2 if self.norm_bias else 1)
        norms = (self.layers * self.norms_per_layer + self.outer_norms) * norm
        per_softmax = self.qk_norm + (self.heads if self.sinks else 0)
        if self.mla:
            per_softmax += self.q_lora_rank + self.kv_lora_rank
        cross = self.cross_layers * (2 * self.head_dim + 2)
        biases = sum(matrix.parameters - matrix.weights for matrix in self.matrices)
        linear = self.linear_layers * self.linear_other
        return norms + self.softmax_layers * per_softmax + cross + biases + linear

    @cached_property
    def parameters(self) -> int:
        """All parameters, tied matrices counted once, vision tower included."""
        return (
            self.embedding_parameters
            + self.head_parameters
            + self.matrix_parameters
            + self.vector_parameters
            + self.vision_parameters
            + self.other_parameters
        )

    @cached_property
    def active_parameters(self) -> int:
        """Parameters without the experts that a token does not visit (embedding and head are counted)."""
        idle = sum(matrix.parameters - matrix.active_parameters for matrix in self.matrices)
        return self.parameters - idle - self.other_idle_parameters

    def group_parameters(self, group: Group) -> int:
        """Weights and biases of all matrices of one group, all layers together."""
        return sum(matrix.parameters for matrix in self.matrices if matrix.group == group)

    @property
    def layer_parameters(self) -> int:
        """Parameters of the largest layer: the larger feed-forward network and the larger mixer together."""
        each = [(matrix, matrix.parameters // self._layers_of(matrix)) for matrix in self.matrices]

        def size(*groups: Group) -> int:
            return sum(parameters for matrix, parameters in each if matrix.group in groups)

        mixer = max(size("attention"), size("linear_attention") + self.linear_other)
        network = max(size("mlp"), size("experts", "shared_experts", "router"))
        return mixer + network + self.norms_per_layer * self.hidden * (2 if self.norm_bias else 1) + self.qk_norm

    def _layers_of(self, matrix: Matrix) -> int:
        return matrix.count // self.experts if matrix.group == "experts" else matrix.count

    @property
    def kv_values(self) -> int:
        """Values that one layer caches per token: keys and values, or one latent vector."""
        return self.kv_lora_rank + self.qk_rope_head_dim if self.mla else 2 * self.kv_dim

    @property
    def linear_parameters(self) -> int:
        """Weights that quantisation can touch: all linear layers but router and output head."""
        return sum(matrix.weights for matrix in self.matrices if matrix.group != "router")

    def kv_bytes_per_token(self, dtype_bytes: int = 2) -> int:
        """Bytes per token of the layers whose cache grows with the whole context."""
        return self.full_layers * self.kv_values * dtype_bytes

    def sliding_kv_bytes_per_token(self, dtype_bytes: int = 2) -> int:
        """Bytes per token, up to the window, of the layers with sliding-window attention."""
        return self.sliding_layers * self.kv_values * dtype_bytes

    def state_bytes_per_sequence(self, dtype_bytes: int = 2) -> int:
        """Bytes of constant state per sequence of the layers with linear attention or state space."""
        return self.linear_layers * self.linear_state * dtype_bytes


def _feed_forward(
    model: Architecture, group: Group, width: int, count: int, active: int, bias: bool
) -> tuple[Matrix, ...]:
    h = model.hidden
    names = ("gate_proj", "up_proj") if model.gated else ("up_proj",)
    first = tuple(Matrix(name, group, h, width, count, active, bias) for name in names)
    return (*first, Matrix("down_proj", group, width, h, count, active, bias))
