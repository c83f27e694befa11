#!/bin/sh
# Installs the client libraries that tests/server/clients uses into a virtual environment in the build folder.
# Usage: setup_clients.sh BUILD_FOLDER. Where PyPI cannot be reached the tests report themselves as skipped, with
# the reason that is left in the file "unavailable"; "installed" holds the list that is there.
set -u
wanted=$(dirname "$0")/../tests/server/clients/requirements.txt
venv=$1/venv
cmp -s "$wanted" "$venv/installed" && exit 0
mkdir -p "$venv"
rm -f "$venv/installed"
if { python3 -m venv "$venv" &&
     "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 -r "$wanted"; } 2>"$venv/unavailable"; then
  rm -f "$venv/unavailable"
  cp "$wanted" "$venv/installed"
else
  echo "setup_clients.sh: the clients could not be installed; their tests will be skipped:" >&2
  tail -n 2 "$venv/unavailable" >&2
fi
exit 0
