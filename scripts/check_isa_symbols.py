#!/usr/bin/env python3
"""Fail when an object compiled for AVX2 or AVX-512 holds a function that the linker may merge.

A weak symbol in such an object (an inline function or template of a shared header) could become the
one copy of the whole program, and an older processor would meet instructions that it lacks.
Usage: check_isa_symbols.py ARCHIVE.a
"""
import re
import subprocess
import sys


def weak_symbols(archive):
    out = subprocess.run(["nm", "-C", "--defined-only", archive], check=True, capture_output=True, text=True)
    member, seen = None, set()
    for line in out.stdout.splitlines():
        if line.endswith(":"):
            member = line[:-1]
            if re.search(r"_avx(2|512)\.cc", member):
                seen.add(member)
        elif member in seen and (match := re.match(r"\S*\s+(W)\s+(.*)", line)):
            yield f"{member}: {match.group(2)}"
    if len(seen) < 2:
        yield f"{archive}: expected objects for AVX2 and AVX-512, found {sorted(seen)}"


def main():
    found = list(weak_symbols(sys.argv[1]))
    for line in found:
        print(f"not private to its instruction set: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
