# Shared by the scripts of this folder; sourced, never run.
# shellcheck shell=bash

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." > /dev/null && pwd -P)

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# No failure is silent, not even of a command that nobody expected to fail.
trap 'die "${0##*/} stopped at line $LINENO: $BASH_COMMAND"' ERR

say() { printf '\n== %s\n' "$*"; }

# Phases and their wall time, printed by print_phases.
PHASES=()
PHASE_NAME=""
PHASE_START=0

end_phase() {
  [[ -n $PHASE_NAME ]] || return 0
  PHASES+=("$(printf '%-10s %5d s' "$PHASE_NAME" $((SECONDS - PHASE_START)))")
  PHASE_NAME=""
}

# phase NAME TEXT: ends the phase before it.
phase() {
  end_phase
  PHASE_NAME=$1
  PHASE_START=$SECONDS
  say "$2"
}

print_phases() {
  end_phase
  printf '  %s\n' "${PHASES[@]}"
  printf '  %-10s %5d s\n' "in all" "$SECONDS"
}

# is_configured FOLDER: set up for this tree, to its end (not copied from elsewhere with it).
is_configured() {
  [[ -e $ROOT/$1/build.ninja ]] &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$ROOT/$1/CMakeCache.txt"
}

# configure PRESET FOLDER [CMAKE_ARGUMENT ...]: the compiler launcher is chosen when a folder is new,
# since changing it later would rebuild everything.
configure() {
  local preset=$1 folder=$2
  shift 2
  local arguments=(--preset "$preset" "$@")
  if ! is_configured "$folder"; then
    arguments+=(--fresh)
    if command -v ccache > /dev/null; then
      arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
  fi
  (cd -- "$ROOT" && cmake "${arguments[@]}") ||
    die "configuring $folder/ failed; the message above says why"
}

# build FOLDER [TARGET ...]
build() {
  local folder=$1
  shift
  local targets=()
  if (($# > 0)); then targets=(--target "$@"); fi
  cmake --build "$ROOT/$folder" --parallel "$(nproc)" "${targets[@]}" ||
    die "building $folder/ failed; the compiler's message is above"
}
