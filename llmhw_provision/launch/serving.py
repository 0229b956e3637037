"""vLLM: its arguments, and the unit that starts it on loopback."""

from __future__ import annotations

from llmhw_provision.errors import InputError
from llmhw_provision.launch.files import LaunchFile, Setting, Value, as_yaml, header
from llmhw_provision.launch.setup import Setup
from llmhw_provision.workload import Serving

PATH = "vllm.yaml"
_ENGINE = "vllm 0.33, engine/arg_utils.py"
_SERVER = "vllm 0.33, API server arguments"
_UNIT = "systemd.exec(5), systemd.service(5)"
_CACHES = ("bf16", "fp16", "fp8")
_QUANTISED = {"fp8": "fp8", "mxfp4": "mxfp4"}
STOP_SECONDS = 120


def served(setup: Setup) -> Serving:
    """The serving section; raises InputError when it is missing."""
    found = setup.need.workload.serving
    if found is None:
        raise InputError("workload.yaml: serving: missing", "a server needs serving: {concurrency: 32, context: 8192}")
    return found


def each(setup: Setup) -> Setting:
    """Requests in flight on one replica."""
    total, hosts, replicas = served(setup).concurrency, len(setup.work.hosts), setup.layout.dp
    rule = f"{total} requests / {hosts} hosts / {replicas} replicas, rounded up"
    return Setting("max-num-seqs", -(-total // (hosts * replicas)), rule, _ENGINE)


def folder(setup: Setup) -> str:
    """Where the files of a server lie."""
    return f"{setup.project}/serve/{setup.name}"


def secrets(setup: Setup) -> str:
    """File with the key, of root alone, never written by this program."""
    return f"/etc/llmhw/secrets/{setup.name}.env"


def address(setup: Setup) -> str:
    """The address to listen on."""
    return "0.0.0.0" if setup.launch.listen == "all" else "127.0.0.1"


def devices(setup: Setup) -> tuple[int, ...]:
    """Numbers of the group's GPUs."""
    return tuple(range(setup.work.first, setup.work.first + setup.work.count))


def vllm(setup: Setup) -> tuple[LaunchFile, ...]:
    """vllm.yaml and its unit; raises InputError for a cache type that vLLM does not have."""
    wanted = served(setup)
    if wanted.kv not in _CACHES:
        raise InputError(f"vllm: no cache in {wanted.kv}", f"serving.kv: {', '.join(_CACHES)}")
    found = [*_engine(setup, wanted), *_server(setup)]
    text = as_yaml(found, header(setup.plan.identity, "vLLM, vllm serve --config"))
    return (LaunchFile(PATH, text, tuple(found)), _unit(setup))


def _of(name: str, value: Value, rule: str, source: str = _ENGINE) -> Setting:
    return Setting(name, value, rule, source)


def _engine(setup: Setup, wanted: Serving) -> list[Setting]:
    of, weights = setup.layout, setup.need.workload.weights
    ways = f"{of.gpus} GPUs = TP {of.tp} × PP {of.pp} × DP {of.dp}"
    found = [
        _of("model", setup.model_path, "launch.model_path, or the project's folder of models"),
        _of("served-model-name", setup.name, "name of the model"),
        _of("tensor-parallel-size", of.tp, ways),
        _of("pipeline-parallel-size", of.pp, ways),
        _of("data-parallel-size", of.dp, ways),
        _of("max-model-len", wanted.context, "serving.context, tokens of prompt and answer"),
        each(setup),
        _of("max-num-batched-tokens", wanted.batched_tokens, "serving.batched_tokens, as sized"),
        _of("gpu-memory-utilization", wanted.utilisation / 100, "serving.utilisation, as sized"),
        _of("kv-cache-dtype", "fp8" if wanted.kv == "fp8" else "auto", f"serving.kv {wanted.kv}"),
    ]
    if of.ep > 1:
        found.append(_of("enable-expert-parallel", True, f"expert parallel over {of.ep} ranks"))
    if of.dcp > 1:
        rule = "ranks that hold the same keys and values divide them"
        found.append(_of("decode-context-parallel-size", of.dcp, rule))
    if weights in _QUANTISED and setup.need.model.quantisation is None:
        found.append(_of("quantization", _QUANTISED[weights], f"weights {weights}, made as they load"))
    elif weights in ("bf16", "fp16"):
        found.append(_of("dtype", {"bf16": "bfloat16", "fp16": "float16"}[weights], f"weights {weights}"))
    return found


def _server(setup: Setup) -> list[Setting]:
    rule = "launch.listen all: the key is required" if setup.launch.listen == "all" else "loopback"
    return [
        _of("host", address(setup), rule, _SERVER),
        _of("port", setup.launch.port, "launch.port", _SERVER),
        _of("enable-log-requests", False, "prompts stay out of logs", _SERVER),
    ]


def _unit(setup: Setup) -> LaunchFile:
    env, state = setup.environment("vllm"), f"{setup.scratch}/serve/{setup.name}"
    opened = setup.launch.listen == "all"
    names = " ".join(f"/dev/nvidia{number}" for number in devices(setup))
    seen = ",".join(map(str, devices(setup)))
    wait = f"for n in /dev/nvidia-uvm {names}; do until [ -e $$n ]; do sleep 1; done; done"
    lines = [
        header(setup.plan.identity, f"vLLM serves {setup.name}").rstrip(),
        "[Unit]",
        f"Description=vLLM, {setup.name}",
        "After=network-online.target nvidia-persistenced.service nvidia-fabricmanager.service",
        "Wants=network-online.target",
        f"RequiresMountsFor={setup.scratch} {setup.project}",
        "StartLimitIntervalSec=600",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        "User=vllm",
        f"WorkingDirectory=-{state}",
        f"Environment=HOME={state} HF_HOME={state}/huggingface HF_HUB_OFFLINE=1",
        f"Environment=VLLM_CACHE_ROOT={state}/vllm TRITON_CACHE_DIR={state}/triton",
        f"Environment=TORCHINDUCTOR_CACHE_DIR={state}/inductor FLASHINFER_WORKSPACE_BASE={state}/flashinfer",
        f"Environment=CUDA_VISIBLE_DEVICES={seen} {setup.threads.name}={setup.threads.value}",
        f"Environment=PATH={env}/bin:/usr/local/cuda/bin:/usr/bin:/bin CUDA_HOME=/usr/local/cuda",
        f"EnvironmentFile={'' if opened else '-'}{secrets(setup)}",
        f"ExecStartPre=+/usr/bin/install --directory --owner=vllm --group=vllm --mode=0750 {state}",
        f'ExecStartPre=/bin/sh -c "{wait}"',
    ]
    if opened:
        lines.append('ExecStartPre=/bin/sh -c "test -n \\"$VLLM_API_KEY\\" || { echo no VLLM_API_KEY >&2; exit 1; }"')
    lines += [
        f"ExecStart={env}/bin/vllm serve --config {folder(setup)}/{PATH}",
        "TimeoutStartSec=600",
        "Restart=on-failure",
        "RestartSec=10",
        "KillMode=mixed",
        f"TimeoutStopSec={STOP_SECONDS}",
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=1048576",
        *_HARDENED,
        f"ReadWritePaths=-{state}",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    settings = (
        _of("TimeoutStartSec", 600, "seconds until the devices are there; loading weights is not waited for", _UNIT),
        _of("TimeoutStopSec", STOP_SECONDS, "seconds for answers in flight", _UNIT),
        _of("StartLimitBurst", 5, "starts in 600 s: a server that cannot start stays down, with its reason", _UNIT),
        setup.threads,
    )
    return LaunchFile(f"vllm-{setup.name}.service", "\n".join(lines) + "\n", settings)


# what CUDA bears; it needs its devices, executable memory for what it compiles, and the network
_HARDENED = (
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "CapabilityBoundingSet=",
    "SystemCallArchitectures=native",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
)
