#!/usr/bin/env bash
# Installs, builds and runs the tests.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat << 'HELP'
Usage: scripts/test.sh [--all] [--lint] [--yes]

Installs what is missing, checks the format of the sources, builds everything, and runs the tests
labelled ci, with an NVIDIA GPU present also those labelled gpu.

  --all     also the labels slow, tsan (in a build of its own, build-tsan) and browser, and --lint
  --lint    also clang-tidy over all sources (over ten minutes on two cores)
  --yes     install Debian packages without asking
  --help    this text
HELP
}

install_arguments=(--tests)
labels=(ci)
lint=false
if [[ $(nvidia-smi --list-gpus 2> /dev/null || true) == GPU* ]]; then
  labels+=(gpu)
fi
for argument in "$@"; do
  case $argument in
    --all) labels+=(slow tsan browser) && lint=true ;;
    --lint) lint=true ;;
    --yes) install_arguments+=(--yes) ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

cd -- "$ROOT"
SUMMARY=()
failed=false
record() { SUMMARY+=("$(printf '%-10s %s' "$1" "$2")"); }

# sources PATTERN ...: files of ours with these names, separated by NUL.
sources() {
  local names=(-name "$1")
  shift
  local pattern
  for pattern in "$@"; do names+=(-o -name "$pattern"); done
  local folders=(src tests)
  if [[ -d bench ]]; then folders+=(bench); fi
  find "${folders[@]}" -type f \( "${names[@]}" \) -print0 | sort -z
}

check_format() {
  local count
  count=$(sources '*.cc' '*.h' '*.cu' '*.cuh' | tr -dc '\0' | wc -c)
  if sources '*.cc' '*.h' '*.cu' '*.cuh' | xargs -0 clang-format-14 --dry-run -Werror; then
    record format "$count files, as clang-format wants them"
  else
    record format "FAILED; clang-format-14 -i puts the files named above right"
    failed=true
  fi
}

run_lint() {
  local count
  count=$(sources '*.cc' | tr -dc '\0' | wc -c)
  if sources '*.cc' | xargs -0 -n 1 -P "$(nproc)" \
    clang-tidy-14 --quiet -p build --extra-arg=-Wno-unknown-warning-option 2> build/clang-tidy.log; then
    record lint "$count files, clang-tidy found nothing"
  else
    record lint "FAILED; the findings are above"
    failed=true
  fi
}

# attribute NAME FILE: a count of the <testsuite> element of a JUnit report.
attribute() { sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -n 1; }

# run_label LABEL FOLDER
run_label() {
  local label=$1 folder=$2 report=$ROOT/$2/tests-$1.xml status=0
  if ! has_tests "$label" "$folder"; then
    record "$label" "no tests with this label"
    if [[ $label == ci ]]; then failed=true; fi
    return
  fi
  rm -f -- "$report"
  ctest --test-dir "$folder" -L "^$label\$" --parallel "$(nproc)" --output-on-failure \
    --output-junit "$report" || status=$?
  if ((status != 0)); then failed=true; fi
  if [[ ! -s $report ]]; then
    record "$label" "FAILED; ctest left no report"
    failed=true
    return
  fi
  local tests failures skipped disabled
  tests=$(attribute tests "$report")
  failures=$(attribute failures "$report")
  skipped=$(attribute skipped "$report")
  disabled=$(attribute disabled "$report")
  record "$label" "$((tests - failures - skipped - disabled)) passed, $failures failed, $((skipped + disabled)) skipped"
}

# has_tests LABEL FOLDER
has_tests() { ! ctest --test-dir "$2" -N -L "^$1\$" | grep -q '^Total Tests: 0$'; }

phase install "Debian packages"
scripts/install_deps.sh "${install_arguments[@]}"

phase configure "Configuring build/"
configure release build -DLAZYTRAIN_TESTS=ON

phase format "Format"
check_format

phase build "Building"
build build

for label in "${labels[@]}"; do
  folder=build
  if [[ $label == tsan ]] && has_tests tsan build; then
    folder=build-tsan
    phase build-tsan "Building with ThreadSanitizer"
    configure tsan build-tsan -DLAZYTRAIN_TESTS=ON
    build build-tsan
  fi
  phase "$label" "Tests labelled $label"
  run_label "$label" "$folder"
done

if $lint; then
  phase lint "clang-tidy"
  run_lint
fi

say "Time"
print_phases
say "Result"
printf '  %s\n' "${SUMMARY[@]}"
if $failed; then die "not everything passed; what failed is above"; fi
echo "  everything passed"
