#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the wheel for a system and, in a checkout of git, the archive of sources for PyPI, in BUILD/dist:
#
#     tools/wheel.sh BUILD TARGET
#
# TARGET, compiler and libraries are those of tools/cross.sh, whose build is gone on with. auditwheel finds the oldest
# glibc that has all that is called. The extension keeps to what Python 3.10 has, and abi3audit checks it: so the wheel
# is tagged for 3.10 and later, whichever Python made it.
set -eu
dist=$(realpath "$1")/dist
target=$2
root=$(cd "$(dirname "$0")/.." && pwd)
here=$root/build-cross/$target
"$root/tools/cross.sh" "$target"
PATH=$root/build-cross/tools/bin:$PATH
export CPATH='' LIBRARY_PATH=''
case $target in
*-linux) platform=linux_${target%-*} ;;
x86_64-macos) platform=macosx_13_0_x86_64 ;;
aarch64-macos) platform=macosx_13_0_arm64 ;;
esac

# What a tool says is shown only if it fails.
quietly() {
    "$@" >"$here/wheel.log" 2>&1 || { tail -n 60 "$here/wheel.log" >&2; exit 1; }
}

# In the build that is there, without an environment of its own, so that objects are used again.
pack() {
    quietly python -m build --no-isolation -C build-dir="$here/build" -C setup-args=--cross-file="$here/cross.ini" "$@" "$root"
}

rm -rf "$here/made" "$here/dist"
pack --wheel --outdir "$here/made" -C compile-args=qkscope -C compile-args=python/qkscope/_library.abi3.so
cd "$here/made"
quietly wheel unpack ./*.whl
rm ./*.whl
cp -r "$here/libraries/licences" "$(echo qkscope-*/*.dist-info/licenses)/libraries"
quietly wheel pack qkscope-*/
quietly wheel tags --remove --python-tag cp310 --abi-tag abi3 --platform-tag "$platform" ./*.whl
case $target in
*-linux) quietly auditwheel repair --wheel-dir "$here/dist" ./*.whl ;;
*) mkdir "$here/dist" && mv ./*.whl "$here/dist" ;;
esac
quietly abi3audit --strict --assume-minimum-abi3 3.10 "$here"/dist/*.whl
if [ -e "$root/.git" ]; then
    pack --sdist --outdir "$here/dist"
fi
mkdir -p "$dist"
mv "$here"/dist/* "$dist"
ls -s --block-size=k "$dist" | grep qkscope
