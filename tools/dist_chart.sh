#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts Chart.js into an archive that Meson makes, so that it builds where no package has it: dist_chart.sh FILE
set -eu
cp "$1" "$MESON_DIST_ROOT/src/report/assets/chart.min.js"
