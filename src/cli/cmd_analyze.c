/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope analyze: everything there is to know about a capture, in one go. */
#include "run_analysis.h"

const cli_command cmd_analyze = {
    .name = "analyze",
    .summary = "all of these, each file read once",
    .description =
        "The analyses of pca, rotate and plasticity in one run, which reads each "
        "file once. " CLI_CAPTURE_IS
        " Writes the tables of all three and one manifest.json into DIR. Of a capture "
        "that keeps moments in place of rows it writes what follows from them; the "
        "manifest says what is empty.",
    .examples = "qkscope analyze examples/kjv-tiny-capture -o results\n"
                "qkscope analyze capture -o results --ci 95 --complement --lda\n"
                "qkscope analyze --config model.yaml -o results --threads 4\n",
    .analyses = QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY,
    CLI_ANALYSIS,
};
