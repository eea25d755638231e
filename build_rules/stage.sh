#!/bin/bash
# Builds the Python package tc and lays it out in FOLDER (default: build/python):
#   build_rules/stage.sh && PYTHONPATH=build/python python3 -m tc version
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-build/python}
programs=(//runtime/tracker:tc-tracker)
[[ -f runtime/agent/BUILD ]] &&
  programs+=(//runtime/agent:tc-agent //runtime/agent:tc-agent_riscv64)
bazel build --noshow_progress --ui_event_filters=-info //frontend:_tc.so //runtime:link_files \
  "${programs[@]}"
mkdir -p "$folder"
rm -rf "$folder/tc"
mkdir -p "$folder/tc/include" "$folder/tc/bin"
cp -R frontend/tc/. "$folder/tc"
find "$folder/tc" -name __pycache__ -prune -exec rm -rf {} +
cp bazel-bin/frontend/_tc.so "$folder/tc"
cp -RL bazel-bin/runtime/lib "$folder/tc"
cp bazel-bin/runtime/tracker/tc-tracker "$folder/tc/bin"
if [[ -f runtime/agent/BUILD ]]; then
  mkdir -p "$folder/tc/bin/riscv64"
  cp bazel-bin/runtime/agent/tc-agent "$folder/tc/bin"
  cp bazel-bin/runtime/agent/riscv64/tc-agent "$folder/tc/bin/riscv64"
fi
cp runtime/abi.h runtime/tc_runtime.h "$folder/tc/include"
chmod -R u+w "$folder/tc"
