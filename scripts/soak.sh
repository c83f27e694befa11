#!/bin/sh
# Soaks the server in storms of requests and compares every answer with the same request's answer alone.
# Usage: soak.sh [SECONDS (default 1200)] [SEED (default: of the day)]; run `make build` first.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/release
cmake --build "$build" --target fathom fathom_testdata
export FATHOM="$build/fathom" FATHOM_SOURCE_DIR="$root" FATHOM_TESTDATA="$build/testdata"
exec python3 -B "$root/tests/server/determinism.py" --seconds "${1:-1200}" --seed "${2:-$(date +%Y%m%d)}"
