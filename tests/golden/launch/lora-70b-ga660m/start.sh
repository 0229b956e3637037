#!/bin/bash
# starts llama-3.1-70b-sft-612505825402 with llamafactory on 4 GPUs; plan 612505825402
# Written by llmhw-provision launch; why: launch --explain
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
wanted=/srv/project/runs/llama-3.1-70b-sft-612505825402/launch
if [ "$here" != "$wanted" ]; then
  echo "error: these files belong into $wanted, their paths name it; they lie in $here" >&2
  exit 1
fi
ENV=/opt/llmhw/envs/train-lf
MODEL=/srv/project/models/llama-3.1-70b
export MASTER_ADDR=${MASTER_ADDR:-192.0.2.1}  # the first host of the plan
export MASTER_PORT=${MASTER_PORT:-29500}
export OMP_NUM_THREADS=16  # 64 cores / 4 GPUs
export NCCL_CONF_FILE=$here/nccl.conf
export HF_HOME=/scratch/huggingface HF_HUB_OFFLINE=1  # nothing is fetched while training starts
export TRITON_CACHE_DIR=/scratch/cache/triton TORCH_EXTENSIONS_DIR=/scratch/cache/extensions
if [ ! -e "$MODEL/config.json" ]; then
  echo "error: $MODEL holds no config.json; put the model there or name launch.model_path" >&2
  exit 1
fi
mkdir -p /scratch/runs/llama-3.1-70b-sft-612505825402 /srv/project/runs/llama-3.1-70b-sft-612505825402
"$here/copy-checkpoints.sh" &
copier=$!
trap 'kill -TERM "$copier"; wait "$copier"' EXIT  # what finished last is copied before this ends
rank=${SLURM_NODEID:-${NODE_RANK:-0}}  # of this host; NODE_RANK where Slurm does not say it
"$ENV/bin/accelerate" launch --config_file "$here/accelerate.yaml" --machine_rank "$rank" --main_process_ip "$MASTER_ADDR" --main_process_port "$MASTER_PORT" -m llamafactory.launcher "$here/train.yaml"
