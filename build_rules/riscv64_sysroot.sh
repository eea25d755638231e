#!/bin/bash
# Lays out headers and static libraries of riscv64 (gRPC and what it stands on) in FOLDER, from the
# Debian packages of the suite below: bookworm has no riscv64. apt checks their signatures; nothing
# of this machine's own packages changes.
#   build_rules/riscv64_sysroot.sh [FOLDER]    (default $TC_SYSROOT_RISCV64, ~/.cache/tc/sysroot-riscv64)
set -euo pipefail
suite=trixie
packages=(
  libc6-dev linux-libc-dev libgcc-14-dev libstdc++-14-dev
  libgrpc++-dev libgrpc-dev libprotobuf-dev libabsl-dev libc-ares-dev libre2-dev libssl-dev
  zlib1g-dev libzstd-dev
)
folder=${1:-${TC_SYSROOT_RISCV64:-$HOME/.cache/tc/sysroot-riscv64}}
stamp="$suite ${packages[*]}"
[[ -f $folder/packages.txt && $(head -n 1 "$folder/packages.txt") == "$stamp" ]] && exit

mirror=$("$(dirname "${BASH_SOURCE[0]}")/debian_mirror.sh")
mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,archives/partial,state,root}
: >"$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
  >"$work/sources.list"
cat >"$work/apt.conf" <<END
APT::Architecture "riscv64";
APT::Architectures { "riscv64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "$work/state";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work";
Dir::Cache::archives "$work/archives";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
END
export APT_CONFIG=$work/apt.conf
if ! { apt-get -qq update && cd "$work/archives" && apt-get -qq download "${packages[@]}"; } \
  >"$work/log" 2>&1; then
  cat "$work/log" >&2
  echo "riscv64 packages of Debian $suite could not be fetched from $mirror; see the lines above," \
    "and name a folder that has them laid out in TC_SYSROOT_RISCV64." >&2
  exit 1
fi
for package in *.deb; do
  dpkg-deb -x "$package" "$work/root"
done
# Documentation is the better half of the files.
rm -rf "$work/root/usr/share"
{ echo "$stamp"; printf '%s\n' *.deb; } >"$work/root/packages.txt"
rm -rf "$folder"
mv "$work/root" "$folder"
