#!/usr/bin/env python3
"""Fail when a source includes a folder of its own or a higher level (see ARCHITECTURE.md, "Levels")."""
import pathlib
import re
import sys

LEVELS = {
    "core": 0,
    "types": 1,
    "device": 2, "kvcache": 2, "text": 2, "weights": 2,
    "kernels": 3, "comm": 3, "scheduler": 3, "stream": 3, "grammar": 3,
    "model": 4, "sampler": 4,
    "engine": 5,
    "http": 6, "capi": 6,
}
# Beyond the levels: what a folder must not see although it lies lower.
FORBIDDEN = {
    "scheduler": {"weights", "text", "device"},
    "kvcache": {"weights", "text", "device"},
    "kernels": {"kvcache", "text", "weights"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
SUFFIXES = {".cc", ".h", ".cu", ".cuh", ".c", ".inc"}


def violations(root):
    src = root / "src"
    for path in sorted(src.rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        folder = path.relative_to(src).parts[0]
        if folder not in LEVELS:
            yield f"{path.relative_to(root)}: folder src/{folder} has no level; add it to scripts/check_includes.py"
            continue
        for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
            target = include.split("/")[0]
            if target == folder or target == "fathom" and folder == "capi":
                continue
            if target not in LEVELS:
                yield f'{path.relative_to(root)}: include "{include}": write the path from src/'
            elif LEVELS[target] >= LEVELS[folder] or target in FORBIDDEN.get(folder, ()):
                yield f'{path.relative_to(root)}: include "{include}": src/{folder} may not use src/{target}'


def hosts_violations(root):
    """hosts/ and python/ may use include/fathom only."""
    for path in sorted((root / "hosts").rglob("*")):
        if path.suffix in SUFFIXES:
            for include in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if include.split("/")[0] in LEVELS:
                    yield f'{path.relative_to(root)}: include "{include}": hosts may use include/fathom only'


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = list(violations(root)) + list(hosts_violations(root))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
