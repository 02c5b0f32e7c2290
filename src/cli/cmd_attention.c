/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope attention. */
#include "run_analysis.h"

const cli_command cmd_attention = {
    .name = "attention",
    .group = CLI_PARTS,
    .summary = "what does each head attend to: sink, itself, near, far, copies",
    .description =
        "For every query head: how much of its attention goes to the first token, to itself, "
        "to the token before, near and far, and to earlier copies of its token and what "
        "followed them; how much of it distance alone explains; names of heads as the field "
        "uses them, where they are certain; and whether bias strength, or mean vectors "
        "that RoPE turns, predict its attention over distance.\n\n" CLI_CAPTURE_IS
        "\n\nThe capture keeps sums of attention (capture --keep rows,attention), or rows of "
        "every position of its texts after RoPE. Writes attention.csv (a row per head), "
        "attention_profile.csv and manifest.json into DIR.",
    .usual = "output force revision layers heads ci attention-scale threads json quiet help",
    .examples = "qkscope attention capture -o results\n"
                "qkscope attention capture -o results --ci 95\n",
    .analyses = QK_ANALYSE_ATTENTION,
    CLI_ANALYSIS,
};
