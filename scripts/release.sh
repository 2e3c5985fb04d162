#!/usr/bin/env bash
# Builds the program for every GPU since 2020 and packs it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat << 'HELP'
Usage: scripts/release.sh [FOLDER]

Builds lazytrain with the preset gpu-release (kernels for sm_80, 86, 89 and 90a, and PTX for newer
GPUs) in build-release/, and packs it, stripped, with libhighs.so, LICENSE, README.md, docs and
examples into FOLDER/lazytrain-VERSION-linux-x86_64.tar.gz (FOLDER: build-release). Needs the CUDA
toolkit; takes several times as long as a build for one GPU.

  --help    this text
HELP
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  usage
  exit 0
fi
(($# <= 1)) || { usage >&2 && exit 2; }
target=${1:-$ROOT/build-release}

configure gpu-release build-release
cmake --build "$ROOT/build-release" --target lazytrain
version=$(sed -n 's/^project(lazytrain VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")
[[ -n $version ]] || die "CMakeLists.txt names no version"
name=lazytrain-$version-linux-x86_64
staging=$(mktemp -d)
trap 'rm -rf -- "$staging"' EXIT
mkdir -p "$target" "$staging/$name"
cp -r "$ROOT/LICENSE" "$ROOT/README.md" "$ROOT/docs" "$ROOT/examples" "$staging/$name/"
install -m 755 -s "$ROOT/build-release/lazytrain" "$staging/$name/lazytrain"
install -m 644 "$ROOT/build-release/libhighs.so" "$staging/$name/libhighs.so"
tar -C "$staging" -czf "$target/$name.tar.gz" "$name"
say "$target/$name.tar.gz"
