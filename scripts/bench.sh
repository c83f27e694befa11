#!/usr/bin/env bash
# The figures of bench/results: kernel micro-benchmarks, then `fathom bench` on DeepSeek-V2-Lite's real
# dimensions with 8 routed experts (27 layers, 6.2 GB of random bf16 weights).
set -euo pipefail
cd "$(dirname "$0")/.."
dpkg-query -W libbenchmark-dev >/dev/null 2>&1 || { echo "bench.sh: apt-get install libbenchmark-dev first" >&2; exit 1; }
cmake --preset bench >/dev/null
cmake --build --preset bench -j "$(nproc)"
for program in build/bench/bench/bench_*; do
  [ -x "$program" ] && [ -f "$program" ] && "$program"
done
build/bench/fathom bench bench/configs/v2-lite --load-format dummy --config-override n_routed_experts=8
