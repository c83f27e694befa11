#!/bin/sh
# Installs the client libraries that tests/server uses into a virtual environment in the build folder.
# Usage: setup_clients.sh BUILD_FOLDER. Where PyPI cannot be reached the tests report themselves as skipped.
set -u
folder=$1/clients
[ -x "$folder/bin/python" ] && "$folder/bin/python" -c "import anthropic, openai" 2>/dev/null && exit 0
python3 -m venv "$folder" &&
  "$folder/bin/pip" install --quiet --disable-pip-version-check "openai>=2" anthropic ||
  echo "setup_clients.sh: the clients could not be installed; their tests will be skipped." >&2
exit 0
