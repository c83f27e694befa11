#!/usr/bin/env bash
# Installs the distribution packages that fathom builds with (Debian 12; meant for Ubuntu 22.04 and 24.04 too).
# Idempotent: prints what is missing and installs only that, as root or through sudo.
#   scripts/setup.sh           what `make run` and `make test` need
#   scripts/setup.sh --fuzz    also clang with libFuzzer
#   scripts/setup.sh --lint    also clang-format and clang-tidy
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache git pkg-config
  nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev libexpected-dev
  libxxhash-dev libminizip-dev zlib1g-dev libutf8proc-dev libedit-dev
  libboost-dev libssl-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev librapidcheck-dev zstd curl python3 python3-venv
)
for option in "$@"; do
  case "$option" in
    --fuzz)
      packages+=(clang)
      # The libFuzzer runtime has the compiler's version in its name where no plain package exists.
      if apt-cache show libclang-rt-dev >/dev/null 2>&1; then
        packages+=(libclang-rt-dev)
      else
        version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
        if apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
          packages+=("libclang-rt-$version-dev")
        else
          packages+=("libclang-common-$version-dev")  # Ubuntu 22.04 ships the runtime there
        fi
      fi
      ;;
    --lint) packages+=(clang-format clang-tidy) ;;
    *) echo "setup.sh: unknown option $option (known: --fuzz, --lint)" >&2; exit 2 ;;
  esac
done

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: this system has no apt-get. Install the equivalents of: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

echo "setup.sh: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: run this as root, or install sudo; missing packages: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
