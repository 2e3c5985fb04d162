#!/usr/bin/env bash
# The training figures of bench/RESULTS.md: every row is one command.
set -euo pipefail

usage() {
  cat << 'HELP'
Usage: bench/training_table.sh BUILD_FOLDER MODELS_FOLDER ROW...

Runs `lazytrain bench` on random weights with the config.json files in MODELS_FOLDER/NAME and prints
rows of a Markdown table; logs and JSON go to BUILD_FOLDER/training_table. Rows, with the host memory
that they need:
  3b      Qwen2.5-3B, batch 192, 70 GB of device memory: planned, interval and paper   (60 GB)
  7b      Qwen2.5-7B, batch 144, the same                                               (125 GB)
  14b     Qwen2.5-14B, batch 96, the same                                               (230 GB)
  7b-140  Qwen2.5-7B, batch 144, 140 GB of device memory, updates on the device         (125 GB)
Needs a GPU and python3, without packages.

  --help    this text
HELP
}

if [[ ${1:---help} == --help || ${1:-} == -h ]]; then
  usage
  exit 0
fi
if (($# < 3)); then usage >&2 && exit 2; fi
folder=$1 models=$2
shift 2
logs=$folder/training_table
mkdir -p "$logs"

# measure ROW MODEL ARGUMENT...
measure() {
  local row=$1 model=$2
  shift 2
  "$folder/lazytrain" bench --model "$models/$model" --seq 1024 --warmup 1 --baseline-steps 5 \
    --json "$logs/$row.json" "$@" > "$logs/$row.log" 2>&1 || {
    tail -n 1 "$logs/$row.log" >&2
    return 1
  }
  python3 - "$row" "$logs/$row.json" << 'PYTHON'
import json, sys
row, path = sys.argv[1:]
first = json.load(open(path))
for run in [first] + first["baselines"]:
    passes = len(run["passes"])
    schedule = run["schedule"]
    if passes > 1 or schedule == "solve":
        schedule += f": {passes} x {run['micro_batch_tokens']}"
    predicted, measured = run["predicted_step_seconds"], run["step_seconds"]
    print(f"| {row} | {schedule} | {run['tokens_per_second']:,.0f} | {run['tflops']:.0f} "
          f"| {measured:.2f} s ({run['steps']}) | {predicted:.2f} s, {100 * (predicted / measured - 1):+.1f}% "
          f"| {run['device_bytes'] / 1e9:.2f}, {run['device_bytes_driver'] / 1e9:.2f} GB "
          f"| {(run['host_bytes'] + run['store_bytes']) / 1e9:.1f} GB |")
PYTHON
}

nvidia-smi --query-gpu=name,driver_version,power.limit --format=csv,noheader
echo "| row | schedule | tokens/s | TFLOPS | step (median of) | predicted | planned, driver's peak | host |"
echo "| --- | --- | --- | --- | --- | --- | --- | --- |"
for row in "$@"; do
  case $row in
    3b)
      measure 3b Qwen2.5-3B --batch 192 --device-memory-gb 70 --steps 8 \
        --schedule solve,interval,paper memory.solve_seconds=10
      ;;
    7b)
      measure 7b Qwen2.5-7B --batch 144 --device-memory-gb 70 --steps 8 \
        --schedule solve,interval,paper memory.solve_seconds=10
      ;;
    14b)
      measure 14b Qwen2.5-14B --batch 96 --device-memory-gb 70 --host-memory-gb 250 --steps 5 \
        --schedule solve,paper,interval memory.solve_seconds=6 memory.micro_batch_tokens=16384
      ;;
    7b-140)
      measure 7b-140 Qwen2.5-7B --batch 144 --device-memory-gb 140 --steps 8 --schedule solve \
        memory.solve_seconds=10 optimizer.update=device
      ;;
    *) usage >&2 && exit 2 ;;
  esac
done
