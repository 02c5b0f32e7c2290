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
# Another apt may be at work, as on a machine that has just started: it is waited for, up to ten minutes. The
# option is about dpkg's lock; that of the lists, which an update takes, has none.
seconds=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
until apt-get update -qq 2>"$log"; do
    if [ "$seconds" -ge 600 ] || ! grep -q 'Could not get lock' "$log"; then
        cat "$log" >&2
        exit 1
    fi
    sleep 5
    seconds=$((seconds + 5))
done
cat "$log" >&2
# shellcheck disable=SC2086 # one word a package
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 $missing
