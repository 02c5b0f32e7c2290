/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope analyze: everything there is to know about a capture, in one go. */
#include "run_analysis.h"

static int run(cli_call *call)
{
    return cli_analyse(call, QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY);
}

const cli_command cmd_analyze = {
    .name = "analyze",
    .title = "qkscope analyze",
    .group = "Analyse",
    .summary = "all of these, each file read once",
    .description =
        "The analyses of pca, rotate and plasticity together, each file read once. CAPTURE is "
        "a\n"
        "folder with l{LL}h{HH}{q|k} folders somewhere below it, or a dataset (org/name) in "
        "the\n"
        "Hugging Face cache. Writes the tables of all three, and one manifest.json, into DIR.",
    .examples = "qkscope analyze examples/kjv-tiny-capture -o results\n"
                "qkscope analyze capture -o results --ci 95 --complement --lda\n"
                "qkscope analyze --config model.yaml -o results --threads 4\n",
    .run = run,
    CLI_ANALYSIS,
};
