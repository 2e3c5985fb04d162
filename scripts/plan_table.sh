#!/usr/bin/env bash
# Writes the table of docs/plans.md anew.
set -euo pipefail

usage() {
  cat << 'HELP'
Usage: scripts/plan_table.sh FOLDER_OF_MODEL_CONFIGS [SECONDS_A_SEARCH]

Runs build/plan_table (configure with -DLAZYTRAIN_BENCH=ON) and puts what it prints into docs/plans.md.
Takes about ten minutes with 10 seconds a search.

  --help    this text
HELP
}

if [[ ${1:---help} == --help || ${1:-} == -h ]]; then
  usage
  exit 0
fi
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
table=$(mktemp)
trap 'rm -f -- "$table"' EXIT
build/plan_table "$1" "${2:-10}" > "$table"
awk -v table="$table" '
  /<!-- end of table -->/ { while ((getline line < table) > 0) print line; print ""; skipping = 0 }
  !skipping { print }
  /<!-- table -->/ { skipping = 1 }' docs/plans.md > docs/plans.md.new
mv docs/plans.md.new docs/plans.md
