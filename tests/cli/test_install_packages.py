# SPDX-License-Identifier: Apache-2.0
"""tools/install-packages.sh against doubles of dpkg: which packages it takes for missing."""
import os
import subprocess

import pytest
from conftest import ROOT

pytestmark = pytest.mark.test_all
DPKG = """#!/bin/sh
[ "$*" = --print-architecture ] && echo amd64
"""
# As Debian's: a line of the format for each architecture that the package is known for, and exit code 1 where it is not.
DPKG_QUERY = """#!/bin/sh
[ "$1 $2" = "-W -f" ] || exit 2
for package; do :; done
case $package in
    two) known='amd64 install installed|arm64 install installed' ;;
    one) known='amd64 install installed' ;;
    data) known='all install installed' ;;
    held) known='amd64 hold installed' ;;
    other) known='arm64 install installed' ;;
    gone) known='amd64 deinstall config-files' ;;
    half) known='amd64 install unpacked|arm64 install installed' ;;
    *) exit 1 ;;
esac
printf '%s\\n' "$known" | tr '|' '\\n' | while read -r arch want status; do
    printf '%s' "$3" | sed -e "s/\\${Architecture}/$arch/g" -e "s/\\${Status}/$want ok $status/g" \\
        -e "s/\\${db:Status-Status}/$status/g" -e 's/\\\\n/\\n/g'
done
"""


@pytest.mark.parametrize("packages, missing", [
    (["one", "data"], []),
    (["two"], []),
    (["held"], []),
    (["one", "other", "data", "gone", "two"], ["other", "gone"]),
    (["half", "never-heard-of"], ["half", "never-heard-of"]),
])
def test_which_packages_are_missing(tmp_path, packages, missing):
    for name, text in {"dpkg": DPKG, "dpkg-query": DPKG_QUERY, "id": "#!/bin/sh\necho 1000\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "list").write_text("\n".join(packages) + "\n")
    done = subprocess.run([ROOT / "tools" / "install-packages.sh", tmp_path / "list"], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False)
    wanted = done.stderr.partition("--no-install-recommends")[2].split()
    assert (wanted, done.returncode) == (missing, 1 if missing else 0), done.stderr
