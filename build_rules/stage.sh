#!/bin/bash
# Builds the Python package tc and lays it out in FOLDER (default: build/python):
#   build_rules/stage.sh && PYTHONPATH=build/python python3 -m tc version
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-build/python}
# Label of each program, and where it goes in tc/bin.
declare -A programs=(
  [//frontend:tc-builder]=tc-builder
  [//runtime/tracker:tc-tracker]=tc-tracker
  [//runtime/agent:tc-agent]=tc-agent
  [//runtime/agent:tc-walls]=tc-walls
  [//runtime/qemu:libcount_plugin.so]=libcount_plugin.so
)
# Where the riscv64 packages could not be fetched, `tc` says so when that agent is asked for.
if [[ -f ${TC_SYSROOT_RISCV64:-$HOME/.cache/tc/sysroot-riscv64}/packages.txt ]]; then
  programs[//runtime/agent:riscv64/tc-agent]=riscv64/tc-agent
fi
bazel build --noshow_progress --ui_event_filters=-info //frontend:_runtime.so //frontend:_tc.so //runtime:link_files \
  "${!programs[@]}"
mkdir -p "$folder"
rm -rf "$folder/tc"
mkdir -p "$folder/tc/include" "$folder/tc/bin"
cp -R frontend/tc/. "$folder/tc"
find "$folder/tc" -name __pycache__ -prune -exec rm -rf {} +
cp bazel-bin/frontend/_runtime.so bazel-bin/frontend/_tc.so "$folder/tc"
cp -RL bazel-bin/runtime/lib "$folder/tc"
for label in "${!programs[@]}"; do
  file=${label#//}
  install -D -m 755 "bazel-bin/${file/://}" "$folder/tc/bin/${programs[$label]}"
done
cp runtime/abi.h runtime/tc_runtime.h "$folder/tc/include"
chmod -R u+w "$folder/tc"
