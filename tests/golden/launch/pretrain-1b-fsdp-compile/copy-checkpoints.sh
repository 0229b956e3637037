#!/bin/bash
# copies checkpoints from /scratch/runs/llama-3.2-1b-pretrain-75c906ba7963 to /srv/project/runs/llama-3.2-1b-pretrain-75c906ba7963/checkpoints; plan 75c906ba7963
# Written by llmhw-provision launch; why: launch --explain
# A checkpoint is finished when it has held trainer_state.json for a minute, so that slower ranks are done too, or when
# training is over. It is copied under another name and renamed when it is whole, so that what bears its name
# can be loaded. No finished copy is deleted here.
set -uo pipefail
from=/scratch/runs/llama-3.2-1b-pretrain-75c906ba7963
to=/srv/project/runs/llama-3.2-1b-pretrain-75c906ba7963/checkpoints
mkdir -p "$to"
copy() {
  for path in "$from"/checkpoint-*; do
    name=${path##*/}
    part=$to/.$name.part
    if [ -e "$to/$name" ]; then continue; fi
    if [ -z "$(find "$path/trainer_state.json" "$@" 2>/dev/null)" ]; then continue; fi
    rm -rf "$part"
    if nice -n 19 cp -a "$path" "$part" && sync -f "$to" && mv -T "$part" "$to/$name"; then
      echo "copied $name to $to"
    else
      rm -rf "$part"
      echo "error: $name was not copied to $to" >&2
    fi
  done
}
stop=
trap 'stop=1' TERM
while [ -z "$stop" ]; do
  copy -mmin +1
  for _ in {1..30}; do [ -n "$stop" ] || sleep 1; done
done
copy
