/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope plasticity. */
#include "analysis.h"

static const cli_analysis PLASTICITY = {
    "qkscope plasticity",
    "For every query head: how often the choice between two keys of the same text depends on\n"
    "the query, over all such pairs. 1: a coin toss, content decides; 0: always the same key\n"
    "wins, position decides. CAPTURE is a folder with l{LL}h{HH}{q|k} folders somewhere below\n"
    "it, or a dataset (org/name) in the Hugging Face cache. Writes head_metrics.csv,\n"
    "head_profile.csv, head_bucket_plasticity.csv, head_distance.csv,\n"
    "head_component_weights.csv, model_report.csv and manifest.json into DIR.\n"
    "--convention published does what the original tool does; its configuration files are for\n"
    "'qkscope analyze-heads'.",
    QK_ANALYSE_PLASTICITY,
};

int cmd_plasticity(int argc, char **argv)
{
    return cli_analyse(&PLASTICITY, argc, argv);
}
