#!/usr/bin/env bash
# Planned schedules in wall time on the throttled virtual accelerator: five models and budgets, each
# with another bottleneck, beside the interval schedule at the same cap and on the same weights.
# Prints a Markdown table; the figures of bench/RESULTS.md come from here. Needs python3.
# Usage: bench/solved_table.sh [steps]
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
steps=${1:-8}
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# row NAME LAYERS HIDDEN KV_HEADS VOCABULARY BATCH CAP_GB SETTING...: one model, budget and machine.
row() {
  local name=$1 layers=$2 hidden=$3 kv_heads=$4 vocabulary=$5 batch=$6 cap=$7
  shift 7
  HOME=$(mktemp -d -p "$work")  # measures this machine anew: its speed changes with what else runs
  export HOME
  cat > "$work/config.json" << JSON
{"model_type": "llama", "vocab_size": $vocabulary, "hidden_size": $hidden,
 "intermediate_size": $((hidden * 3)), "num_hidden_layers": $layers, "num_attention_heads": 8,
 "num_key_value_heads": $kv_heads, "max_position_embeddings": 512, "tie_word_embeddings": false}
JSON
  build/lazytrain bench --model "$work" --batch "$batch" --seq 128 --steps "$steps" \
    --baseline-steps "$steps" --schedule solve,interval,solve,interval,solve,interval --device-memory-gb "$cap" \
    --json "$work/result.json" memory.micro_batch_tokens=256 memory.solve_seconds=6 \
    hardware.throttle=true "$@" > "$work/log"
  python3 - "$name" "$layers x $hidden, batch $batch" "$cap" "$*" "$work/result.json" << 'PYTHON'
import json, sys
name, model, cap, settings, path = sys.argv[1:]
ours = json.load(open(path))
runs = [ours] + ours["baselines"]
best = lambda first: min(run["step_seconds"] for run in runs[first::2])
predicted, measured = ours["predicted_step_seconds"], best(0)
print(f"| {name} | {model}, {cap} GB, `{settings}` | {predicted:.3f} | {measured:.3f} "
      f"| {100 * (measured / predicted - 1):+.1f}% | {best(1):.3f} "
      f"| {ours['device_bytes'] / 1e9:.4f} |")
PYTHON
}

echo "| bottleneck | model, cap, settings | predicted s | measured s | difference | interval s | planned peak GB |"
echo "| --- | --- | --- | --- | --- | --- | --- |"
row compute 8 256 4 2048 24 0.05
row h2d 6 256 8 2048 8 0.04 hardware.h2d_gbps=0.06
row d2h 8 256 4 1024 8 0.05 hardware.d2h_gbps=0.03
row "host memory" 6 320 8 1024 8 0.05 hardware.host_gbps=0.4 hardware.h2d_gbps=0.3 hardware.d2h_gbps=0.3
row optimizer 10 256 8 2048 8 0.06 hardware.host_gbps=0.25
