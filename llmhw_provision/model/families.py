"""What each model_type of a config.json builds, as fields of Architecture.

Sources: the configuration and modelling classes of transformers for the model_type; for remote code, that of the
published repository. Defaults are those of the configuration class, since published files leave them out.
"""

from __future__ import annotations

from collections.abc import Callable

from llmhw_provision.model import classic, dense, sparse
from llmhw_provision.model.dimensions import Parts
from llmhw_provision.model.fields import Fields

FAMILIES: dict[str, Callable[[Fields], Parts]] = {
    "llama": dense.llama,
    "aquila": dense.llama,
    "Yi": dense.llama,
    "baichuan": dense.llama,
    "smollm3": dense.smollm3,
    "mistral": dense.mistral,
    "ministral": dense.mistral,
    "mixtral": sparse.mixtral,
    "internlm": dense.internlm,
    "internlm2": dense.internlm,
    "internlm3": dense.internlm,
    "qwen": dense.qwen,
    "qwen2": dense.qwen2,
    "qwen2_moe": sparse.qwen2_moe,
    "qwen3": dense.qwen3,
    "qwen3_moe": sparse.qwen3_moe,
    "qwen3_next": sparse.qwen3_next,
    "gemma": dense.gemma,
    "gemma2": dense.gemma2,
    "gemma3_text": dense.gemma3,
    "phi": dense.phi,
    "phi3": dense.phi3,
    "phimoe": sparse.phimoe,
    "gpt_neox": classic.gpt_neox,
    "gpt2": classic.gpt2,
    "gpt_bigcode": classic.gpt_bigcode,
    "gptj": classic.gptj,
    "starcoder2": classic.starcoder2,
    "opt": classic.opt,
    "falcon": classic.falcon,
    "RefinedWeb": classic.falcon,
    "RefinedWebModel": classic.falcon,
    "bloom": classic.bloom,
    "mpt": classic.mpt,
    "chatglm": dense.chatglm,
    "glm": dense.glm,
    "glm4": dense.glm4,
    "glm4_moe": sparse.glm4_moe,
    "deepseek": sparse.deepseek_moe,
    "deepseek_v2": sparse.deepseek,
    "deepseek_v3": sparse.deepseek,
    "kimi_k2": sparse.deepseek,
    "gpt_oss": sparse.gpt_oss,
    "llama4_text": sparse.llama4,
    "mllama_text_model": dense.mllama,
    "cohere": dense.cohere,
    "cohere2": dense.cohere2,
    "olmo": dense.olmo,
    "olmo2": dense.olmo2,
    "granite": dense.llama,
    "bert": classic.bert,
}
