#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the libraries of tools/wheel_sources.sh, static ones, which become part of the library of a wheel:
#
#     tools/wheel_libraries.sh SOURCES PREFIX
#
# What is built with them says PKG_CONFIG_PATH=PREFIX/lib/pkgconfig, CPATH=PREFIX/include, LIBRARY_PATH=PREFIX/lib.
set -eu
sources=$(realpath "$1")
mkdir -p "$2"
prefix=$(realpath "$2")
CFLAGS="-O2 -fPIC ${CFLAGS:-}"
export CFLAGS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

unpack() {
    mkdir "$work/$1"
    tar -xf "$sources/$1"_*.orig.tar.* -C "$work/$1" --strip-components=1
    cd "$work/$1"
}

# The processor is asked what it can do when the program runs.
unpack libb2
[ -x configure ] || autoreconf -fi
./configure --prefix="$prefix" --libdir="$prefix/lib" --disable-shared --enable-fat --disable-openmp
make install
unpack utf8proc
make libutf8proc.a libutf8proc.pc prefix="$prefix" CFLAGS="$CFLAGS -DUTF8PROC_STATIC -std=c99"
install -D -m 644 libutf8proc.a "$prefix/lib/libutf8proc.a"
install -D -m 644 utf8proc.h "$prefix/include/utf8proc.h"
install -D -m 644 libutf8proc.pc "$prefix/lib/pkgconfig/libutf8proc.pc"
unpack xxhash
make libxxhash.a libxxhash.pc PREFIX="$prefix" LIBDIR="$prefix/lib" MOREFLAGS=
install -D -m 644 libxxhash.a "$prefix/lib/libxxhash.a"
install -D -m 644 xxhash.h "$prefix/include/xxhash.h"
install -D -m 644 libxxhash.pc "$prefix/lib/pkgconfig/libxxhash.pc"
