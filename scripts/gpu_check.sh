#!/usr/bin/env bash
# Runs what needs a GPU: tests, reference models, the example. For a machine that has a build but
# not necessarily the sources.
set -euo pipefail

usage() {
  cat << 'HELP'
Usage: scripts/gpu_check.sh [--sanitize] BUILD_FOLDER [REFERENCE_FOLDER ...]

Runs from BUILD_FOLDER what is there of: *_gpu_test (the GPU tests), lazytrain (verify on every
case in the REFERENCE_FOLDERs, under several schedules and in both dtypes; sft on
examples/tinystories), cuda_kernels_bench. Prints one line each and writes logs and results.txt into
BUILD_FOLDER/gpu_check. Exit status 1 if anything failed.

  --sanitize  also compute-sanitizer (memcheck, racecheck) on a step of a small model, two minutes
  --help      this text
HELP
}

if [[ ${1:---help} == --help || ${1:-} == -h ]]; then
  usage
  exit 0
fi
sanitize=false
if [[ $1 == --sanitize ]]; then sanitize=true && shift; fi
folder=${1:?no BUILD_FOLDER}
shift
logs=$folder/gpu_check
mkdir -p "$logs"
results=$logs/results.txt
: > "$results"

record() { printf '%-8s %-44s %s\n' "$1" "$2" "$3" | tee -a "$results"; }

# run NAME COMMAND ...: the log is NAME's; the last line of a failure goes into the table.
run() {
  local name=$1 start=$SECONDS
  shift
  if "$@" > "$logs/$name.log" 2>&1; then
    record ok "$name" "$((SECONDS - start)) s"
  else
    record FAILED "$name" "$(grep -E '^error|FAILED|terminate' "$logs/$name.log" | tail -n 1)"
  fi
}

# verify CASE DTYPE SCHEDULE: as run, with the digest of the bits. In bfloat16 gradients are not
# judged: those of tiny random models lose a lot.
verify() {
  local case_folder=$1 dtype=$2 schedule=$3 judged='.'
  local name log
  name=verify-$(basename -- "$case_folder")-$dtype-${schedule/:/}
  log=$logs/$name.log
  if [[ $dtype == bfloat16 ]]; then judged='^(logits|loss|adamw_losses|grad_norms)'; fi
  timeout 120 "$folder/lazytrain" verify "$case_folder" --device cuda --dtype "$dtype" \
    --schedule "$schedule" > "$log" 2>&1 || true
  if grep -q '^bits' "$log" && ! grep ' FAIL ' "$log" | grep -qE "$judged"; then
    record ok "$name" "$(sed -n 's/^bits: *\(.\{16\}\).*/\1/p' "$log")"
  else
    record FAILED "$name" "$(grep -vE '^bits' "$log" | tail -n 1)"
  fi
}

# Every schedule of one case and dtype gives the same bits.
compare_bits() {
  local case_folder=$1 dtype=$2 count
  count=$(grep -h '^bits' "$logs/verify-$(basename -- "$case_folder")-$dtype"-*.log | sort -u | wc -l)
  if ((count != 1)); then
    record FAILED "bits-$(basename -- "$case_folder")-$dtype" "$count digests"
  fi
}

small_step() {
  timeout 200 compute-sanitizer --tool "$1" "$folder/lazytrain" bench --model "$logs/small" --batch 4 \
    --seq 200 --steps 1 --warmup 0 "${@:2}"
}

# memcheck NAME SETTING ...
memcheck() {
  local name=$1
  shift
  if small_step memcheck "$@" > "$logs/$name.log" 2>&1 \
    && grep -q 'ERROR SUMMARY: 0 errors' "$logs/$name.log"; then
    record ok "$name" ""
  else
    record FAILED "$name" "$(grep -E '^error|=== Error|SUMMARY' "$logs/$name.log" | head -n 1)"
  fi
}

# racecheck NAME SETTING ...: of the kernels here. cuBLASLt's for Hopper (nvjet) hand shared memory
# on between blocks of a cluster in a way that the tool reports.
racecheck() {
  local name=$1
  shift
  local status=0 races
  small_step racecheck "$@" > "$logs/$name.log" 2>&1 || status=$?
  races=$(grep -E 'Race reported|and (Read|Write) access' "$logs/$name.log" | grep -vc nvjet || true)
  if ((status == 0 && races == 0)) && grep -q 'RACECHECK SUMMARY' "$logs/$name.log"; then
    record ok "$name" "$(grep -c 'Race reported' "$logs/$name.log" || true) reports in cuBLASLt"
  else
    record FAILED "$name" "$(grep -E '^error|Error:' "$logs/$name.log" | grep -v nvjet | head -n 1)"
  fi
}

run_sanitizers() {
  mkdir -p "$logs/small"
  cat > "$logs/small/config.json" << 'JSON'
{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 256,
 "intermediate_size": 768, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 1000, "max_position_embeddings": 1024,
 "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "hidden_act": "silu", "tie_word_embeddings": false,
 "attention_bias": false, "torch_dtype": "bfloat16"}
JSON
  memcheck memcheck-streamed memory.schedule=interval
  memcheck memcheck-resident memory.schedule=resident optimizer.update=device
  racecheck racecheck-streamed memory.schedule=interval
  racecheck racecheck-resident memory.schedule=resident optimizer.update=device
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee -a "$results"

for test in "$folder"/*_gpu_test; do
  [[ -x $test ]] && run "$(basename -- "$test")" timeout 400 "$test"
done

if [[ -x $folder/lazytrain ]]; then
  for references in "$@"; do
    for case_folder in "$references"/*/; do
      for dtype in float32 bfloat16; do
        for schedule in resident interval:1 interval:2; do
          verify "$case_folder" "$dtype" "$schedule" &
        done
        wait
        compare_bits "$case_folder" "$dtype"
      done
    done
  done
  if [[ -e examples/tinystories/config.yaml ]]; then
    run sft-tinystories timeout 200 "$folder/lazytrain" sft examples/tinystories/config.yaml \
      model.device=cuda:0 memory.device_memory_gb=1 "training.output_dir=$logs/tinystories-$$"
  fi
fi

if [[ -x $folder/cuda_kernels_bench ]]; then
  run cuda_kernels_bench timeout 300 "$folder/cuda_kernels_bench"
fi

if $sanitize; then run_sanitizers; fi

if grep -q '^FAILED' "$results"; then exit 1; fi
