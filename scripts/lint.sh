#!/usr/bin/env bash
# Checks formatting and include directions; --tidy runs clang-tidy over all sources as well (minutes), --fix
# rewrites the formatting instead.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files '*.cc' '*.h' '*.c' '*.cu' '*.cuh')

if [ "${1:-}" = --fix ]; then
  clang-format -i "${sources[@]}"
  exit 0
fi
clang-format --dry-run -Werror "${sources[@]}"
python3 scripts/check_includes.py .

if [ "${1:-}" = --tidy ]; then
  cmake --preset release >/dev/null
  mapfile -t units < <(git ls-files 'src/*.cc' 'apps/*.cc' | grep -v -e _avx2 -e _avx512)
  printf '%s\n' "${units[@]}" |
    xargs -P "$(nproc)" -n 4 clang-tidy -p build/release --quiet --warnings-as-errors='*'
fi
echo "lint: ${#sources[@]} files are clean"
