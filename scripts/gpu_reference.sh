#!/usr/bin/env bash
# Compares bfloat16 here with bfloat16 in Hugging Face transformers, case by case.
set -euo pipefail

usage() {
  cat << 'HELP'
Usage: scripts/gpu_reference.sh [OPTIONS] BUILD_FOLDER CASES_FOLDER

What does bfloat16 cost by itself, and does this engine lose more? Runs every reference case in
CASES_FOLDER through `lazytrain verify` (from BUILD_FOLDER) in float32 and bfloat16, and through
tests/golden/bf16_reference.py, which needs python3 with torch and transformers, and prints both
errors side by side. Passes if float32 is within 1e-3 of the stored values and bfloat16 loses at most
1.5 times what transformers loses (scripts/reference_table.py says how that is judged). Cases whose
family transformers does not have fail. Exit status 1 if anything failed.

  --device D    cuda (default) or cpu, for both
  --python P    the Python to use (default: python3)
  --jobs N      verify runs side by side (default: 4)
  --work DIR    logs and reports (default: BUILD_FOLDER/gpu_reference)
  --help        this text
HELP
}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" > /dev/null && pwd -P)
device=cuda python=python3 jobs=4 work=""
positional=()
while (($# > 0)); do
  case $1 in
    --device) device=${2:?--device needs a value} && shift ;;
    --python) python=${2:?--python needs a value} && shift ;;
    --jobs) jobs=${2:?--jobs needs a value} && shift ;;
    --work) work=${2:?--work needs a value} && shift ;;
    --help | -h) usage && exit 0 ;;
    -*) usage >&2 && exit 2 ;;
    *) positional+=("$1") ;;
  esac
  shift
done
if ((${#positional[@]} != 2)); then usage >&2 && exit 2; fi
folder=${positional[0]}
cases=("${positional[1]}"/*/)
work=${work:-$folder/gpu_reference}
rm -rf -- "$work/verify"
mkdir -p "$work/verify"

# verify CASE DTYPE: its status only says that bfloat16 is not float32; the report is what counts.
verify() {
  local name
  name=$(basename -- "$1")-$2
  timeout 120 "$folder/lazytrain" verify "$1" --device "$device" --dtype "$2" \
    --json "$work/verify/$name.json" > "$work/verify/$name.log" 2>&1 || true
}

rm -f -- "$work/reference.json"
"$python" "$here/../tests/golden/bf16_reference.py" "${cases[@]}" --device "$device" \
  --json "$work/reference.json" > "$work/reference.log" 2>&1 &
reference=$!

for dtype in float32 bfloat16; do
  for case_folder in "${cases[@]}"; do
    while (($(jobs -rp | wc -l) > jobs)); do sleep 0.1; done
    verify "$case_folder" "$dtype" &
  done
done
wait "$reference" || true
wait

if [[ ! -e $work/reference.json ]]; then
  printf 'error: %s made no report; %s says why: %s\n' bf16_reference.py "$work/reference.log" \
    "$(tail -n 1 "$work/reference.log")" >&2
  exit 1
fi
"$python" "$here/reference_table.py" "$work/reference.json" "$work/verify" | tee "$work/table.txt"
