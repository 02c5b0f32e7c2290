/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope analyze: everything there is to know about a capture, in one go. */
#include "analysis.h"

static const cli_analysis ANALYZE = {
    "qkscope analyze",
    "The analyses of pca, rotate and plasticity together, each file read once. CAPTURE is a\n"
    "folder with l{LL}h{HH}{q|k} folders somewhere below it, or a dataset (org/name) in the\n"
    "Hugging Face cache. Writes the tables of all three, and one manifest.json, into DIR.",
    QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY,
};

int cmd_analyze(int argc, char **argv)
{
    return cli_analyse(&ANALYZE, argc, argv);
}
