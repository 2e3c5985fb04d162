#!/usr/bin/env bash
# Installs the Debian packages that LazyTrain is built with, and nothing that is there already.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat << 'HELP'
Usage: scripts/install_deps.sh [--tests] [--yes]

Installs the Debian packages that building needs. On a terminal it lists them and asks first; without
a terminal it lists them, then installs them if it runs as root, else prints the command and fails.

  --tests   also what the tests, the format check and clang-tidy need
  --yes     do not ask
  --help    this text
HELP
}

BUILD_PACKAGES=(
  g++ cmake ninja-build
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev libxxhash-dev
  libpcre2-dev python3 python3-pip
)
TEST_PACKAGES=(
  ccache libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev
  clang-format-14 clang-tidy-14
)

packages=("${BUILD_PACKAGES[@]}")
assume_yes=false
for argument in "$@"; do
  case $argument in
    --tests) packages+=("${TEST_PACKAGES[@]}") ;;
    --yes) assume_yes=true ;;
    --help | -h) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done

# Debian 12 or later, or a derivative of Debian.
check_system() {
  local id="" like="" version="" name="this system"
  if [[ -r /etc/os-release ]]; then
    # shellcheck disable=SC1091
    IFS=$'\t' read -r id like version name < <(
      . /etc/os-release
      printf '%s\t%s\t%s\t%s\n' "${ID:-none}" "${ID_LIKE:-none}" "${VERSION_ID:-0}" \
        "${PRETTY_NAME:-this system}"
    )
  fi
  if command -v apt-get > /dev/null && command -v dpkg-query > /dev/null; then
    # Debian's unreleased branches have no version number.
    if [[ $id == debian ]] && { [[ $version == 0 ]] || ((${version%%.*} >= 12)); }; then return; fi
    if [[ " $like " == *" debian "* || " $like " == *" ubuntu "* ]]; then return; fi
  fi
  die "$name is not Debian 12 or later (nor made from it): install the equivalents of" \
    "${packages[*]}, then run cmake --preset release && cmake --build build"
}

# Prints those of the packages that are not installed.
missing_packages() {
  local installed
  # A package that dpkg never heard of makes dpkg-query fail, and is missing.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2> /dev/null) || true
  local package
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<< "$installed" || printf '%s\n' "$package"
  done
}

check_system
mapfile -t missing < <(missing_packages)
if ((${#missing[@]} == 0)); then
  echo "All ${#packages[@]} Debian packages that are needed are installed."
  exit 0
fi
printf 'These Debian packages are needed and not installed:\n'
printf '  %s\n' "${missing[@]}"

install=(apt-get install -y --no-install-recommends "${missing[@]}")
on_terminal=false
if [[ -t 0 && -t 2 ]]; then on_terminal=true; fi
as_root=()
if ((EUID != 0)); then
  if ! $on_terminal || ! command -v sudo > /dev/null; then
    die "installing needs root; run this as root, then start again:" \
      "apt-get update && ${install[*]}"
  fi
  as_root=(sudo)
fi
if $on_terminal && ! $assume_yes; then
  printf '\nInstall them with: %s\n[y/N] ' "${as_root[*]:+sudo }${install[*]}"
  read -r answer || answer=""
  [[ $answer == [yY] || $answer == [yY][eE][sS] ]] ||
    die "nothing was installed; --yes installs without asking"
fi

# Runs a command as root, and shows it.
run() {
  printf '+ %s\n' "${as_root[*]:+sudo }$*"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@"
}
run apt-get update -q || echo "warning: apt-get update failed; going on with the lists at hand" >&2
run "${install[@]}" -q -o Dpkg::Use-Pty=0 ||
  die "apt-get could not install ${missing[*]}; its message above says why"
