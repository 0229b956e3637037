"""The training environment as `llamafactory-cli env` lists it; a torch without ` (GPU)` sees no GPU."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import plain_lines, unreadable, whole

_PAIR = re.compile(r"^- ([^:]+): (.*?)\s*$")
_NEEDED = ("`llamafactory` version", "Platform", "Python version", "PyTorch version", "TRL version")
_VERSIONS = {
    "`llamafactory` version": "llamafactory",
    "Python version": "python",
    "PyTorch version": "torch",
    "Transformers version": "transformers",
    "Datasets version": "datasets",
    "Accelerate version": "accelerate",
    "PEFT version": "peft",
    "TRL version": "trl",
    "DeepSpeed version": "deepspeed",
    "Bitsandbytes version": "bitsandbytes",
    "vLLM version": "vllm",
    "GPU type": "gpu_type",
    "GPU memory": "gpu_memory",
}


def command(venv: str) -> Command:
    """Runs the environment listing of the environment at `venv`."""
    return Command("llamafactory-env", (f"{venv}/bin/llamafactory-cli", "env"), 120)


def facts(raw: bytes) -> dict[str, object]:
    """Versions; `gpu` whether torch sees a GPU; `gpus` how many, None where the version does not tell."""
    values: dict[str, str] = {}
    for line in plain_lines("llamafactory-cli env", raw):
        if match := _PAIR.match(line):
            values[match[1]] = match[2]
        elif line.startswith("- "):
            raise unreadable("llamafactory-cli env", line)
    missing = [key for key in _NEEDED if key not in values]
    if missing:
        raise unreadable("llamafactory-cli env", f"no {', '.join(missing)}", "cut off")
    gpu = values["PyTorch version"].endswith("(GPU)")
    if gpu and "GPU type" not in values:
        raise unreadable("llamafactory-cli env", values["PyTorch version"], "no GPU type: cut off")
    found: dict[str, object] = {name: values[key] for key, name in _VERSIONS.items() if key in values}
    count = values.get("GPU number")
    found["gpus"] = None if count is None else whole("llamafactory-cli env", count, "GPU number")
    return found | {"gpu": gpu, "torch": values["PyTorch version"].split()[0], "verdict": "pass" if gpu else "fail"}


FORMATS = (Format("llamafactory-cli env", holds(rb"^- `llamafactory` version: "), facts),)
