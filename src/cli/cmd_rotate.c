/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope rotate, and rotate-analyze of the original tool. */
#include "run_analysis.h"

const cli_command cmd_rotate = {
    .name = "rotate",
    .group = CLI_PARTS,
    .summary = "planar rotation model: drift, bias, separation",
    .description = "For every query head: the axis a along which queries and keys drift with "
                   "position, the axis b, at a right angle to a, that tells queries from keys, "
                   "and what both mean for scores: bias towards recent keys, separation, share "
                   "of the variance.\n\n" CLI_CAPTURE_IS
                   "\n\nWrites rotated.csv (a row per head) and manifest.json into DIR; with "
                   "--complement also complement.csv: the planes of the space that is left, "
                   "and the frequencies they turn at.",
    .usual = "output force revision layers heads max-samples from-position ci b-axis "
             "complement pairs threads config json quiet help",
    .examples = "qkscope rotate examples/kjv-tiny-capture -o results\n"
                "qkscope rotate capture -o results --complement --pairs 10\n",
    .analyses = QK_ANALYSE_ROTATION,
    CLI_ANALYSIS,
};
