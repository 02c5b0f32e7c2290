#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages listed in the given files that are not there yet. Without root
# it prints the one command that would. Of a package that is there for several architectures, the one
# of this machine counts.
set -eu
here=$(dpkg --print-architecture)
missing=
for package in $(cat "$@"); do
    dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null |
        grep -qxE "($here|all) installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "Some Debian packages are missing. Install them and try again:" >&2
    echo "    sudo apt-get update && sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
echo "Installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # one word a package
apt-get install -y -qq --no-install-recommends $missing
