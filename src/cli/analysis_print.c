/* SPDX-License-Identifier: Apache-2.0 */
/* What an analysis command says when it is done: a short summary, or JSON. */
#include "run_analysis.h"

#include <inttypes.h>
#include <math.h>

#include "heat_strip.h"

static const char *const SOURCES[] = {"given", "from capture.json", "inferred"};

static size_t count_done(const qk_analysis_results *results)
{
    return results->num_heads - results->num_failed - results->num_missing;
}

/* "4096", "-" where there is none, "65535+" where counting ended. */
static const char *count_text(double value, bool texts, char text[32])
{
    snprintf(text, 32, "%.15g%s", value, texts && value >= 65535 ? "+" : "");
    return isfinite(value) ? text : "-";
}

static void print_sizes(const qk_analysis_totals *totals)
{
    char least[32], median[32], texts[32];
    cli_print("rows per head: least %s, median %s; texts: least %s\n",
              count_text(totals->rows_least, false, least),
              count_text(totals->rows_median, false, median),
              count_text(totals->texts_least, true, texts));
}

/* ---- PCA -------------------------------------------------------------------------------- */

static void print_categories(const qk_analysis_totals *totals)
{
    size_t heads = 0;
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        heads += totals->categories[c];
    if (heads == 0)
        return;
    putchar('\n');
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        cli_print("  %-20s %5zu  %5.1f %%\n", qk_category_name((qk_category)c),
                  totals->categories[c], 100.0 * (double)totals->categories[c] / (double)heads);
    if (totals->judged > 0)
        cli_print("\n  category uncertain (< %.2f)   %5zu of %zu head%s\n", QK_CERTAIN,
                  totals->uncertain, totals->judged, cli_s((int64_t)totals->judged));
    else
        cli_print("\n  category uncertain (< %.2f)       -\n", QK_CERTAIN);
    if (totals->not_judged > 0)
        cli_print("  certainty cannot be told     %5zu of %zu heads\n", totals->not_judged,
                  heads);
    cli_print_depths();
    cli_print_strip("mean r_q", QK_RAMP_BLUES, totals->r_q);
    cli_print_strip("mean r_k", QK_RAMP_REDS, totals->r_k);
}

static json_t *numbers(const double *values, int count)
{
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, cli_json_number(values[i]));
    return array;
}

json_t *cli_count_categories(const size_t counts[QK_NUM_CATEGORIES])
{
    json_t *object = json_object();
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        json_object_set_new(object, qk_category_name((qk_category)c),
                            json_integer((json_int_t)counts[c]));
    return object;
}

static void add_pca_json(json_t *root, const qk_analysis_totals *totals)
{
    json_object_set_new(root, "categories", cli_count_categories(totals->categories));
    json_object_set_new(
        root, "certainty",
        json_pack("{s:I, s:I, s:I, s:I, s:o}", "heads", (json_int_t)totals->judged,
                  "not_judged", (json_int_t)totals->not_judged, "uncertain",
                  (json_int_t)totals->uncertain, "wide_r_q", (json_int_t)totals->wide_r_q,
                  "widest_r_q", cli_json_number(totals->widest_r_q)));
    json_object_set_new(root, "mean_r_q_by_depth", numbers(totals->r_q, QK_DEPTHS));
    json_object_set_new(root, "mean_r_k_by_depth", numbers(totals->r_k, QK_DEPTHS));
}

/* ---- rotation --------------------------------------------------------------------------- */

static void print_rotation(const qk_analysis_totals *totals, bool by_depth)
{
    if (totals->rotated > 0) {
        cli_print("\n  bias towards recent keys      %5zu of %zu head%s\n"
                  "  mean |r_q|, |r_k| along a     ",
                  totals->bias_positive, totals->rotated, cli_s((int64_t)totals->rotated));
        cli_print_number("%5.3f", totals->abs_r_q_a);
        cli_print(", ");
        cli_print_number("%5.3f", totals->abs_r_k_a);
        cli_print("\n  mean variance in the plane    ");
        cli_print_number("%5.1f %%", 100 * totals->plane_var_fraction);
        cli_print("\n");
    }
    if (totals->degenerate > 0)
        cli_print("  without drift                 %5zu heads\n", totals->degenerate);
    if (totals->rotated > 0 && by_depth) {
        cli_print_depths();
        cli_print_strip("mean |r_q|", QK_RAMP_BLUES, totals->abs_r_q_a_by_depth);
        cli_print_strip("mean |r_k|", QK_RAMP_REDS, totals->abs_r_k_a_by_depth);
    }
}

static json_t *rotation_json(const qk_analysis_totals *totals)
{
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o}", "heads", (json_int_t)totals->rotated,
                     "degenerate", (json_int_t)totals->degenerate, "bias_positive",
                     (json_int_t)totals->bias_positive, "mean_abs_r_q_a",
                     cli_json_number(totals->abs_r_q_a), "mean_abs_r_k_a",
                     cli_json_number(totals->abs_r_k_a), "mean_plane_var_fraction",
                     cli_json_number(totals->plane_var_fraction));
}

/* ---- plasticity ------------------------------------------------------------------------- */

/* A capture that keeps moments alone has no rows for it. */
static bool has_plasticity(const qk_analysis_settings *settings,
                           const qk_analysis_results *results)
{
    return (settings->analyses & QK_ANALYSE_PLASTICITY) && results->plasticity.heads > 0;
}

static void print_plasticity(const qk_model_plasticity *model, const qk_analysis_totals *totals,
                             bool published, bool alone)
{
    cli_print("\n  plasticity                    ");
    cli_print_number("%5.3f", model->ap_overall);
    if (model->reservoir > 0) {
        cli_print("\n  its standard error, at most   ");
        cli_print_number("%5.3f", model->ap_overall_se);
        cli_print(" (from choosing %" PRId64 " key%s of each bucket and text)",
                  model->reservoir, cli_s(model->reservoir));
    }
    if (published) {
        cli_print("\n  mean over pairs of buckets    ");
        cli_print_number("%5.3f", model->ap_mean);
    }
    cli_print("\n  by fifths of the context     ");
    for (int i = 0; i < QK_FIFTHS; i++)
        cli_print_number(" %5.3f", model->fifths[i]);
    cli_print("\n  drop, first to last           ");
    cli_print_number("%5.3f", model->ap_drop);
    if (isfinite(model->bucket_width))
        cli_print("\n  buckets of                    %5.6g tokens", model->bucket_width);
    cli_print("\n");
    if (alone) {
        cli_print_depths();
        cli_print_strip("plasticity", QK_RAMP_MAGMA, totals->ap);
    }
}

static json_t *plasticity_json(const qk_model_plasticity *model)
{
    json_t *object =
        json_pack("{s:I, s:o, s:o, s:o, s:o}", "heads", (json_int_t)model->heads, "ap_overall",
                  cli_json_number(model->ap_overall), "ap_mean",
                  cli_json_number(model->ap_mean), "ap_drop", cli_json_number(model->ap_drop),
                  "fifths", numbers(model->fifths, QK_FIFTHS));
    json_object_set_new(object, "bucket_width", cli_json_number(model->bucket_width));
    if (model->reservoir > 0) {
        json_object_set_new(object, "reservoir", json_integer((json_int_t)model->reservoir));
        json_object_set_new(object, "ap_overall_se", cli_json_number(model->ap_overall_se));
    }
    return object;
}

/* ---- the whole -------------------------------------------------------------------------- */

/* Which components follow position, of queries and keys by themselves. */
static void print_high(double threshold, const qk_high_correlations *n)
{
    cli_print("\nHigh-correlation summary (|r| >= %g):\n"
              "  %zu/%zu components, %zu/%zu heads\n"
              "  Negative: %zu components, %zu heads\n",
              threshold, n->high, n->components, n->heads_high, n->heads, n->high_negative,
              n->heads_high_negative);
}

void cli_print_summary(const qk_analysis_settings *settings, const qk_analysis_results *results)
{
    size_t done = count_done(results);
    cli_print("%zu head%s, %zu row%s in %.2f s (%d thread%s, %.0f MB/s)\n", done,
              cli_s((int64_t)done), results->num_rows, cli_s((int64_t)results->num_rows),
              results->seconds, results->threads, cli_s(results->threads),
              (double)results->bytes_read / 1e6 / results->seconds);
    if (settings->combined)
        cli_print("group size %d (%s)\n", results->group.size, SOURCES[results->group.source]);
    qk_analysis_totals totals;
    qk_analysis_totals_of(results, &totals);
    print_sizes(&totals);
    if (settings->combined && (settings->analyses & QK_ANALYSE_PCA))
        print_categories(&totals);
    if (!settings->combined)
        print_high(settings->correlation_threshold, &results->high);
    if (settings->analyses & QK_ANALYSE_ROTATION)
        print_rotation(&totals, settings->analyses == QK_ANALYSE_ROTATION);
    if (has_plasticity(settings, results))
        print_plasticity(&results->plasticity, &totals,
                         settings->plasticity.convention == QK_CONVENTION_PUBLISHED,
                         settings->analyses == QK_ANALYSE_PLASTICITY);
    putchar('\n');
}

void cli_print_outcome(const qk_analysis_settings *settings, const qk_analysis_results *results)
{
    cli_print_summary(settings, results);
    for (size_t i = 0; i < results->num_outputs; i++)
        cli_print("%s/%s\n", settings->output, results->outputs[i]);
}

json_t *cli_list_failures(const qk_analysis_results *results)
{
    json_t *failures = json_array();
    for (size_t i = 0; i < results->num_heads; i++) {
        const qk_head_results *head = &results->heads[i];
        char name[QK_HEAD_NAME_SIZE];
        if (head->status == QK_OK)
            continue;
        qk_head_name(head->id, name);
        json_array_append_new(failures,
                              json_pack("{s:s, s:s, s:o}", "head", name, "reason",
                                        qk_status_text(head->status), "message",
                                        cli_json_text(head->message ? head->message : "")));
    }
    return failures;
}

json_t *cli_list_outputs(const qk_analysis_results *results)
{
    json_t *outputs = json_array();
    for (size_t i = 0; i < results->num_outputs; i++)
        json_array_append_new(outputs, cli_json_text(results->outputs[i]));
    return outputs;
}

static json_t *high_json(double threshold, const qk_high_correlations *n)
{
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "threshold", threshold,
                     "components", (json_int_t)n->components, "heads", (json_int_t)n->heads,
                     "high", (json_int_t)n->high, "high_negative", (json_int_t)n->high_negative,
                     "heads_high", (json_int_t)n->heads_high, "heads_high_negative",
                     (json_int_t)n->heads_high_negative);
}

static json_t *least_and_median(double least, double median)
{
    return json_pack("{s:o, s:o}", "least", cli_json_number(least), "median",
                     cli_json_number(median));
}

void cli_print_outcome_json(const qk_analysis_settings *settings,
                            const qk_analysis_results *results)
{
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:i, s:f, s:o}", "output",
        cli_json_text(settings->output), "files", cli_list_outputs(results), "capture",
        cli_json_text(results->capture), "model", cli_json_text(results->model), "combined",
        settings->combined, "heads", (json_int_t)results->num_heads, "rows",
        (json_int_t)results->num_rows, "threads", results->threads, "seconds", results->seconds,
        "failures", cli_list_failures(results));
    qk_analysis_totals totals;
    qk_analysis_totals_of(results, &totals);
    json_object_set_new(root, "rows_per_head",
                        least_and_median(totals.rows_least, totals.rows_median));
    json_object_set_new(root, "texts",
                        least_and_median(totals.texts_least, totals.texts_median));
    if (settings->combined) {
        json_object_set_new(root, "q_per_kv_group", json_integer(results->group.size));
        json_object_set_new(root, "q_per_kv_group_source",
                            json_string(SOURCES[results->group.source]));
        if (settings->analyses & QK_ANALYSE_PCA)
            add_pca_json(root, &totals);
    }
    if (!settings->combined)
        json_object_set_new(root, "high_correlations",
                            high_json(settings->correlation_threshold, &results->high));
    if (settings->analyses & QK_ANALYSE_ROTATION)
        json_object_set_new(root, "rotation", rotation_json(&totals));
    if (has_plasticity(settings, results))
        json_object_set_new(root, "plasticity", plasticity_json(&results->plasticity));
    cli_json_print(root);
}

/* Who did not ask for several processes should see where they came from. */
static void print_unfinished(const qk_analysis_settings *settings,
                             const qk_analysis_results *results)
{
    size_t there = results->units_there, units = results->units;
    const qk_shard *shard = &settings->shard;
    cli_print("shard %" PRId64 " of %" PRId64 " (%s): ", shard->index, shard->count,
              shard->source ? shard->source : "given");
    if (there == 0)
        cli_print("none of the %zu units is this process's\n", units);
    else if (there == units)
        cli_print(
            "%zu of %zu units are there; another process is at work in %s, and writes the "
            "tables if it belongs to this run; else 'qkscope merge %s' does\n",
            there, units, settings->output, settings->output);
    else
        cli_print("%zu of %zu units are there; the last process to end writes the tables, or "
                  "'qkscope merge %s'\n",
                  there, units, settings->output);
}

void cli_print_unfinished(const cli_common *common, const qk_analysis_settings *settings,
                          const qk_analysis_results *results)
{
    if (common->json)
        cli_json_print(json_pack("{s:o, s:I, s:I}", "output", cli_json_text(settings->output),
                                 "units", (json_int_t)results->units, "units_there",
                                 (json_int_t)results->units_there));
    else if (!common->quiet && !settings->merge)
        print_unfinished(settings, results);
}
