"""What autograd keeps per token and layer, against the engine, for tiny models of several families.

python benchmarks/saved_tensors.py measure > saved.json    where torch and transformers are installed (CPU is enough)
python benchmarks/saved_tensors.py compare saved.json      where this package is installed: a table in Markdown
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SIZES = {"hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 704}
SIZES |= {"vocab_size": 1000, "max_position_embeddings": 2048, "pad_token_id": 0}
SPARSE = {"num_experts_per_tok": 2}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": SIZES,
    "mistral": {**SIZES, "sliding_window": None},
    "qwen2": SIZES,
    "qwen3": {**SIZES, "head_dim": 32},
    "gemma2": {**SIZES, "head_dim": 32},
    "phi3": SIZES,
    "gpt_neox": {"hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 1024, "vocab_size": 1000},
    "mixtral": {**SIZES, **SPARSE, "num_local_experts": 4},
    "qwen3_moe": {**SIZES, **SPARSE, "head_dim": 32, "num_experts": 8, "moe_intermediate_size": 128},
}
BATCH, SEQUENCE = 2, 128


def saved(family: str, layers: int, attention: str) -> int:
    """Bytes in the storages that autograd saves in one forward, parameters and buffers left out."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(family, **FAMILIES[family], num_hidden_layers=layers, use_cache=False)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, torch_dtype=torch.bfloat16).train()
    own = {item.untyped_storage().data_ptr() for item in (*model.parameters(), *model.buffers())}
    kept: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(input_ids=torch.randint(0, config.vocab_size, (BATCH, SEQUENCE))).logits.float().mean()
    return sum(storage.nbytes() for storage in kept.values())


def measure() -> dict[str, Any]:
    """Bytes per token of one more layer, with the configurations and the versions."""
    import torch
    import transformers

    found: dict[str, Any] = {"torch": torch.__version__, "transformers": transformers.__version__, "families": {}}
    for family in FAMILIES:
        config = transformers.AutoConfig.for_model(family, **FAMILIES[family], num_hidden_layers=4).to_dict()
        each = {}
        for attention in ("sdpa", "eager"):
            more = saved(family, 3, attention) - saved(family, 2, attention)
            each[attention] = round(more / (BATCH * SEQUENCE))
        found["families"][family] = {"config": json.loads(json.dumps(config, default=str)), "saved": each}
    return found


def compare(found: dict[str, Any]) -> str:
    """The table: the engine's bytes beside autograd's."""
    from llmhw_provision.model.config import from_config
    from llmhw_provision.sizing.activations import layer
    from llmhw_provision.sizing.job import Job, Layout

    lines = [f"torch {found['torch']}, transformers {found['transformers']}, CPU, bfloat16", ""]
    lines += ["| family | attention | autograd, B per token and layer | engine | error |", "|---|---|---|---|---|"]
    for family, each in found["families"].items():
        model = from_config(each["config"], where=family)
        for attention, size in each["saved"].items():
            ours = layer(model, Job(flash=attention == "sdpa"), Layout()).bytes(Layout(), SEQUENCE)
            lines.append(f"| {family} | {attention} | {size:,} | {float(ours):,.0f} | {float(ours) / size - 1:+.1%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measure(), indent=1))
    elif len(sys.argv) == 3 and sys.argv[1] == "compare":
        print(compare(json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
    else:
        sys.exit(__doc__)
