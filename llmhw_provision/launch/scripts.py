"""Scripts that start training: start.sh on each host, job.sbatch under Slurm, and the copy of checkpoints."""

from __future__ import annotations

from llmhw_provision.launch import accelerate, llamafactory, megatron, trl
from llmhw_provision.launch.files import LaunchFile, Setting, header
from llmhw_provision.launch.setup import MASTER_PORT, Setup
from llmhw_provision.workload import FrameworkName

_TORCHRUN = "PyTorch, torchrun: rendezvous c10d gives each host its ranks"
_TORCH = '"$ENV/bin/torchrun" --nnodes {nodes} --nproc-per-node {ranks} --rdzv-id {run} --rdzv-backend c10d'


def start(setup: Setup, framework: FrameworkName) -> LaunchFile:
    """start.sh: the same command on every host of the group."""
    of, work = setup.layout, setup.work
    ranks = of.gpus // of.nodes
    settings = [
        Setting("nnodes", of.nodes, "hosts of the plan", _TORCHRUN),
        Setting("nproc-per-node", ranks, "one process per GPU", _TORCHRUN),
        Setting("MASTER_PORT", MASTER_PORT, "PyTorch's default", _TORCHRUN),
        setup.threads,
    ]
    gpus = ",".join(str(number) for number in range(work.first, work.first + work.count))
    packages = {"llamafactory": "llamafactory", "trl": "trl", "megatron": "megatron-core"}
    lines = [
        "#!/bin/bash",
        header(setup.plan.identity, f"starts {setup.run} with {framework} on {of.gpus} GPUs").rstrip(),
        "set -euo pipefail",
        'here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)',
        f"wanted={setup.kept}/launch",
        'if [ "$here" != "$wanted" ]; then',
        '  echo "error: these files belong into $wanted, their paths name it; they lie in $here" >&2',
        "  exit 1",
        "fi",
        f"ENV={setup.environment(packages.get(framework, 'accelerate'))}",
        f"MODEL={setup.model_path}",
        f"export MASTER_ADDR=${{MASTER_ADDR:-{setup.hosts[0].address}}}  # the first host of the plan",
        f"export MASTER_PORT=${{MASTER_PORT:-{MASTER_PORT}}}",
        f"export OMP_NUM_THREADS={setup.threads.value}  # {setup.threads.rule}",
        *([f"export CUDA_VISIBLE_DEVICES={gpus}  # the group's GPUs"] if _gpus_of_host(setup) > work.count else []),
        "export NCCL_CONF_FILE=$here/nccl.conf",
        f"export HF_HOME={setup.scratch}/huggingface HF_HUB_OFFLINE=1  # nothing is fetched while training starts",
        f"export TRITON_CACHE_DIR={setup.scratch}/cache/triton TORCH_EXTENSIONS_DIR={setup.scratch}/cache/extensions",
        'if [ ! -e "$MODEL/config.json" ]; then',
        '  echo "error: $MODEL holds no config.json; put the model there or name launch.model_path" >&2',
        "  exit 1",
        "fi",
        f"mkdir -p {setup.output} {setup.kept}",
        *_copying(setup, framework),
        *_command(setup, framework, ranks),
    ]
    return LaunchFile("start.sh", "\n".join(lines) + "\n", tuple(settings), executable=True)


def _copying(setup: Setup, framework: FrameworkName) -> list[str]:
    if framework == "megatron" and setup.nodes > 1:
        return []  # its checkpoints lie in the project already
    return [
        '"$here/copy-checkpoints.sh" &',
        "copier=$!",
        'trap \'kill -TERM "$copier"; wait "$copier"\' EXIT  # what finished last is copied before this ends',
    ]


def _command(setup: Setup, framework: FrameworkName, ranks: int) -> list[str]:
    torch = _TORCH.format(nodes=setup.nodes, ranks=ranks, run=setup.run)
    torch += ' --rdzv-endpoint "$MASTER_ADDR:$MASTER_PORT"'
    if framework == "megatron":
        return _megatron(torch)
    if framework == "llamafactory" and accelerate.sharding(setup) != "fsdp":
        return [f'{torch} -m llamafactory.launcher "$here/{llamafactory.PATH}"']
    rank = ["rank=${SLURM_NODEID:-${NODE_RANK:-0}}  # of this host; NODE_RANK where Slurm does not say it"]
    launch = (
        f'"$ENV/bin/accelerate" launch --config_file "$here/{accelerate.PATH}" --machine_rank "$rank" '
        '--main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT"'
    )
    if framework == "llamafactory":
        return [*rank, f'{launch} -m llamafactory.launcher "$here/{llamafactory.PATH}"']
    if framework == "trl":
        return [*rank, f'{launch} -m trl.scripts.grpo --config "$here/{trl.PATH}"']
    return [
        'if [ "$#" -eq 0 ]; then',
        '  echo "usage: start.sh SCRIPT.py [ARGUMENTS]: a training script that uses accelerate" >&2',
        "  exit 2",
        "fi",
        *rank,
        f'{launch} "$@"',
    ]


def _megatron(torch: str) -> list[str]:
    return [
        ': "${MEGATRON_LM:?set it to a checkout of Megatron-LM, core_v0.19.2: the wheel has no pretrain_gpt.py}"',
        'if ! "$ENV/bin/python" -c "import transformer_engine.pytorch"; then',
        '  echo "error: $ENV has no transformer-engine, which the lock leaves out: it is compiled on the host" >&2',
        "  exit 1",
        "fi",
        "export CUDA_DEVICE_MAX_CONNECTIONS=1  # kernels of tensor parallelism start in the order they are given",
        f"mapfile -t words < <(grep -v '^#' \"$here/{megatron.PATH}\" | tr ' ' '\\n')",
        "# the catalogue does not keep what a model's rotary positions and norms were trained with",
        'mapfile -t rope < <("$ENV/bin/python" - "$MODEL/config.json" <<\'PYTHON\'',
        "import json",
        "import sys",
        "",
        "config = json.load(open(sys.argv[1], encoding='utf-8'))",
        "rope = config.get('rope_parameters') or config.get('rope_scaling') or {}",
        "base = rope.get('rope_theta', config.get('rope_theta'))",
        "words = ['--rotary-base', str(int(base)), '--norm-epsilon', str(config['rms_norm_eps'])]",
        "if rope.get('rope_type') == 'llama3':",
        "    words += ['--use-rope-scaling', '--rope-scaling-factor', str(rope['factor'])]",
        "print('\\n'.join(words))",
        "PYTHON",
        ")",
        'if [ "${#rope[@]}" -lt 4 ]; then',
        '  echo "error: $MODEL/config.json does not say rope_theta and rms_norm_eps" >&2',
        "  exit 1",
        "fi",
        f'{torch} "$MEGATRON_LM/pretrain_gpt.py" "${{words[@]}}" "${{rope[@]}}"',
    ]


def copy_checkpoints(setup: Setup, framework: FrameworkName) -> LaunchFile:
    """copy-checkpoints.sh: each finished checkpoint goes to the project while training goes on."""
    pattern, done = ("iter_*", "metadata.json") if framework == "megatron" else ("checkpoint-*", "trainer_state.json")
    seconds = 30
    lines = [
        "#!/bin/bash",
        header(setup.plan.identity, f"copies checkpoints from {setup.output} to {setup.kept}/checkpoints").rstrip(),
        f"# A checkpoint is finished when it has held {done} for a minute, so that slower ranks are done too, or when",
        "# training is over. It is copied under another name and renamed when it is whole, so that what bears its name",
        "# can be loaded. No finished copy is deleted here.",
        "set -uo pipefail",
        f"from={setup.output}",
        f"to={setup.kept}/checkpoints" + ("/$(hostname -s)  # each host has its parts" if setup.nodes > 1 else ""),
        'mkdir -p "$to"',
        "copy() {",
        f'  for path in "$from"/{pattern}; do',
        "    name=${path##*/}",
        "    part=$to/.$name.part",
        '    if [ -e "$to/$name" ]; then continue; fi',
        f'    if [ -z "$(find "$path/{done}" "$@" 2>/dev/null)" ]; then continue; fi',
        '    rm -rf "$part"',
        '    if nice -n 19 cp -a "$path" "$part" && sync -f "$to" && mv -T "$part" "$to/$name"; then',
        '      echo "copied $name to $to"',
        "    else",
        '      rm -rf "$part"',
        '      echo "error: $name was not copied to $to" >&2',
        "    fi",
        "  done",
        "}",
        "stop=",
        "trap 'stop=1' TERM",
        'while [ -z "$stop" ]; do',
        "  copy -mmin +1",
        f'  for _ in {{1..{seconds}}}; do [ -n "$stop" ] || sleep 1; done',
        "done",
        "copy",
    ]
    rule = "seconds between looks for finished checkpoints; a look costs one listing"
    note = Setting("look", seconds, rule, "far below the interval between checkpoints")
    return LaunchFile("copy-checkpoints.sh", "\n".join(lines) + "\n", (note,), executable=True)


def sbatch(setup: Setup) -> LaunchFile:
    """job.sbatch: one task per host, which starts start.sh."""
    of, work = setup.layout, setup.work
    ranks = of.gpus // of.nodes
    source = "Slurm, sbatch(1)"
    cores = work.cores * ranks // max(ranks, _gpus_of_host(setup))
    found = [
        Setting("job-name", setup.name[:60], "model", source),
        Setting("nodes", of.nodes, "hosts of the layout", source),
        Setting("ntasks-per-node", 1, "torchrun starts one process per GPU itself", source),
        Setting("gres", f"gpu:{ranks}", f"{ranks} GPUs of a host", source),
        Setting("cpus-per-task", cores, f"{work.cores} cores, by the share of GPUs", source),
        Setting("mem", 0, "all memory that Slurm gives of the host", source),
        Setting("output", f"{setup.kept}/slurm-%j.log", "project storage", source),
        Setting("signal", "TERM@300", "five minutes to save before the time limit", source),
    ]
    lines = [
        "#!/bin/bash",
        *[f"#SBATCH --{item.name}={item.value}" for item in found],
        header(setup.plan.identity, f"runs {setup.run} under Slurm").rstrip(),
        "set -euo pipefail",
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "export MASTER_ADDR",
        f'exec srun --kill-on-bad-exit=1 {setup.kept}/launch/start.sh "$@"',
    ]
    return LaunchFile("job.sbatch", "\n".join(lines) + "\n", tuple(found), executable=True)


def _gpus_of_host(setup: Setup) -> int:
    return sum(work.count for work in setup.plan.work if work.hosts == setup.work.hosts)
