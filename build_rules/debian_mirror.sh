#!/bin/bash
# Prints the address of the Debian mirror that this machine's own apt sources name.
set -euo pipefail
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
  sed -n 's/^Debian Debian //p' | sort -u)
# Before the first `apt-get update` nothing is known of origins.
[[ $mirror ]] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
  grep '/debian/*$' | sort -u || true)
if [[ ! $mirror ]]; then
  echo "apt's sources name no mirror of Debian, which has the packages that are needed here." >&2
  exit 1
fi
echo "${mirror%%$'\n'*}"
