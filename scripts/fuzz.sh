#!/usr/bin/env bash
# Builds the libFuzzer targets and runs each for FUZZ_SECONDS seconds from its corpus; stops at the first finding.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-20}

cmake --preset fuzz -DFATHOM_TESTS=ON >/dev/null
cmake --build --preset fuzz -j "$(nproc)" --target fuzz_all
for target in build/fuzz/tests/fuzz/fuzz_*; do
  [ -x "$target" ] && [ -f "$target" ] || continue
  name=$(basename "$target")
  work=build/fuzz/corpus/$name
  mkdir -p "$work"
  seeds=()
  [ -d "tests/fuzz/corpus/$name" ] && seeds=("tests/fuzz/corpus/$name")
  echo "== $name for $seconds s"
  if ! "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=65536 \
      -artifact_prefix="build/fuzz/$name-" "$work" "${seeds[@]}" >"build/fuzz/$name.log" 2>&1; then
    tail -n 40 "build/fuzz/$name.log"
    echo "fuzz.sh: $name found a fault; the input is build/fuzz/$name-*" >&2
    exit 1
  fi
  tail -n 1 "build/fuzz/$name.log"
done
