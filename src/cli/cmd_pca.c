/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope pca, and pca-analyze of the original tool. */
#include "run_analysis.h"

const cli_command cmd_pca = {
    .name = "pca",
    .group = CLI_PARTS,
    .summary = "combined QK PCA, position correlations, head taxonomy",
    .description = "For every query head: one PCA of its queries and of the keys it attends "
                   "to, and how far each component follows token position.\n\n" CLI_CAPTURE_IS
                   "\n\nWrites qk.csv (a row per head and component), heads.csv (a row per "
                   "head) and manifest.json into DIR. With --kinds queries and keys are fitted "
                   "separately, and the tables are correlations.csv and summary.json.",
    .usual = "output force revision layers heads max-samples from-position ci components lda "
             "lengths kinds threads config json quiet help",
    .examples = "qkscope pca examples/kjv-tiny-capture -o results\n"
                "qkscope pca org/name -o results --layers 0-3 --ci 95\n"
                "qkscope pca capture -o results --kinds q,k\n",
    .analyses = QK_ANALYSE_PCA,
    CLI_ANALYSIS,
};
