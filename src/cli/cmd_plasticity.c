/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope plasticity. */
#include "run_analysis.h"

const cli_command cmd_plasticity = {
    .name = "plasticity",
    .group = CLI_PARTS,
    .summary = "does the query decide which of two keys wins?",
    .description =
        "For every query head: how often the choice between two keys of the same text depends "
        "on the query, over all such pairs. 1 is a coin toss over the queries. 0 means that "
        "the same key wins whatever the query is: for its position, or for what it "
        "says.\n\n" CLI_CAPTURE_IS
        "\n\nWrites head_metrics.csv (a row per head), model_report.csv, four tables beside "
        "them and manifest.json into DIR. --convention published computes what the original "
        "tool computes.",
    .usual = "output force revision layers heads max-samples from-position ci max-pairs "
             "buckets bucket-width max-distance threads json quiet help",
    .examples = "qkscope plasticity examples/kjv-tiny-capture -o results\n"
                "qkscope plasticity capture -o results --buckets 16 --ci 95\n"
                "qkscope plasticity --config model.yaml -o results --convention published\n",
    .analyses = QK_ANALYSE_PLASTICITY,
    CLI_ANALYSIS,
};
