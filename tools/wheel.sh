#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the wheel and, in a checkout of git, the archive of sources for PyPI, in BUILD/dist:
#
#     tools/wheel.sh BUILD
#
# auditwheel puts the libraries of this machine that the wheel needs into it, and finds the oldest glibc that it runs
# with. The extension keeps to what Python 3.10 has, and abi3audit checks it: so the wheel is tagged for 3.10 and later,
# whichever Python made it. WHEEL_PYTHON says which one does.
set -eu
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
tools=$build/wheel-tools
dist=$build/dist

# What a tool says is shown only if it fails.
quietly() {
    "$@" >"$build/wheel.log" 2>&1 || { cat "$build/wheel.log" >&2; exit 1; }
    rm -f "$build/wheel.log"
}

if [ ! -e "$tools/ready" ] || [ "$here/wheel-requirements.txt" -nt "$tools/ready" ]; then
    rm -rf "$tools"
    "${WHEEL_PYTHON:-python3}" -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check -r "$here/wheel-requirements.txt"
    touch "$tools/ready"
fi
PATH=$tools/bin:$PATH
rm -rf "$dist" "$build/wheel-linked"
mkdir -p "$dist"

# Without an environment of its own for each build, so that the objects of the last one are used again.
cd "$here/.."
quietly python -m build --wheel --no-isolation -C build-dir="$build/wheel" --outdir "$build/wheel-linked" .
quietly auditwheel repair --wheel-dir "$dist" "$build"/wheel-linked/*.whl
quietly python -m wheel tags --remove --python-tag cp310 --abi-tag abi3 "$dist"/*.whl
quietly abi3audit --strict --assume-minimum-abi3 3.10 "$dist"/*.whl
if [ -e .git ]; then
    quietly python -m build --sdist --no-isolation -C build-dir="$build/wheel" --outdir "$dist" .
fi
ls -s --block-size=k "$dist" | grep qkscope
