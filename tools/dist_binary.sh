#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts the program of tools/cross.sh into one archive, with what BUILD installs around it and the licences of what is in it:
#
#     tools/dist_binary.sh BUILD TARGET
set -eu
build=$(realpath "$1")
target=$2
here=$(cd "$(dirname "$0")" && pwd)
"$here/cross.sh" "$target"
cross=$here/../build-cross/$target
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$here/../meson.build")
name=qkscope-$version-$target
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
"$here/install.sh" "$build" "/$name" "$stage" >/dev/null
cd "$stage/$name"
rm -rf lib include
find . -depth -type d -empty -delete
cp --remove-destination "$cross/qkscope" bin/qkscope
cp -r "$cross/libraries/licences" share/doc/qkscope/
cd ..
tar --owner=0 --group=0 --sort=name -cJf "$build/$name.tar.xz" "$name"
ls -s --block-size=k "$build/$name.tar.xz"
