"""Servers in containers are given options that they have, with values of the right kind.

The tables are names, kinds and choices as the projects' own sources declare them, at the commits named.
"""

from __future__ import annotations

import argparse
import shlex

import pytest

from tests.unit.launches import IMAGE, case

Kind = type | tuple[str, ...]
_BOOLEAN = ("true", "false")
# huggingface/text-generation-inference 032fc4c, docs/source/reference/launcher.md
TGI: dict[str, Kind] = {
    "model-id": str,
    "num-shard": int,
    "dtype": ("float16", "bfloat16"),
    "quantize": ("fp8", "awq", "gptq"),
    "kv-cache-dtype": ("fp8_e4m3fn", "fp8_e5m2"),
    "max-concurrent-requests": int,
    "max-total-tokens": int,
    "max-input-tokens": int,
    "max-batch-prefill-tokens": int,
    "cuda-memory-fraction": float,
    "hostname": str,
    "port": int,
}
# NVIDIA/TensorRT-LLM 00209af, tensorrt_llm/commands/serve.py
TENSORRT: dict[str, Kind] = {
    "backend": ("pytorch", "tensorrt", "_autodeploy"),
    "host": str,
    "port": int,
    "tp_size": int,
    "pp_size": int,
    "ep_size": int,
    "max_batch_size": int,
    "max_num_tokens": int,
    "max_seq_len": int,
    "kv_cache_free_gpu_memory_fraction": float,
}
# triton-inference-server/server 0299e63, src/command_line_parser.cc
TRITON: dict[str, Kind] = {
    "model-repository": str,
    "http-port": int,
    "allow-grpc": _BOOLEAN,
    "allow-metrics": _BOOLEAN,
    "exit-on-error": _BOOLEAN,
}
SERVERS = {
    "serve-70b-tgi-open": ((), TGI),
    "serve-70b-tensorrt-llm": (("trtllm-serve", "serve", "/model"), TENSORRT),
    "serve-70b-triton": (("tritonserver",), TRITON),
}


def parsed(words: list[str], table: dict[str, Kind]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for name, kind in table.items():
        if isinstance(kind, tuple):
            parser.add_argument(f"--{name}", choices=kind)
        else:
            parser.add_argument(f"--{name}", type=kind)
    return parser.parse_args(words)


def command(name: str) -> list[str]:
    """The words behind the image."""
    (unit,) = (file.text for path, file in case(name)[1].items() if path.endswith(".service"))
    (start,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    words = shlex.split(start)
    return words[words.index(IMAGE) + 1 :]


@pytest.mark.parametrize("name", SERVERS)
def test_the_server_has_every_option_and_takes_every_value(name: str) -> None:
    program, table = SERVERS[name]
    words = command(name)
    assert tuple(words[: len(program)]) == program
    found = parsed(words[len(program) :], table)
    assert any(value == 8 for value in vars(found).values()) or name == "serve-70b-triton"


def test_tgi_is_never_told_type_and_quantisation_at_once() -> None:
    found = parsed(command("serve-70b-tgi-open"), TGI)
    assert (found.dtype, found.quantize) == ("bfloat16", None)
    assert found.max_input_tokens < found.max_total_tokens


def test_a_wrong_option_and_a_wrong_value_are_noticed() -> None:
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parsed(["--dtype", "bf16"], TGI)
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        parsed(["--max-model-len", "8"], TGI)
