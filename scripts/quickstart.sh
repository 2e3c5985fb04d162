#!/usr/bin/env bash
# From a fresh clone to a fine-tuned model: installs what is missing, builds, fine-tunes the small
# story model of examples/tinystories on real text, and generates with the result.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat << 'HELP'
Usage: scripts/quickstart.sh [--yes]

Installs what is missing, builds build/lazytrain, fine-tunes the 656 thousand parameter model of
examples/tinystories on Shakespeare (on the GPU if there is one, else on the virtual accelerator),
and generates a text. Every run gets a folder of its own under runs/.

  --yes     install Debian packages without asking
  --help    this text
HELP
}

install_arguments=()
for argument in "$@"; do
  case $argument in
    --yes) install_arguments+=(--yes) ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

# The paths in the example's configuration are relative to the repository.
cd -- "$ROOT"

phase install "Debian packages"
scripts/install_deps.sh "${install_arguments[@]}"

phase build "Building build/lazytrain"
# A folder that is set up already keeps its settings (with tests, say).
if is_configured build; then
  configure release build
else
  configure release build -DLAZYTRAIN_TESTS=OFF
fi
build build lazytrain

run=runs/quickstart-$(date +%Y%m%d-%H%M%S)
number=2
while [[ -e $run ]]; do
  run=${run%%_*}_$number
  number=$((number + 1))
done

phase train "Fine-tuning examples/tinystories"
build/lazytrain sft examples/tinystories/config.yaml "training.output_dir=$run" ||
  die "fine-tuning failed; the line above says what to change"

prompt='<|start_story|>Once upon a time, there was'
phase generate "A text from the fine-tuned model"
build/lazytrain generate --model "$run/export" --prompt "$prompt" --max-new-tokens 60 ||
  die "generating failed; the line above says what to change"

say "Done"
print_phases
cat << DONE

The run:              $ROOT/$run
  every step          $run/metrics.jsonl
  settings            $run/config.yaml
  fine-tuned model    $run/export (a Hugging Face model folder)
What was trained:     examples/tinystories/config.yaml
Your own model:       build/lazytrain sft examples/tinystories/config.yaml \\
                        model.name=FOLDER dataset.path=FILE training.output_dir=runs/mine
DONE
