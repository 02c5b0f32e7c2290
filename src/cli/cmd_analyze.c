/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope analyze: every analysis of a capture at once. */
#include "run_analysis.h"

const cli_command cmd_analyze = {
    .name = "analyze",
    .group = "Analyse",
    .summary = "pca, rotate, plasticity and attention of every head, each file read once",
    .description = "Computes what pca, rotate and plasticity compute, and attention where the "
                   "capture keeps it, in one run that reads each file once.\n\n" CLI_CAPTURE_IS
                   "\n\nWrites the tables of all these and manifest.json into DIR: qkscope "
                   "report makes figures and a page from them. With a capture that keeps "
                   "moments instead of rows, some numbers stay empty; the manifest says which.",
    .usual = "output force revision layers heads max-samples from-position ci lda lengths "
             "complement max-pairs threads config json quiet help",
    .examples = "qkscope analyze examples/kjv-tiny-capture -o results\n"
                "qkscope analyze capture -o results --ci 95 --complement --lda\n"
                "qkscope analyze --config model.yaml -o results --threads 4\n",
    .analyses =
        QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY | QK_ANALYSE_ATTENTION,
    CLI_ANALYSIS,
};
