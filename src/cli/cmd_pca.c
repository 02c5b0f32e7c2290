/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope pca, and pca-analyze of the original tool. */
#include "analysis.h"

static const cli_analysis PCA = {
    "qkscope pca",
    "For every query head: one PCA of its queries and of the keys it attends to, and how far\n"
    "each component follows token position. CAPTURE is a folder with l{LL}h{HH}{q|k} folders\n"
    "somewhere below it, or a dataset (org/name) in the Hugging Face cache. Writes qk.csv (a\n"
    "row per head and component), heads.csv (a row per head) and manifest.json into DIR.\n"
    "With --kinds, queries and keys are fitted separately: correlations.csv, summary.json.",
    QK_ANALYSE_PCA,
};

int cmd_pca(int argc, char **argv)
{
    return cli_analyse(&PCA, argc, argv);
}
