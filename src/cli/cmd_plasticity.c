/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope plasticity. */
#include "run_analysis.h"

static int run(cli_call *call)
{
    return cli_analyse(call, QK_ANALYSE_PLASTICITY);
}

const cli_command cmd_plasticity = {
    .name = "plasticity",
    .title = "qkscope plasticity",
    .group = "Analyse",
    .summary = "does position or content decide which key wins?",
    .description =
        "For every query head: how often the choice between two keys of the same text depends "
        "on\n"
        "the query, over all such pairs. 1: a coin toss, content decides; 0: always the same "
        "key\n"
        "wins, position decides. CAPTURE is a folder with l{LL}h{HH}{q|k} folders somewhere "
        "below\n"
        "it, or a dataset (org/name) in the Hugging Face cache. Writes head_metrics.csv,\n"
        "head_profile.csv, head_bucket_plasticity.csv, head_distance.csv,\n"
        "head_component_weights.csv, model_report.csv and manifest.json into DIR.\n"
        "--convention published does what the original tool does; its configuration files are "
        "for\n"
        "'qkscope analyze-heads'.",
    .examples = "qkscope plasticity examples/kjv-tiny-capture -o results\n"
                "qkscope plasticity capture -o results --buckets 16 --ci 95\n"
                "qkscope plasticity --config model.yaml -o results --convention published\n",
    .run = run,
    CLI_ANALYSIS,
};
