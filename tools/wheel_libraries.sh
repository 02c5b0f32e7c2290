#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the libraries of tools/wheel_sources.sh, static ones, which become part of a wheel, of a program for another
# system, or of a package for conda:
#
#     tools/wheel_libraries.sh [--all] SOURCES PREFIX
#
# What is built with them says PKG_CONFIG_PATH=PREFIX/lib/pkgconfig, CPATH=PREFIX/include, LIBRARY_PATH=PREFIX/lib.
# CC, CXX, AR, RANLIB and HOST (as configure has it) are those of the other system. Licences are in PREFIX/licences.
set -eu
all=
test "$1" = --all && { all=1; shift; }
sources=$(realpath "$1")
mkdir -p "$2"
prefix=$(realpath "$2")
# shellcheck disable=SC2089
: "${CC:=cc}" "${CXX:=c++}" "${AR:=ar}" "${RANLIB:=ranlib}" "${HOST:=}"
CFLAGS="-O2 -fPIC -w ${CFLAGS:-}"
export CC CXX AR RANLIB CFLAGS
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/licences"

unpack() {
    mkdir "$work/$1"
    tar -xzf "$sources/$1_source.tar.gz" -C "$work/$1" --strip-components=1
    cd "$work/$1"
    version=$(sed -n '1s/.*(\([^-~+)]*\).*/\1/p' debian/changelog | sed 's/.*://')
    cp debian/copyright "$prefix/licences/$1"
}

configure() {
    ./configure ${HOST:+--host="$HOST"} --prefix="$prefix" --libdir="$prefix/lib" --disable-shared "$@"
}

# lib NAME FILES...: their objects, in one library. FLAGS are its own.
lib() {
    name=$1
    shift
    mkdir objects
    for file; do
        echo "$file"
    done | FLAGS="$FLAGS" xargs -P 2 -I FILE sh -ec '
        case $1 in *.cc) cc="$CXX -std=c++11" ;; *) cc=$CC ;; esac
        $cc $CFLAGS $FLAGS -c "$1" -o "objects/$(echo "${1%.*}" | tr / _).o"' sh FILE
    $AR rcs "$prefix/lib/lib$name.a" objects/*.o
    $RANLIB "$prefix/lib/lib$name.a"
}

# pc NAME LIBS: what pkg-config says of it.
pc() {
    cat >"$prefix/lib/pkgconfig/$1.pc" <<END
Name: $1
Description: $1
Version: $version
Cflags: -I$prefix/include
Libs: -L$prefix/lib $2
END
}

unpack libb2
if [ "$all" ]; then # ids of texts are all that it hashes
    : >src/config.h
    FLAGS="-DSUFFIX= -DNATIVE_LITTLE_ENDIAN" lib b2 src/blake2b-ref.c
    cp src/blake2.h "$prefix/include"
    pc libb2 -lb2
else # the processor is asked what it can do when the program runs
    [ -x configure ] || autoreconf -fi
    configure --enable-fat --disable-openmp
    make install
fi
unpack utf8proc
make libutf8proc.a CC="$CC" AR="$AR" CFLAGS="$CFLAGS -DUTF8PROC_STATIC -std=c99"
install -D -m 644 libutf8proc.a "$prefix/lib/libutf8proc.a"
install -D -m 644 utf8proc.h "$prefix/include/utf8proc.h"
pc libutf8proc -lutf8proc
unpack xxhash
make libxxhash.a CC="$CC" AR="$AR" MOREFLAGS=
install -D -m 644 libxxhash.a "$prefix/lib/libxxhash.a"
install -D -m 644 xxhash.h "$prefix/include/xxhash.h"
pc libxxhash -lxxhash
[ "$all" ] || exit 0

unpack zlib # a macOS of before X is meant by TARGET_OS_MAC there
FLAGS="-DHAVE_UNISTD_H -UTARGET_OS_MAC" lib z *.c
cp zlib.h zconf.h "$prefix/include"
pc zlib -lz
unpack libzstd
FLAGS="-DXXH_NAMESPACE=ZSTD_ -DZSTD_DISABLE_ASM -Ilib -Ilib/common" lib zstd lib/common/*.c lib/compress/*.c lib/decompress/*.c
cp lib/zstd.h lib/zstd_errors.h "$prefix/include"
pc libzstd -lzstd
unpack lz4
FLAGS="-DXXH_NAMESPACE=LZ4_" lib lz4 lib/*.c
cp lib/lz4.h lib/lz4hc.h lib/lz4frame.h "$prefix/include"
pc liblz4 -llz4
unpack brotli
FLAGS=-Ic/include lib brotli c/common/*.c c/dec/*.c
cp -r c/include/brotli "$prefix/include"
pc libbrotlidec -lbrotli
unpack snappy
set -- $(echo "$version" | tr . ' ')
sed -e 's/\${HAVE_SYS_UIO_H_01}/1/' -e "s/\${PROJECT_VERSION_MAJOR}/$1/" -e "s/\${PROJECT_VERSION_MINOR}/$2/" \
    -e "s/\${PROJECT_VERSION_PATCH}/$3/" snappy-stubs-public.h.in >snappy-stubs-public.h
FLAGS="-DHAVE_BUILTIN_EXPECT=1 -DHAVE_BUILTIN_CTZ=1 -DHAVE_UNISTD_H=1 -DHAVE_SYS_MMAN_H=1 -DNDEBUG -fno-exceptions -fno-rtti" \
    lib snappy snappy.cc snappy-c.cc snappy-sinksource.cc snappy-stubs-internal.cc
cp snappy-c.h "$prefix/include"
unpack jansson
sed -e 's/@json_inline@/inline/' -e 's/@json_[a-z_]*@/1/' src/jansson_config.h.in >src/jansson_config.h
: >src/jansson_private_config.h
FLAGS="-Isrc -DHAVE_STDINT_H -DHAVE_UNISTD_H -DHAVE_FCNTL_H -DHAVE_SYS_TIME_H -DHAVE_GETTIMEOFDAY -DHAVE_OPEN -DHAVE_CLOSE -DHAVE_READ \
    -DHAVE_ATOMIC_BUILTINS -DHAVE_SYNC_BUILTINS -DHAVE_LOCALE_H -DHAVE_SETLOCALE -DUSE_URANDOM"
lib jansson src/*.c
cp src/jansson.h src/jansson_config.h "$prefix/include"
pc jansson -ljansson
unpack libyaml
FLAGS="-Iinclude -DYAML_DECLARE_STATIC -DYAML_VERSION_STRING=\"$version\" -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=5"
lib yaml src/*.c
cp include/yaml.h "$prefix/include"
pc yaml-0.1 -lyaml
unpack sqlite3 # tclsh puts its one file together
configure --disable-tcl --disable-readline
make sqlite3.c
FLAGS="-DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_THREADSAFE=2" lib sqlite3 sqlite3.c
cp sqlite3.h "$prefix/include"
pc sqlite3 -lsqlite3
unpack libonig
cat >src/config.h <<END
#define HAVE_ALLOCA_H 1
#define HAVE_INTTYPES_H 1
#define HAVE_STDINT_H 1
#define HAVE_SYS_TIME_H 1
#define HAVE_SYS_TIMES_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_UNISTD_H 1
#define SIZEOF_INT __SIZEOF_INT__
#define SIZEOF_LONG __SIZEOF_LONG__
#define SIZEOF_LONG_LONG __SIZEOF_LONG_LONG__
#define SIZEOF_VOIDP __SIZEOF_POINTER__
END
FLAGS="-Isrc -DHAVE_CONFIG_H"
lib onig src/reg[cpestv]*.c src/st.c src/onig_init.c src/ascii.c src/utf*.c src/unicode.c src/unicode_*_key.c
cp src/oniguruma.h "$prefix/include"
pc oniguruma -lonig
