/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope compare-stages: a capture before RoPE beside the one after it. */
#include "run_analysis.h"

#include <math.h>
#include <stdlib.h>

#include <qkscope/analysis.h>

typedef struct request {
    cli_common common;
    qk_stages_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_stages_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* ---- what was found --------------------------------------------------------------------- */

static const char ROWS_OF[] =
    "{heads} head{s}, {rows} row{s} in {seconds:.2f} s ({threads} thread{s})\n"
    "[{heads_without_rope} head{s} in layers without frequencies left out\n]"
    "rows after RoPE are those before it, turned by the frequencies of capture.json\n"
    "(largest difference: {deviation:.2g} % of the length of a row)\n\n"
    "  heads                before  after\n";

static const char SCORES[] =
    "\nmean score by distance, predicted from mean vectors and frequencies:\n"
    "[{has_r2!}  R2 -: no head has 3 bins of distance with {bin_pairs} pairs of rows or more\n]"
    "[{has_r2?}  explains as much as a constant or more in {predicted_as_a_constant_or_better} "
    "of {predicted} heads, median R2 {median_r_squared_predicted:.3f}\n"
    "[  ({not_predicted} head{s} more have too few bins of distance)\n]]"
    "pairs that turn less than once in the context:\n"
    "  energy of queries {slow_energy_q:.1%}, of keys {slow_energy_k:.1%}; score variance over "
    "distance {slow_score_share:.1%}\n\n";

static void print_outcome(const request *r, const qk_stages_results *results,
                          const qk_stages_totals *t, const cli_row *rows)
{
    cli_say(ROWS_OF, rows);
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        cli_print("  %-20s %6zu %6zu\n", qk_category_name((qk_category)c), t->before[c],
                  t->after[c]);
    cli_say(SCORES, rows);
    for (size_t i = 0; i < results->run->num_outputs; i++)
        cli_print("%s/%s\n", r->settings.input.output, results->run->outputs[i]);
}

static void tell_outcome(const request *r, const qk_stages_results *results)
{
    const qk_analysis_results *run = results->run;
    qk_stages_totals t;
    qk_stages_totals_of(results, &t);
    cli_row *rows = CLI_ROWS(
        CLI_ROW("output", r->settings.input.output), CLI_ROW("files", cli_list_outputs(run)),
        CLI_OF(results, before), CLI_ROW("after", run->capture), CLI_OF(run, model),
        CLI_ROW("heads", t.heads), CLI_ROW("heads_without_rope", results->num_unrotated),
        CLI_ROW("rows", run->num_rows), CLI_OF(run, threads), CLI_OF(run, seconds),
        CLI_ROW("categories_before", cli_count_categories(t.before)),
        CLI_ROW("categories_after", cli_count_categories(t.after)),
        CLI_ROW("predicted_as_a_constant_or_better", t.explained),
        CLI_ROW("median_r_squared_predicted", t.r_squared_median),
        CLI_ROW("slow_energy_q", t.slow_energy_q), CLI_ROW("slow_energy_k", t.slow_energy_k),
        CLI_ROW("slow_score_share", t.slow_score_share),
        CLI_ROW("rotation_deviation", t.rotation_deviation),
        CLI_ROW("failures", cli_list_failures(run)),
        CLI_SAY("deviation", 100 * t.rotation_deviation),
        CLI_SAY("bin_pairs", QK_SCORE_BIN_PAIRS), CLI_SAY("has_r2", !isnan(t.r_squared_median)),
        CLI_SAY("predicted", t.predicted), CLI_SAY("not_predicted", t.heads - t.predicted));
    if (!r->common.json && !r->common.quiet)
        print_outcome(r, results, &t, rows);
    cli_tell(&r->common, "", rows);
}

/* ---- running ---------------------------------------------------------------------------- */

static int compare_stages(request *r)
{
    cli_messages messages;
    qk_stages_results *results;
    qk_error err;
    cli_messages_init(&messages, &r->common, &r->settings.input.context);
    qk_status status = qk_stages_run(&r->settings, &results, &err);
    cli_messages_end(&messages, status, &err);
    if (results)
        tell_outcome(r, results);
    qk_stages_results_free(&results);
    return cli_exit_code(status);
}

static int run_compare_stages(cli_call *call)
{
    request *r = call->request;
    qk_analysis_settings *in = &r->settings.input;
    if (call->count == 0)
        return cli_usage("which captures? Give PRE and POST, or a folder that holds both");
    if (!in->output)
        return cli_usage("where to? Give -o DIR");
    r->settings.before = call->arguments[0];
    r->settings.after = call->count > 1 ? call->arguments[1] : NULL;
    in->command_line = call->line;
    return compare_stages(r);
}

const cli_command cmd_compare_stages = {
    .name = "compare-stages",
    .group = "Analyse",
    .summary = "what RoPE does: captures before and after it side by side",
    .usage = "PRE POST -o DIR [options], or CAPTURE -o DIR [options]",
    .description =
        "What rotary position embedding (RoPE) does to each query head: correlations with "
        "position and category before and after it, what each rotary pair holds, and the mean "
        "score by distance, predicted and measured.\n\nPRE and POST are captures of the same "
        "rows before and after RoPE. CAPTURE holds both, in folders named pre and post, as "
        "qkscope capture --stage both makes it.\n\nWrites stages.csv (a row per head), "
        "rope_pairs.csv (a row per head and pair), score_by_distance.csv and manifest.json "
        "into DIR, which may hold results of POST already: qkscope report then draws all of "
        "them.",
    .usual = "output force model-name layers heads max-samples from-position threads json help",
    .examples = "qkscope compare-stages capture -o results\n"
                "qkscope compare-stages capture/pre capture/post -o results --layers 0-3\n",
    .table = &TABLE,
    .max_arguments = 2,
    .run = run_compare_stages,
};
