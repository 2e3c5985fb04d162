#!/usr/bin/env bash
# Does bfloat16 on a GPU, with streamed weights, learn what float32 learns?
set -euo pipefail

usage() {
  cat << 'HELP'
Usage: scripts/gpu_learning.sh [OPTIONS] BUILD_FOLDER MODELS_FOLDER

Trains with BUILD_FOLDER/lazytrain on the GPU and, from the same weights and with the same data in the
same order, in float32 on the virtual accelerator, and compares the last losses:
  tiny    fine-tuning of MODELS_FOLDER/TinyStories-656K, weights streamed
  50m     a Llama of 48 M parameters from random weights, with the same tokenizer: in bfloat16 with a
          cap that cannot hold it, so weights, gradients and states stream; in bfloat16 with all of
          them resident, which must give the same bits; in float32
Passes if the mean of the last ten losses is within 1% of the reference's (scripts/learning_table.py
says the rest). Needs python3, without packages. Exit status 1 if anything failed.

  --steps N     steps of every run (default: 300)
  --device D    cuda:0 (default), or cpu to try the script itself
  --text FILE   what is trained on (default: examples/tinystories/shakespeare.txt of this tree)
  --limit S     seconds after which a run is ended; what it did is compared (default: 150)
  --work DIR    runs and logs (default: BUILD_FOLDER/gpu_learning); the file gpu_done in it appears
                when the GPU is free again and only references still run
  --help        this text
HELP
}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" > /dev/null && pwd -P)
steps=300 device=cuda:0 text=$here/../examples/tinystories/shakespeare.txt limit=150 work=""
positional=()
while (($# > 0)); do
  case $1 in
    --steps) steps=${2:?--steps needs a value} && shift ;;
    --device) device=${2:?--device needs a value} && shift ;;
    --text) text=${2:?--text needs a value} && shift ;;
    --limit) limit=${2:?--limit needs a value} && shift ;;
    --work) work=${2:?--work needs a value} && shift ;;
    --help | -h) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) positional+=("$1") ;;
  esac
  shift
done
if ((${#positional[@]} != 2)); then usage >&2 && exit 2; fi
folder=${positional[0]}
tiny=${positional[1]}/TinyStories-656K
work=${work:-$folder/gpu_learning}
rm -rf -- "$work"
mkdir -p "$work"
runs=$work/runs.tsv

# A Llama of 48,247,296 parameters that has tiny's tokenizer.
make_larger_model() {
  larger=$work/model-50m
  mkdir -p "$larger"
  cp -- "$tiny"/tokenizer*.json "$tiny"/special_tokens_map.json "$larger"
  cat > "$larger/config.json" << 'JSON'
{
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "vocab_size": 2048,
  "hidden_size": 512,
  "intermediate_size": 2048,
  "num_hidden_layers": 12,
  "num_attention_heads": 8,
  "num_key_value_heads": 4,
  "max_position_embeddings": 512,
  "rms_norm_eps": 1e-06,
  "rope_theta": 10000.0,
  "initializer_range": 0.02,
  "hidden_act": "silu",
  "attention_bias": false,
  "mlp_bias": false,
  "tie_word_embeddings": true,
  "bos_token_id": 1,
  "eos_token_id": 2
}
JSON
}

# What is the same for every run of a model: order of the data, batches, rates.
write_config() {
  local name=$1 model=$2 init=$3 tokens=$4 rate=$5 warmup=$6
  cat > "$work/$name.yaml" << YAML
model: {name: "$model", init: $init}
dataset: {path: "$text", max_seq_len: 256, packing: true}
training:
  batch_tokens: $tokens
  num_steps: $steps
  learning_rate: $rate
  lr_scheduler: cosine
  warmup_ratio: $warmup
  seed: 42
memory: {micro_batch_tokens: 512, checkpoint_interval: 1}
logging: {log_interval: 50}
YAML
}

# note NAME DEVICE DTYPE SCHEDULE RULE REFERENCE: a line of the table.
note() {
  (IFS=$'\t' && printf '%s\n' "$*"$'\t'"$work/$1") >> "$runs"
}

# train NAME CONFIG DEVICE DTYPE SCHEDULE CAP: a failure is seen by the table, which lacks its steps.
train() {
  local name=$1
  timeout --foreground --kill-after=20 "$limit" "$folder/lazytrain" sft "$work/$2.yaml" \
    "model.device=$3" "model.dtype=$4" "memory.schedule=$5" "memory.device_memory_gb=$6" \
    "training.output_dir=$work/$name" > "$work/$name.log" 2>&1 || true
  rm -rf -- "$work/$name/export"
}

references() {
  train tiny-reference tiny cpu float32 resident 1
  train 50m-reference 50m cpu float32 resident 4
}

gpu_runs() {
  # Context and kernels take 0.55 GB of a GPU's cap. Resident, the larger model takes 0.42 GB more.
  local small=0.85
  if [[ $device == cpu ]]; then small=0.1; fi
  train tiny tiny "$device" bfloat16 interval "$small"
  train 50m-streamed 50m "$device" bfloat16 interval "$small"
  train 50m-resident 50m "$device" bfloat16 resident 4
  train 50m-float32 50m "$device" float32 resident 4
  touch "$work/gpu_done"
}

make_larger_model
write_config tiny "$tiny" pretrained 2048 1.5e-3 0.05
# At twice this rate and 512 tokens a step the paths of bfloat16 and float32 part: 0.7% after 260 steps.
write_config 50m "$larger" random 512 2.5e-4 0.1
note tiny-reference cpu float32 resident - -
note tiny "$device" bfloat16 interval:1 loss tiny-reference
note 50m-reference cpu float32 resident - -
note 50m-streamed "$device" bfloat16 interval:1 loss 50m-reference
note 50m-resident "$device" bfloat16 resident bits 50m-streamed
note 50m-float32 "$device" float32 resident loss 50m-reference

# Side by side, each on cores of its own: threads that wait for one another do not share a core well.
read -ra allowed <<< "$(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0)))')"
if [[ $device != cpu ]] && ((${#allowed[@]} >= 8)); then
  split=$((${#allowed[@]} * 3 / 4))
  list() { (IFS=, && printf '%s' "$*"); }
  (
    taskset -cp "$(list "${allowed[@]:0:split}")" "$BASHPID" > /dev/null || true
    references
  ) &
  (
    taskset -cp "$(list "${allowed[@]:split}")" "$BASHPID" > /dev/null || true
    gpu_runs
  ) &
  wait
else
  references
  gpu_runs
fi
python3 "$here/learning_table.py" "$runs" "$steps" | tee "$work/table.txt"
