#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes Debian packages of the last commit in BUILD/deb, and has lintian look at them: deb.sh BUILD ARCHIVE
set -eu
archive=$(realpath "$2")
version=$(basename "$archive" .tar.gz | sed 's/^qkscope-//')
rm -rf "$1/deb"
mkdir -p "$1/deb"
cd "$1/deb"
cp "$archive" "qkscope_$version.orig.tar.gz"
tar -xf "qkscope_$version.orig.tar.gz"
cd "qkscope-$version"
cp -r packaging/debian debian
dpkg-buildpackage -us -uc
cd ..
lintian --fail-on warning --suppress-tags bogus-mail-host,initial-upload-closes-no-bugs "qkscope_${version}-1_"*.changes
ls -- *.deb
