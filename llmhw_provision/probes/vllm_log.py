"""What vLLM's start-up log says: layout, KV cache, whether it serves, and why not.

Processes write prefixes such as `(EngineCore pid=120)` in newer versions; numbers carry thousands separators.
"""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import plain_lines

_TP = re.compile(r"tensor_parallel_size['\"]?[=:]\s*([0-9]+)")
_PP = re.compile(r"pipeline_parallel_size['\"]?[=:]\s*([0-9]+)")
_VERSION = re.compile(r"(?:vLLM API server version|LLM engine \(v|vLLM version:?) ?([0-9]+\.[0-9]+[\w.+]*)")
_TOKENS = re.compile(r"GPU KV cache size: ([0-9,]+) tokens")
_BLOCKS = re.compile(r"# (?:GPU|cuda) blocks: ([0-9]+)")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([0-9,]+) tokens per request: ([0-9.]+)x")
_MODEL_LEN = re.compile(r"(?:Using max model len |max_seq_len=)([0-9]+)")
_READY = re.compile(r"Application startup complete\.")
_STOPPED = re.compile(
    r"Engine core initialization failed|Engine core proc \S* died|EngineDeadError|Engine process failed to start|"
    r"Application startup failed|Application shutdown complete|RuntimeError: NCCL error"
)
_CAUSES = (
    ("nccl", re.compile(r"NCCL error|ncclUnhandled|ncclSystemError|ncclInternalError")),
    ("cuda_802", re.compile(r"system not yet initialized|Error 802")),
    ("driver_too_old", re.compile(r"driver on your system is too old|CUDA driver version is insufficient")),
    ("out_of_memory", re.compile(r"CUDA out of memory|OutOfMemoryError")),
    ("no_kv_cache_memory", re.compile(r"No available memory for the cache blocks|larger than the available KV cache")),
    ("memory_in_use", re.compile(r"Free memory on device .* less than desired GPU memory utilization")),
    ("nvcc", re.compile(r"Could not find nvcc|nvcc.*(?:not found|No such file)|CUDA_HOME.*(?:not set|does not exist)")),
    ("library_missing", re.compile(r"lib(?:cudart|cublas|nccl)\S*: cannot open shared object file")),
    ("no_kernel_image", re.compile(r"no kernel image is available")),
    ("permission", re.compile(r"PermissionError: \[Errno 13\]")),
    ("port_in_use", re.compile(r"[Aa]ddress already in use")),
)


# vLLM logs its arguments, the key of its API among them: it stays on the host.
_READ = """i=$(systemctl show -p InvocationID --value "$1") || exit
said=$(journalctl -o cat --no-pager _SYSTEMD_INVOCATION_ID="$i") || exit
printf '%s\\n' "$said" | sed -E "s/(api[_-]key'?[:= ] ?)[^,)}]*/\\1***/gI"
"""


def command(unit: str) -> Command:
    """Reads the log of the service `unit` since it was last started, without the API's key."""
    return Command(f"log:{unit}", ("sh", "-c", _READ, "sh", unit), 20)


def facts(raw: bytes) -> dict[str, object]:
    """Layout and cache as logged, `ready` as the log ends, and the first cause of a failure that is known."""
    text = plain_lines("vLLM log", raw)
    found: dict[str, object] = {}
    ready = False
    errors: list[str] = []
    for line in text:
        for key, pattern in (("tp", _TP), ("pp", _PP), ("gpu_blocks", _BLOCKS), ("max_model_len", _MODEL_LEN)):
            if (match := pattern.search(line)) and key not in found:
                found[key] = int(match[1])
        if match := _VERSION.search(line):
            found.setdefault("version", match[1])
        if match := _TOKENS.search(line):
            found.setdefault("kv_cache_tokens", int(match[1].replace(",", "")))
        if match := _CONCURRENCY.search(line):
            found.setdefault("max_concurrency", float(match[2]))
        if _READY.search(line):
            ready = True
        elif _STOPPED.search(line):
            ready = False
        errors += [name for name, pattern in _CAUSES if pattern.search(line)]
    found |= {"ready": ready, "errors": list(dict.fromkeys(errors))}
    return found | ({"error": errors[0]} if errors and not ready else {"error": None})


_PROCESS = rb"(\([A-Za-z]\w*(=\d+)?( \w+=\d+)*\) )*"
_LINE = rb"^" + _PROCESS + rb"(INFO|WARNING|ERROR|DEBUG) [0-9]{2}-[0-9]{2} [0-9:]{8} \[?[\w/]+\.py:[0-9]+\]"
FORMATS = (
    Format("vLLM log", holds(_LINE), facts),
    Format("vLLM engine error", holds(rb"^\S*RuntimeError: Engine core initialization failed"), facts),
)
