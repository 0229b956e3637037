#!/bin/bash
# starts mixtral-8x7b-pretrain-6baf2c40bb95 with accelerate on 32 GPUs; plan 6baf2c40bb95
# Written by llmhw-provision launch; why: launch --explain
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
wanted=/srv/project/runs/mixtral-8x7b-pretrain-6baf2c40bb95/launch
if [ "$here" != "$wanted" ]; then
  echo "error: these files belong into $wanted, their paths name it; they lie in $here" >&2
  exit 1
fi
ENV=/opt/llmhw/envs/train-hf
MODEL=/srv/project/models/mixtral-8x7b
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
mkdir -p /scratch/runs/mixtral-8x7b-pretrain-6baf2c40bb95 /srv/project/runs/mixtral-8x7b-pretrain-6baf2c40bb95
"$here/copy-checkpoints.sh" &
copier=$!
trap 'kill -TERM "$copier"; wait "$copier"' EXIT  # what finished last is copied before this ends
if [ "$#" -eq 0 ]; then
  echo "usage: start.sh SCRIPT.py [ARGUMENTS]: a training script that uses accelerate" >&2
  exit 2
fi
rank=${SLURM_NODEID:-${NODE_RANK:-0}}  # of this host; NODE_RANK where Slurm does not say it
"$ENV/bin/accelerate" launch --config_file "$here/accelerate.yaml" --machine_rank "$rank" --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" "$@"
