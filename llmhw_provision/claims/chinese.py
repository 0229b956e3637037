"""The words of arithmetic in Simplified Chinese; symbols, units and names stay as they are."""

from __future__ import annotations

import re
from functools import cache

WORDS = {
    "checkpointed layer inputs": "检查点保留的层输入",
    "adapters with optimizer": "适配器及其优化器",
    "adapter parameters": "个适配器参数",
    "logits and loss": "logits 与损失",
    "KV cache": "KV 缓存",
    "CUDA context": "CUDA 上下文",
    "GB of weights": "GB 权重",
    "GB of KV": "GB KV",
    "W of GPUs": "W（GPU）",
    "activations": "激活值",
    "fragmentation": "碎片",
    "recompute selective-op": "选择性重计算",
    "recompute full": "完全重计算",
    "recompute none": "不重计算",
    "weights": "权重",
    "gradients": "梯度",
    "optimizer": "优化器",
    "checkpoint": "检查点",
    "parameters": "个参数",
    "requests": "个请求",
    "layers": "层",
    "tokens/s": "token/s",
    "tokens": "个 token",
    "ranks": "个进程",
    "offload": "卸载",
    "host": "主机",
    "links": "条链路",
    "memory": "显存读取",
    "full": "全量",
    "bit": "位",
}


def translated(line: str, words: dict[str, str] = WORDS) -> str:
    """A line of arithmetic with its English words replaced, longer ones first."""
    return _finder(tuple(sorted(words, key=lambda word: -len(word)))).sub(lambda found: words[found[0]], line)


@cache
def _finder(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(rf"(?<![A-Za-z-]){re.escape(word)}(?![A-Za-z])" for word in words))
