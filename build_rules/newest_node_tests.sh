#!/bin/bash
# newest_node_tests.sh PYTHON FOLDER: the node tests of the newest ONNX standard in FOLDER/node, and the versions of its operators in
# FOLDER/versions.txt. The package that generates them lies in FOLDER/package, apart from the one that PYTHON imports. What is there
# already is not made again. Where the package can't be installed, a line says so, and the exit status is 3.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$1 folder=$2
requirements=$here/requirements-node-tests.txt
stamp=$(cat "$requirements" "$here/write_node_tests.py" | sha256sum)
[[ -f $folder/stamp && $(<"$folder/stamp") == "$stamp" ]] && exit 0
rm -rf "$folder"
mkdir -p "$folder"
# What the package needs is there: the one of the Python tests needs it as well.
if ! "$python" -m pip install -qq --disable-pip-version-check --no-deps --target "$folder/package" -r "$requirements" 2>"$folder/pip.log"; then
  echo "The node tests of $(<"$requirements") are not run, since it can't be installed: $(grep -m 1 ERROR "$folder/pip.log" || tail -n 1 "$folder/pip.log")" >&2
  exit 3
fi
PYTHONPATH=$folder/package "$python" -W ignore "$here/write_node_tests.py" "$folder"
echo "$stamp" >"$folder/stamp"
