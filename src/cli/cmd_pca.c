/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope pca, and pca-analyze of the original tool. */
#include "run_analysis.h"

static int run(cli_call *call)
{
    return cli_analyse(call, QK_ANALYSE_PCA);
}

const cli_command cmd_pca = {
    .name = "pca",
    .title = "qkscope pca",
    .group = "Analyse",
    .summary = "combined QK PCA, position correlations, head taxonomy",
    .description =
        "For every query head: one PCA of its queries and of the keys it attends to, and how "
        "far\n"
        "each component follows token position. CAPTURE is a folder with l{LL}h{HH}{q|k} "
        "folders\n"
        "somewhere below it, or a dataset (org/name) in the Hugging Face cache. Writes qk.csv "
        "(a\n"
        "row per head and component), heads.csv (a row per head) and manifest.json into DIR.\n"
        "With --kinds, queries and keys are fitted separately: correlations.csv, summary.json.",
    .examples = "qkscope pca examples/kjv-tiny-capture -o results\n"
                "qkscope pca org/name -o results --layers 0-3 --ci 95\n"
                "qkscope pca capture -o results --kinds q,k\n",
    .run = run,
    CLI_ANALYSIS,
};
