#!/bin/bash
# Unpacks one package of a Debian suite into FOLDER without installing it, signatures checked:
#   build_rules/debian_package.sh trixie libonnxruntime-dev build/onnxruntime
set -euo pipefail
suite=$1 package=$2 folder=$3
mirror=$("$(dirname "${BASH_SOURCE[0]}")/debian_mirror.sh")
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "$mirror $suite main" >"$work/sources"
options=(
  -o "Dir::Etc::sourcelist=$work/sources" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=
)
apt-get "${options[@]}" -qq --error-on=any update
(cd "$work" && apt-get "${options[@]}" -qq download "$package")
dpkg -x "$work"/*.deb "$folder"
