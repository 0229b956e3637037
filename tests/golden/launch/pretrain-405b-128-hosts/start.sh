#!/bin/bash
# starts llama-3.1-405b-pretrain-61e4adc62698 with megatron on 1024 GPUs; plan 61e4adc62698
# Written by llmhw-provision launch; why: launch --explain
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
wanted=/srv/project/runs/llama-3.1-405b-pretrain-61e4adc62698/launch
if [ "$here" != "$wanted" ]; then
  echo "error: these files belong into $wanted, their paths name it; they lie in $here" >&2
  exit 1
fi
ENV=/opt/llmhw/envs/train-hf
MODEL=/srv/project/models/llama-3.1-405b
export MASTER_ADDR=${MASTER_ADDR:-192.0.2.1}  # the first host of the plan
export MASTER_PORT=${MASTER_PORT:-29500}
export OMP_NUM_THREADS=32  # 256 cores / 8 GPUs
export NCCL_CONF_FILE=$here/nccl.conf
export HF_HOME=/scratch/huggingface HF_HUB_OFFLINE=1  # nothing is fetched while training starts
export TRITON_CACHE_DIR=/scratch/cache/triton TORCH_EXTENSIONS_DIR=/scratch/cache/extensions
if [ ! -e "$MODEL/config.json" ]; then
  echo "error: $MODEL holds no config.json; put the model there or name launch.model_path" >&2
  exit 1
fi
mkdir -p /scratch/runs/llama-3.1-405b-pretrain-61e4adc62698 /srv/project/runs/llama-3.1-405b-pretrain-61e4adc62698
: "${MEGATRON_LM:?set it to a checkout of Megatron-LM, core_v0.19.2: the wheel has no pretrain_gpt.py}"
if ! "$ENV/bin/python" -c "import transformer_engine.pytorch"; then
  echo "error: $ENV has no transformer-engine, which the lock leaves out: it is compiled on the host" >&2
  exit 1
fi
export CUDA_DEVICE_MAX_CONNECTIONS=1  # kernels of tensor parallelism start in the order they are given
mapfile -t words < <(grep -v '^#' "$here/megatron.args" | tr ' ' '\n')
# the catalogue does not keep what a model's rotary positions and norms were trained with
mapfile -t rope < <("$ENV/bin/python" - "$MODEL/config.json" <<'PYTHON'
import json
import sys

config = json.load(open(sys.argv[1], encoding='utf-8'))
rope = config.get('rope_parameters') or config.get('rope_scaling') or {}
base = rope.get('rope_theta', config.get('rope_theta'))
words = ['--rotary-base', str(int(base)), '--norm-epsilon', str(config['rms_norm_eps'])]
if rope.get('rope_type') == 'llama3':
    words += ['--use-rope-scaling', '--rope-scaling-factor', str(rope['factor'])]
print('\n'.join(words))
PYTHON
)
if [ "${#rope[@]}" -lt 4 ]; then
  echo "error: $MODEL/config.json does not say rope_theta and rms_norm_eps" >&2
  exit 1
fi
"$ENV/bin/torchrun" --nnodes 128 --nproc-per-node 8 --rdzv-id llama-3.1-405b-pretrain-61e4adc62698 --rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:$MASTER_PORT" "$MEGATRON_LM/pretrain_gpt.py" "${words[@]}" "${rope[@]}"
