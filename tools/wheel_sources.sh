#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches what a wheel is built with that the images of manylinux and conda-forge do not have, as Debian's source packages,
# which apt checks: wheel_sources.sh FOLDER. tools/wheel_libraries.sh builds it. And Chart.js, for the report.
set -eu
mkdir -p "$1"
cd "$1"
lists=$(mktemp -d)
trap 'rm -rf "$lists"' EXIT
mkdir -p "$lists/parts" "$lists/state/partial"

# Debian's sources, of where this machine has its packages from; nothing of the machine is changed.
cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n 's/^deb /deb-src /p' >"$lists/parts/one-line.list"
for file in /etc/apt/sources.list.d/*.sources; do
    [ -e "$file" ] || continue
    sed 's/^Types:.*/Types: deb-src/' "$file"
    echo
done >"$lists/parts/blocks.sources"
apt() {
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$lists/parts" -o "Dir::State::lists=$lists/state" \
        -o APT::Sandbox::User= "$@"
}
apt update
apt source --download-only libb2 utf8proc xxhash
rm -f ./*.dsc ./*.debian.tar.* ./*.diff.gz
cp /usr/share/javascript/chart.js/chart.min.js .
ls
