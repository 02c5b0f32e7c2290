#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install.sh [--remove] BUILD PREFIX DESTDIR: puts what a build installs below PREFIX, in DESTDIR if that is not empty;
# or removes it, with folders that are empty then. Meson puts it into a folder of ours first, so that the prefix need
# not be the one that the build was set up with, and nothing in the build has to change for another. The Python
# package is pip's.
set -eu
umask 022
remove=
test "$1" = --remove && { remove=1; shift; }
build=$1 prefix=$2 root=$3
test -f "$build/build.ninja" || { echo "there is no build in $build, of which to tell what is installed" >&2; exit 1; }
set_up_for=$(sed -n 's/^prefix=//p' "$build/meson-private/qkscope.pc")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
meson install -C "$build" --no-rebuild --quiet --tags bin,runtime,devel,man,doc --destdir "$stage" >"$stage.log" 2>&1 ||
    { cat "$stage.log" >&2; rm -f "$stage.log"; exit 1; }
rm -f "$stage.log"
cd "$stage$set_up_for"

if [ "$remove" ]; then
    find . ! -type d | while IFS= read -r file; do
        rm -f "$root$prefix/$file"
    done
    # Folders of the system stay, even when they are empty.
    case $root$prefix in
    /usr | /usr/local) folders='*qkscope*' ;;
    *) folders='*' ;;
    esac
    find . -depth -mindepth 1 -type d -path "$folders" | while IFS= read -r folder; do
        rmdir "$root$prefix/$folder" 2>/dev/null || true
    done
    test "$folders" != '*' || ! cd "${root:-/}" || rmdir -p --ignore-fail-on-non-empty "${prefix#/}" 2>/dev/null || true
    exit
fi

find . -name '*.pc' | while IFS= read -r file; do
    sed "s|^prefix=.*|prefix=$prefix|" "$file" >"$stage/pc"
    cat "$stage/pc" >"$file"
done
find . -type d | while IFS= read -r folder; do
    mkdir -p "$root$prefix/$folder"
done
find . ! -type d | while IFS= read -r file; do # one that is running is not written over
    cp -PT --preserve=mode,timestamps --remove-destination "$file" "$root$prefix/$file"
done
# A program that links the library finds it at once.
test "$root" || test "$(id -u)" != 0 || ! command -v ldconfig >/dev/null || ldconfig
echo "$root$prefix/bin/qkscope"
