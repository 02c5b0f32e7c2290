#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chroot_check.sh BUILD SYSTEM...: builds the last commit in a bare chroot of each release of Debian (bookworm, trixie),
# with gcc and with clang, and runs the demo and the unit tests there. SYSTEM:archive runs the program of
# BUILD/qkscope-*-linux.tar.xz instead (make dist-binary), in a chroot with nothing else, and compares its tables with
# those of BUILD/qkscope. SYSTEM:container does what packaging/Containerfile says, and draws a report. Logs and chroots are in BUILD/chroot. Needs root, debootstrap, and the machine's own mirror.
set -eu
build=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "This needs root and debootstrap (Debian: apt-get install debootstrap)" >&2
    exit 1
fi
# shellcheck disable=SC2016 # apt's own names
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | sort -u | head -n 1)
mkdir -p "$build/chroot"

# within ROOT COMMAND: mounts are gone with it.
# shellcheck disable=SC2016 # arguments of the shell within
within() {
    unshare --mount --fork sh -eu -c 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev"
        cp /etc/resolv.conf "$1/etc/" && exec chroot "$1" sh -eu -c "$2"' within "$1" "$2"
}

# A bare system, once: what a run adds to it is added to a copy.
bare() {
    [ -d "$build/chroot/bare-$1" ] && return
    rm -rf "$build/chroot/partial"
    debootstrap --variant=minbase "$1" "$build/chroot/partial" "${mirror%/}" >"$build/chroot/bare-$1.log"
    cp /etc/apt/apt.conf.d/99* "$build/chroot/partial/etc/apt/apt.conf.d/" 2>/dev/null || :
    mv "$build/chroot/partial" "$build/chroot/bare-$1"
}

# shellcheck disable=SC2016 # a loop of the shell within
built() {
    mkdir "$root/src" && git archive HEAD | tar -x -C "$root/src" && within "$root" 'export HOME=/root DEBIAN_FRONTEND=noninteractive && cd /src
        apt-get update -qq && apt-get install -y -qq --no-install-recommends make
        make demo
        apt-get install -y -qq --no-install-recommends clang libcmocka-dev
        for cc in gcc clang; do
            $cc --version | head -n 1
            CC=$cc meson setup build-$cc -Dtests=true -Dwerror=true >/dev/null
            ninja -C build-$cc --quiet
            meson test -C build-$cc --no-rebuild --quiet
        done'
}

# shellcheck disable=SC2086 # an option a word
archived() {
    options='--ci 95 --complement --lda --quiet'
    mkdir "$root/program" && cp -r examples/kjv-tiny-capture "$root/capture" &&
        tar -xf "$build"/qkscope-*-"$(uname -m)"-linux.tar.xz -C "$root/program" --strip-components=1 &&
        within "$root" "ldd --version | head -n 1; cd / && program/bin/qkscope --version
            program/bin/qkscope analyze capture -o tables $options" &&
        (cd "$root" && "$build/qkscope" analyze capture -o "$build/chroot/tables" $options) || return 1
    for table in "$build"/chroot/tables/*.csv; do
        cmp "$table" "$root/tables/$(basename "$table")" || return 1
    done
    echo "the same bytes in $(find "$build/chroot/tables" -name '*.csv' | wc -l) tables"
}

# COPY, RUN and the rest of a recipe, a line each; what follows the last FROM is tried.
contained() {
    sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' packaging/Containerfile >"$build/chroot/recipe" || return 1
    while read -r word first second third; do
        case "$word $first" in
        FROM*)
            rm -rf "$root-before"
            [ ! -d "$root/etc" ] || mv "$root" "$root-before"
            rm -rf "$root" && cp -a "$build/chroot/bare-$release" "$root"
            ;;
        'COPY .') mkdir "$root$second" && git archive HEAD | tar -x -C "$root$second" ;;
        'COPY --from=build') cp -a "$root-before$second/." "$root$third" ;;
        RUN*) within "$root" "$first $second $third" </dev/null ;;
        *) : ;;
        esac || return 1
    done <"$build/chroot/recipe"
    rm -rf "$root-before"
    cp -r examples/kjv-tiny-capture "$root/capture" &&
        within "$root" 'cd / && qkscope analyze capture -o results --quiet && qkscope report results --quiet
            ls -l results/report.html'
}

failed=
for system in "$@"; do
    release=${system%:*}
    log=$build/chroot/$(echo "$system" | tr : -).log
    root=$build/chroot/work
    rm -rf "$root" "$build/chroot/tables"
    start=$(date +%s)
    if bare "$release" && cp -a "$build/chroot/bare-$release" "$root" &&
        case $system in
        *:archive) archived ;;
        *:container) contained ;;
        *) built ;;
        esac >"$log" 2>&1; then
        echo "$system: passed in $(($(date +%s) - start)) s ($log)"
    else
        failed="$failed $system"
        echo "$system: failed, see $log"
        tail -n 5 "$log"
    fi
    rm -rf "$root"
done
[ -z "$failed" ]
