/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope rotate, and rotate-analyze of the original tool. */
#include "run_analysis.h"

static int run(cli_call *call)
{
    return cli_analyse(call, QK_ANALYSE_ROTATION);
}

const cli_command cmd_rotate = {
    .name = "rotate",
    .title = "qkscope rotate",
    .group = "Analyse",
    .summary = "planar rotation model: drift, bias, separation",
    .description =
        "For every query head: the axis a along which queries and keys drift with position, "
        "the\n"
        "axis b off it that tells queries from keys, and what both mean for the score of a "
        "key:\n"
        "bias towards recent keys, separation, share of the variance. CAPTURE is a folder "
        "with\n"
        "l{LL}h{HH}{q|k} folders somewhere below it, or a dataset (org/name) in the Hugging "
        "Face\n"
        "cache. Writes rotated.csv (a row per head) and manifest.json into DIR; with "
        "--complement\n"
        "also complement.csv: the planes of what is left, and the frequencies they turn at.",
    .examples = "qkscope rotate examples/kjv-tiny-capture -o results\n"
                "qkscope rotate capture -o results --complement --pairs 10\n",
    .run = run,
    CLI_ANALYSIS,
};
