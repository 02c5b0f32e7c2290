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

/* "-" where there is none. */
static const char *percent(double value, char text[32])
{
    snprintf(text, 32, "%.1f %%", 100 * value);
    return isfinite(value) ? text : "-";
}

static void print_prediction(const qk_stages_totals *t)
{
    cli_print("\nmean score by distance, predicted from mean vectors and frequencies:\n");
    if (isnan(t->r_squared_median)) {
        cli_print("  R2 -: no head has 3 bins of distance with %d pairs of rows or more\n",
                  QK_SCORE_BIN_PAIRS);
        return;
    }
    cli_print("  explains as much as a constant or more in %zu of %zu heads, median R2 %.3f\n",
              t->explained, t->predicted, t->r_squared_median);
    if (t->predicted < t->heads)
        cli_print("  (%zu head%s more have too few bins of distance)\n",
                  t->heads - t->predicted, cli_s((int64_t)(t->heads - t->predicted)));
}

static void print_outcome(const request *r, const qk_stages_results *results)
{
    const qk_analysis_results *run = results->run;
    qk_stages_totals t;
    qk_stages_totals_of(results, &t);
    cli_print("%zu head%s, %zu row%s in %.2f s (%d thread%s)\n", t.heads,
              cli_s((int64_t)t.heads), run->num_rows, cli_s((int64_t)run->num_rows),
              run->seconds, run->threads, cli_s(run->threads));
    if (results->num_unrotated > 0)
        cli_print("%zu head%s in layers without frequencies left out\n", results->num_unrotated,
                  cli_s((int64_t)results->num_unrotated));
    cli_print("rows after RoPE are those before it, turned by the frequencies of capture.json\n"
              "(largest difference: %.2g %% of the length of a row)\n\n"
              "  %-20s %6s %6s\n",
              100 * t.rotation_deviation, "heads", "before", "after");
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        cli_print("  %-20s %6zu %6zu\n", qk_category_name((qk_category)c), t.before[c],
                  t.after[c]);
    char energy_q[32], energy_k[32], share[32];
    print_prediction(&t);
    cli_print("pairs that turn less than once in the context:\n"
              "  energy of queries %s, of keys %s; score variance over distance %s\n\n",
              percent(t.slow_energy_q, energy_q), percent(t.slow_energy_k, energy_k),
              percent(t.slow_score_share, share));
    for (size_t i = 0; i < run->num_outputs; i++)
        cli_print("%s/%s\n", r->settings.input.output, run->outputs[i]);
}

static void print_json(const request *r, const qk_stages_results *results)
{
    const qk_analysis_results *run = results->run;
    qk_stages_totals t;
    qk_stages_totals_of(results, &t);
    cli_json_print(json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:i, s:f, s:o, s:o, s:I, s:o, s:o, s:o, s:o, "
        "s:o, s:o}",
        "output", cli_json_text(r->settings.input.output), "files", cli_list_outputs(run),
        "before", cli_json_text(results->before), "after", cli_json_text(run->capture), "model",
        cli_json_text(run->model), "heads", (json_int_t)t.heads, "heads_without_rope",
        (json_int_t)results->num_unrotated, "rows", (json_int_t)run->num_rows, "threads",
        run->threads, "seconds", run->seconds, "categories_before",
        cli_count_categories(t.before), "categories_after", cli_count_categories(t.after),
        "predicted_as_a_constant_or_better", (json_int_t)t.explained,
        "median_r_squared_predicted", cli_json_number(t.r_squared_median), "slow_energy_q",
        cli_json_number(t.slow_energy_q), "slow_energy_k", cli_json_number(t.slow_energy_k),
        "slow_score_share", cli_json_number(t.slow_score_share), "rotation_deviation",
        cli_json_number(t.rotation_deviation), "failures", cli_list_failures(run)));
}

/* ---- running ---------------------------------------------------------------------------- */

static int compare(request *r)
{
    cli_messages messages;
    qk_stages_results *results;
    qk_error err;
    cli_messages_init(&messages, &r->common, &r->settings.input.context);
    qk_status status = qk_stages_run(&r->settings, &results, &err);
    cli_messages_end(&messages, status, &err);
    if (results && r->common.json)
        print_json(r, results);
    else if (results && !r->common.quiet)
        print_outcome(r, results);
    qk_stages_results_free(&results);
    return cli_exit_code(status);
}

static int run(cli_call *call)
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
    return compare(r);
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
    .examples = "qkscope compare-stages capture -o results\n"
                "qkscope compare-stages capture/pre capture/post -o results --layers 0-3\n",
    .table = &TABLE,
    .max_arguments = 2,
    .run = run,
};
