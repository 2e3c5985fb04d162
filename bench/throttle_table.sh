#!/usr/bin/env bash
# Predicted against measured step time on the throttled virtual accelerator: five machines, each with
# another bottleneck. Prints a Markdown table; the figures of bench/RESULTS.md come from here.
# Usage: bench/throttle_table.sh [steps]
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
steps=${1:-8}
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cat > "$work/config.json" << 'JSON'
{"model_type": "llama", "vocab_size": 2048, "hidden_size": 256, "intermediate_size": 768,
 "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4,
 "max_position_embeddings": 512, "tie_word_embeddings": false}
JSON

# row NAME SETTING...: one machine, one schedule.
row() {
  local name=$1
  shift
  HOME=$(mktemp -d -p "$work")  # measures this machine anew: its speed changes with what else runs
  export HOME
  build/lazytrain bench --model "$work" --batch 4 --seq 128 --steps "$steps" \
    --json "$work/result.json" memory.micro_batch_tokens=256 hardware.throttle=true "$@" > /dev/null
  awk -v name="$name" -v settings="$*" '
    function value(key,  line) { return values[key] }
    match($0, /"(step_seconds|predicted_step_seconds|device_bytes)": [0-9.e+-]+/) {
      split(substr($0, RSTART, RLENGTH), part, /": /); sub(/"/, "", part[1]); values[part[1]] = part[2]
    }
    END {
      printf "| %s | `%s` | %.3f | %.3f | %+.1f%% |\n", name, settings, value("predicted_step_seconds"),
        value("step_seconds"), 100 * (value("step_seconds") / value("predicted_step_seconds") - 1)
    }' "$work/result.json"
}

echo "| bottleneck | settings | predicted s | measured s | difference |"
echo "| --- | --- | --- | --- | --- |"
row compute memory.schedule=interval memory.checkpoint_interval=2
row h2d memory.schedule=interval memory.checkpoint_interval=1 hardware.h2d_gbps=0.08
row d2h memory.schedule=interval memory.checkpoint_interval=2 hardware.d2h_gbps=0.04
row "host memory" memory.schedule=interval memory.checkpoint_interval=1 hardware.host_gbps=0.5 \
  hardware.h2d_gbps=0.4 hardware.d2h_gbps=0.4
row optimizer memory.schedule=resident hardware.host_gbps=0.25
