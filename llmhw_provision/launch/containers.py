"""Servers that come as images: TGI, TensorRT-LLM and Triton as systemd units that run a container."""

from __future__ import annotations

from llmhw_provision.launch import serving
from llmhw_provision.launch.files import LaunchFile, Setting, Value, arguments, as_json, header
from llmhw_provision.launch.setup import Setup
from llmhw_provision.workload import FrameworkName

_TGI = "huggingface/text-generation-inference, docs/source/reference/launcher.md"
_TRT = "NVIDIA/TensorRT-LLM, tensorrt_llm/commands/serve.py"
_TRITON = "triton-inference-server/server, tritonserver --help"
_BACKEND = "triton-inference-server/vllm_backend, samples/model_repository"
_DOCKER = "docker-run(1); NVIDIA Container Toolkit, CDI"
_INSIDE = 8000  # port in the container


def container(setup: Setup, framework: FrameworkName) -> tuple[LaunchFile, ...]:
    """The unit of one server in a container, and what the container reads."""
    name = f"{framework}-{setup.name}"
    own = {"tgi": _tgi, "tensorrt-llm": _tensorrt, "triton": _triton}[framework](setup)
    model = setup.model_path
    mounts = [f"{model}:/model:ro"]
    if framework == "triton":
        mounts.append(f"{serving.folder(setup)}/models:/models:ro")
    words = [*_COMMAND[framework], *arguments(own)]
    options = _options(setup, name, mounts)
    lines = [
        header(setup.plan.identity, f"{framework} serves {setup.name} in a container").rstrip(),
        "[Unit]",
        f"Description={framework}, {setup.name}",
        "After=docker.service network-online.target nvidia-fabricmanager.service",
        "Requires=docker.service",
        "Wants=network-online.target",
        f"RequiresMountsFor={setup.scratch} {setup.project}",
        "StartLimitIntervalSec=600",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        *_key(setup),
        f"ExecStartPre=-/usr/bin/docker rm --force {name}",
        f"ExecStart=/usr/bin/docker run {' '.join(options)} {setup.launch.image} {' '.join(words)}",
        f"ExecStop=/usr/bin/docker stop --time {serving.STOP_SECONDS} {name}",
        f"TimeoutStopSec={serving.STOP_SECONDS + 30}",
        "Restart=on-failure",
        "RestartSec=10",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    settings = (
        *own,
        Setting("image", setup.launch.image, "launch.image, by digest: what was tried is what runs", "workload.yaml"),
        Setting("shm-size", "1g", "NCCL and Python exchange through /dev/shm, 64 MB by default", "NGC user guide"),
        Setting("TimeoutStopSec", serving.STOP_SECONDS + 30, "30 s more than the container has", _DOCKER),
    )
    files = (LaunchFile(f"{name}.service", "\n".join(lines) + "\n", settings),)
    return (*files, *_model_repository(setup)) if framework == "triton" else files


_COMMAND: dict[str, tuple[str, ...]] = {
    "tgi": (),  # the image's entry point is the launcher
    "tensorrt-llm": ("trtllm-serve", "serve", "/model"),
    "triton": ("tritonserver",),
}


def _of(source: str, name: str, value: Value, rule: str) -> Setting:
    return Setting(name, value, rule, source)


def _options(setup: Setup, name: str, mounts: list[str]) -> list[str]:
    published = f"{setup.launch.port}:{_INSIDE}"
    if setup.launch.listen == "loopback":
        published = f"127.0.0.1:{published}"
    found = ["--rm", "--name", name, "--pull", "missing"]
    for number in serving.devices(setup):
        found += ["--device", f"nvidia.com/gpu={number}"]
    found += ["--shm-size", "1g", "--ulimit", "memlock=-1", "--cap-drop", "ALL"]
    found += ["--security-opt", "no-new-privileges", "--publish", published]
    for mount in mounts:
        found += ["--volume", mount]
    if setup.launch.listen == "all":
        found += ["--env-file", serving.secrets(setup)]
    return [*found, "--env", "HF_HUB_OFFLINE=1"]


def _key(setup: Setup) -> list[str]:
    if setup.launch.listen == "loopback":
        return []
    path = serving.secrets(setup)
    return [f"ExecStartPre=/bin/grep --quiet ^API_KEY=. {path}"]


def _tgi(setup: Setup) -> tuple[Setting, ...]:
    wanted, of = serving.served(setup), setup.layout
    total = serving.each(setup)
    return (
        _of(_TGI, "model-id", "/model", "the mounted folder"),
        _of(_TGI, "num-shard", of.tp, f"TP {of.tp} of the layout"),
        _of(_TGI, "dtype", "bfloat16" if setup.need.workload.weights == "bf16" else None, "weights"),
        _of(_TGI, "quantize", "fp8" if setup.need.workload.weights == "fp8" else None, "weights"),
        _of(_TGI, "kv-cache-dtype", "fp8_e4m3fn" if wanted.kv == "fp8" else None, f"serving.kv {wanted.kv}"),
        _of(_TGI, "max-concurrent-requests", total.value, total.rule),
        _of(_TGI, "max-total-tokens", wanted.context, "serving.context, tokens of prompt and answer"),
        _of(_TGI, "max-input-tokens", wanted.context - 1, "one token less: an answer has at least one"),
        _of(_TGI, "max-batch-prefill-tokens", max(wanted.batched_tokens, wanted.context), "serving.batched_tokens"),
        _of(_TGI, "cuda-memory-fraction", f"{wanted.utilisation / 100:g}", "serving.utilisation, as sized"),
        _of(_TGI, "hostname", "0.0.0.0", "inside the container; outside only what is published"),
        _of(_TGI, "port", _INSIDE, "inside the container"),
    )


def _tensorrt(setup: Setup) -> tuple[Setting, ...]:
    wanted, of = serving.served(setup), setup.layout
    total = serving.each(setup)
    return (
        _of(_TRT, "backend", "pytorch", "reads the model's own files: no engine is bound to one GPU"),
        _of(_TRT, "host", "0.0.0.0", "inside the container; outside only what is published"),
        _of(_TRT, "port", _INSIDE, "inside the container"),
        _of(_TRT, "tp_size", of.tp, f"TP {of.tp} of the layout"),
        _of(_TRT, "pp_size", of.pp, f"PP {of.pp} of the layout"),
        _of(_TRT, "ep_size", of.ep if of.ep > 1 else None, f"EP {of.ep} of the layout"),
        _of(_TRT, "max_batch_size", total.value, total.rule),
        _of(_TRT, "max_num_tokens", wanted.batched_tokens, "serving.batched_tokens"),
        _of(_TRT, "max_seq_len", wanted.context, "serving.context, tokens of prompt and answer"),
        _of(_TRT, "kv_cache_free_gpu_memory_fraction", f"{wanted.utilisation / 100:g}", "serving.utilisation"),
    )


def _triton(_: Setup) -> tuple[Setting, ...]:
    return (
        _of(_TRITON, "model-repository", "/models", "the mounted folder"),
        _of(_TRITON, "http-port", _INSIDE, "inside the container"),
        _of(_TRITON, "allow-grpc", "false", "only the published port is served"),
        _of(_TRITON, "allow-metrics", "false", "only the published port is served"),
        _of(_TRITON, "exit-on-error", "true", "a server without its model does not look alive"),
    )


def _model_repository(setup: Setup) -> tuple[LaunchFile, ...]:
    """Triton's folder of models: vLLM's engine arguments, and the model's configuration."""
    wanted, of = serving.served(setup), setup.layout
    total = serving.each(setup)
    engine = (
        _of(_BACKEND, "model", "/model", "the mounted folder"),
        _of(_BACKEND, "tensor_parallel_size", of.tp, f"TP {of.tp} of the layout"),
        _of(_BACKEND, "pipeline_parallel_size", of.pp, f"PP {of.pp} of the layout"),
        _of(_BACKEND, "max_model_len", wanted.context, "serving.context"),
        _of(_BACKEND, "max_num_seqs", total.value, total.rule),
        _of(_BACKEND, "max_num_batched_tokens", wanted.batched_tokens, "serving.batched_tokens"),
        _of(_BACKEND, "gpu_memory_utilization", wanted.utilisation / 100, "serving.utilisation"),
        _of(_BACKEND, "kv_cache_dtype", "fp8" if wanted.kv == "fp8" else "auto", f"serving.kv {wanted.kv}"),
    )
    config = header(setup.plan.identity, "Triton, model of the vLLM backend")
    config += 'backend: "vllm"\n\ninstance_group [\n  {\n    count: 1\n    kind: KIND_MODEL\n  }\n]\n'
    base = f"models/{setup.name}"
    return (LaunchFile(f"{base}/1/model.json", as_json(engine), engine), LaunchFile(f"{base}/config.pbtxt", config))
