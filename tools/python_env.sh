#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# python_env.sh FOLDER FILE: puts what the file lists into a virtual environment, and makes the environment if it is not
# there. By uv, which takes a tenth of pip's time, or by pip where uv is not to be had. uv is told what pip was.
set -eu
folder=$1
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
setting() { "$folder/bin/pip" config get "global.$1" 2>/dev/null || :; }

uv=$(command -v uv || echo "$folder/bin/uv")
[ -x "$uv" ] || "$folder/bin/pip" install --quiet --disable-pip-version-check uv || :
if [ -x "$uv" ]; then
    index=${PIP_INDEX_URL:-$(setting index-url)}
    cert=${PIP_CERT:-$(setting cert)}
    [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
    [ -z "$cert" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$cert}"
    "$uv" pip install --quiet --python "$folder/bin/python" -r "$2" && exit 0
    echo "uv could not install what $2 lists: pip tries" >&2
fi
exec "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$2"
