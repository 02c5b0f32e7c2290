#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the program for another system, or for this one of long ago, as one file with its libraries in it:
#
#     tools/cross.sh TARGET
#
# TARGET is one of x86_64-linux, aarch64-linux, x86_64-macos, aarch64-macos. The compiler is that of Zig, which pip brings
# together with the C libraries of these systems: glibc 2.28, and what macOS 13 has. The program is
# build-cross/TARGET/qkscope. Headers of what is loaded at run time are this machine's, and so are those of Python, with
# which tools/wheel.sh goes on in build-cross/TARGET/build.
set -eu
target=$1
root=$(cd "$(dirname "$0")/.." && pwd)
cross=$root/build-cross
here=$cross/$target
tools=$cross/tools
processor=${target%-*}
case $target in
x86_64-linux | aarch64-linux) zig=$target-gnu.2.28 system=linux host=$target-gnu ;;
x86_64-macos | aarch64-macos) zig=$target.13.0 system=darwin host=$processor-apple-darwin22 ;;
*) echo "cross.sh: $target is none of x86_64-linux, aarch64-linux, x86_64-macos, aarch64-macos" >&2; exit 2 ;;
esac

# What Zig has for the compiler's own needs is one object with sin, exp and others in it, which would take the place of
# libm's and end in other digits: in its place GCC's.
link="'-O2', '-s', '-L$here/libraries/lib', '-lc++'"
if [ $system = linux ]; then
    gcc=$target-gnu-gcc
    command -v "$gcc" >/dev/null || { echo "cross.sh: $target needs gcc-$(echo "$processor" | tr _ -)-linux-gnu" >&2; exit 1; }
    link="$link, '-nostdlib', '$($gcc -print-libgcc-file-name)'"
fi

# What a tool says is shown only if it fails.
quietly() {
    "$@" >"$here/cross.log" 2>&1 || { tail -n 60 "$here/cross.log" >&2; exit 1; }
}

mkdir -p "$here/bin"
cd "$here" # for what compilers drop when they are asked something
if [ ! -e "$tools/ready" ] || [ "$root/tools/cross-requirements.txt" -nt "$tools/ready" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check -r "$root/tools/cross-requirements.txt"
    touch "$tools/ready"
fi
PATH=$tools/bin:$PATH
program=$(echo "$tools"/lib/python3*/site-packages/ziglang/zig)

# Meson asks the linker who it is, and says that its warnings are errors, in words that Zig's does not know; a preprocessor on
# its own knows no version of glibc; and what Python loads on macOS is a dynamic library to Zig, which has no bundles.
case $system in linux) name=ld.lld ;; *) name=ld64.lld ;; esac
for word in cc c++; do
    cat >"$here/bin/$word" <<END
#!/bin/sh
for given; do
    shift
    [ "\$given" = -Wl,-fatal_warnings ] || set -- "\$@" "\$given"
done
case " \$* " in
*-Wl,--version*) echo LLD 20 ;;
*-Wl,-v*) echo $name >&2 ;;
*" -E "*) exec '$program' $word -target ${zig%.2.28} "\$@" ;;
*" -bundle "*) exec '$program' $word -target $zig -dynamiclib "\$@" ;;
*) exec '$program' $word -target $zig "\$@" ;;
esac
END
done
for word in ar ranlib; do
    printf '#!/bin/sh\nexec %s %s "$@"\n' "$program" $word >"$here/bin/$word"
done
chmod +x "$here"/bin/*

[ -e "$cross/sources/ready" ] || {
    quietly "$root/tools/wheel_sources.sh" --all "$cross/sources"
    touch "$cross/sources/ready"
}
if [ ! -e "$here/libraries/ready" ] || [ "$root/tools/wheel_libraries.sh" -nt "$here/libraries/ready" ]; then
    rm -rf "$here/libraries" "$here/build"
    PATH=$here/bin:$PATH CC=$here/bin/cc CXX=$here/bin/c++ AR=$here/bin/ar RANLIB=$here/bin/ranlib HOST=$host \
        quietly "$root/tools/wheel_libraries.sh" --all "$cross/sources" "$here/libraries"
    # Debian's Python.h asks for a part of it by the folder of the other system.
    [ $system != linux ] || (mkdir -p "$here/libraries/include/$target-gnu" &&
        cp -RL "/usr/include/$(uname -m)-linux-gnu"/python3* "$here/libraries/include/$target-gnu")
    touch "$here/libraries/ready"
fi
# Of what else becomes part of the program.
cp /usr/share/doc/libjs-chart.js/copyright "$here/libraries/licences/chart.js"
[ $system != linux ] || cp /usr/share/doc/libgcc-s1/copyright "$here/libraries/licences/libgcc"
cp "$tools"/lib/python3*/site-packages/ziglang/lib/libunwind/LICENSE.TXT "$here/libraries/licences/llvm"

cat >"$here/cross.ini" <<END
[binaries]
c = '$here/bin/cc'
ar = '$here/bin/ar'
ranlib = '$here/bin/ranlib'
strip = 'true'
pkgconfig = 'pkg-config'
[built-in options]
c_args = ['-isystem', '$here/libraries/include']
c_link_args = [$link]
[properties]
pkg_config_libdir = '$here/libraries/lib/pkgconfig'
needs_exe_wrapper = true
[host_machine]
system = '$system'
cpu_family = '$processor'
cpu = '$processor'
endian = 'little'
END
export CPATH='' LIBRARY_PATH=''
[ -f "$here/build/build.ninja" ] || quietly meson setup "$here/build" "$root" --cross-file "$here/cross.ini" \
    -Dtests=false -Dwerror=true -Ddebug=false
quietly ninja -C "$here/build" qkscope
cp "$here/build/qkscope" "$here/qkscope"
