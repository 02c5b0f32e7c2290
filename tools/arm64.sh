#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds for arm64 in a folder of BUILD-arm64, runs the tests of its kernels and the main jobs there under an emulator,
# and compares what they write with what BUILD writes (tools/same_bytes.sh): tools/arm64.sh BUILD. CC is the compiler,
# aarch64-linux-gnu-gcc where it is not given; "clang --target=aarch64-linux-gnu" is another.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(realpath "$1")
cc=${CC:-aarch64-linux-gnu-gcc}
other=$build-arm64/${cc%% *}
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)

if [ -z "$emulator" ] || ! command -v "${cc%% *}" >/dev/null ||
    [ ! -e /usr/lib/aarch64-linux-gnu/pkgconfig/jansson.pc ] ||
    [ ! -e /usr/lib/aarch64-linux-gnu/pkgconfig/cmocka.pc ]; then
    echo "This needs a compiler for arm64, an emulator, and the libraries of arm64:" >&2
    echo "    dpkg --add-architecture arm64 && apt-get update" >&2
    echo "    apt-get install --no-install-recommends gcc-aarch64-linux-gnu qemu-user-static libcmocka-dev:arm64 \\" >&2
    echo "        \$(grep -xE '(lib.*|zlib1g)-dev' tools/packages.txt | sed 's/\$/:arm64/')" >&2
    exit 1
fi

mkdir -p "$other"
# shellcheck disable=SC2086 # a compiler and its options, a word each
cat >"$other/cross.ini" <<EOF
[binaries]
c = [$(printf "'%s'," $cc)]
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
exe_wrapper = '$emulator'
[properties]
pkg_config_libdir = '/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
EOF
[ -f "$other/build.ninja" ] || meson setup "$other" "$root" --cross-file "$other/cross.ini" >"$other/setup.log" ||
    { cat "$other/setup.log"; exit 1; }

# Those that compare versions for NEON with plain C.
kernels="model/test_convert parquet/test-parquet-kernels prefill/test_bf16_kernel prefill/test_panel_kernel
    state/test_chunk_moments stats/test_gram stats/test_pair_kernel"
# shellcheck disable=SC2046,SC2086 # a program a word
ninja -C "$other" --quiet qkscope $(printf 'tests/%s ' $kernels)
for test in $kernels; do
    "$emulator" "$other/tests/$test" >"$other/test.log" 2>&1 || { cat "$other/test.log"; exit 1; }
done
echo "tests of kernels pass"

"$root/tools/same_bytes.sh" "$other" "$build/qkscope" "$emulator" "$other/qkscope"
