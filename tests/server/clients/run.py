"""Runs a client test with the interpreter of the build folder's virtual environment; exit code 77 = skipped.

Usage: run.py VENV SCRIPT. Standard library only: it must also run where the clients are not installed.
"""
import os
import pathlib
import sys

SKIPPED = 77

venv, script = pathlib.Path(sys.argv[1]), sys.argv[2]
if not (venv / "installed").exists():
    reason = venv / "unavailable"
    print("skipped: the client libraries are not installed in", venv)
    print(reason.read_text() if reason.exists() else "scripts/setup_clients.sh was not run (make test does).")
    sys.exit(SKIPPED)
python = str(venv / "bin" / "python")
os.execv(python, [python, "-B", script])
