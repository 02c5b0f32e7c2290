#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the libraries that conda-forge does not have, as Debian's source packages, which apt checks: wheel_sources.sh
# FOLDER. With --all, for tools/cross.sh, also those that it has. tools/wheel_libraries.sh builds them. And Chart.js, for
# the report.
set -eu
packages="libb2 utf8proc xxhash"
if [ "$1" = --all ]; then
    packages="$packages brotli jansson libonig libyaml libzstd lz4 snappy sqlite3 zlib"
    shift
fi
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

# With Debian's patches, security fixes among them.
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
for package in $packages; do
    rm -rf "${package}"-[0-9]* "${package}"_*
    apt source "$package" >/dev/null || { # an archive that has updates as programs only
        echo "$package: as first released, its update has no sources here" >&2
        apt source "$package/$release" >/dev/null
    }
    folder=$(echo "$package"-[0-9]*/)
    tar -czf "${package}_source.tar.gz" "$folder"
    rm -rf "$folder" "${package}"_*.dsc "${package}"_*.debian.tar.* "${package}"_*.diff.gz "${package}"_*.orig.tar.*
done
cp /usr/share/javascript/chart.js/chart.min.js .
ls
