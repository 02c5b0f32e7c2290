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

/* ---- PCA -------------------------------------------------------------------------------- */

static void print_categories(const qk_analysis_totals *totals)
{
    size_t heads = 0, key_heads = 0;
    for (int c = 0; c < QK_NUM_CATEGORIES; c++) {
        heads += totals->categories[c];
        key_heads += totals->key_heads[c];
    }
    if (heads == 0)
        return;
    putchar('\n');
    for (int c = 0; c < QK_NUM_CATEGORIES; c++) {
        cli_print("  %-20s %5zu  %5.1f %%", qk_category_name((qk_category)c),
                  totals->categories[c], 100.0 * (double)totals->categories[c] / (double)heads);
        if (key_heads < heads) /* some heads share keys */
            cli_print("  with %zu key head%s", totals->key_heads[c],
                      cli_s((int64_t)totals->key_heads[c]));
        putchar('\n');
    }
    if (totals->judged > 0)
        cli_print("\n  uncertain (probability < %.2f) %4zu of %zu head%s\n", QK_CERTAIN,
                  totals->uncertain, totals->judged, cli_s((int64_t)totals->judged));
    else
        cli_print("\n  uncertain (probability < %.2f)    -\n", QK_CERTAIN);
    if (totals->not_judged > 0)
        cli_print("  certainty cannot be told     %5zu of %zu head%s\n", totals->not_judged,
                  heads, cli_s((int64_t)heads));
    if (totals->content_told > 0)
        cli_print("  position off PC0              %5zu of %zu content-focused head%s\n",
                  totals->position_off_pc0, totals->content_told,
                  cli_s((int64_t)totals->content_told));
    cli_print_depths();
    cli_print_strip("mean r_q", QK_RAMP_BLUES, totals->r_q);
    cli_print_strip("mean |r_k|", QK_RAMP_REDS, totals->abs_r_k);
}

json_t *cli_count_categories(const size_t counts[QK_NUM_CATEGORIES])
{
    json_t *object = json_object();
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        json_object_set_new(object, qk_category_name((qk_category)c),
                            json_integer((json_int_t)counts[c]));
    return object;
}

static json_t *certainty_json(const qk_analysis_totals *t)
{
    return cli_object(CLI_ROWS(CLI_ROW("heads", t->judged), CLI_OF(t, not_judged),
                               CLI_OF(t, uncertain), CLI_OF(t, wide_r_q),
                               CLI_OF(t, widest_r_q)));
}

static json_t *position_json(const qk_analysis_totals *t)
{
    return cli_object(CLI_ROWS(CLI_ROW("content_focused", t->content_told),
                               CLI_ROW("heads", t->position_off_pc0)));
}

/* ---- rotation --------------------------------------------------------------------------- */

static const char ROTATION[] =
    "[{rotation.heads?}\n"
    "  bias towards recent keys      {rotation.bias_positive:5d} of {rotation.heads} head{s}"
    "[{rotation.bias_told?}, certain {rotation.bias_certain}]\n"
    "  mean |r_q|, |r_k| along a     {rotation.mean_abs_r_q_a:5.3f}, "
    "{rotation.mean_abs_r_k_a:5.3f}\n"
    "  mean variance in the plane    {rotation.mean_plane_var_fraction:5.1%}\n]"
    "[  without drift                 {rotation.degenerate:5d} heads\n]";

static json_t *rotation_json(const qk_analysis_totals *t)
{
    return cli_object(CLI_ROWS(CLI_ROW("heads", t->rotated), CLI_OF(t, degenerate),
                               CLI_OF(t, bias_positive), CLI_OF(t, bias_told),
                               CLI_OF(t, bias_certain), CLI_ROW("mean_abs_r_q_a", t->abs_r_q_a),
                               CLI_ROW("mean_abs_r_k_a", t->abs_r_k_a),
                               CLI_ROW("mean_plane_var_fraction", t->plane_var_fraction)));
}

/* ---- plasticity ------------------------------------------------------------------------- */

/* A capture that keeps only moments has no rows for plasticity. */
static bool has_plasticity(const qk_analysis_settings *settings,
                           const qk_analysis_results *results)
{
    return (settings->analyses & QK_ANALYSE_PLASTICITY) && results->plasticity.heads > 0;
}

static const char PLASTICITY[] =
    "\n  plasticity                    {plasticity.ap_overall:5.3f}"
    "[{plasticity.reservoir?}\n  its standard error, at most   {plasticity.ap_overall_se:5.3f}"
    " (from choosing {plasticity.reservoir} key{s} of each bucket and text)]"
    "[{published?}\n  mean over pairs of buckets    {plasticity.ap_mean:5.3f}]"
    "\n  by fifths of the context      {plasticity.fifths.0:5.3f} {plasticity.fifths.1:5.3f} "
    "{plasticity.fifths.2:5.3f} {plasticity.fifths.3:5.3f} {plasticity.fifths.4:5.3f}"
    "\n  drop, first to last           {plasticity.ap_drop:5.3f}"
    "[\n  buckets of                    {plasticity.bucket_width:5.6g} tokens]\n";

static json_t *plasticity_json(const qk_model_plasticity *m)
{
    return cli_object(CLI_ROWS(
        CLI_OF(m, heads), CLI_OF(m, ap_overall), CLI_OF(m, ap_mean), CLI_OF(m, ap_drop),
        CLI_ROW("fifths", cli_json_numbers(m->fifths, QK_FIFTHS)), CLI_OF(m, bucket_width),
        CLI_ROW_IF(m->reservoir > 0, "reservoir", m->reservoir),
        CLI_ROW_IF(m->reservoir > 0, "ap_overall_se", m->ap_overall_se)));
}

/* ---- attention -------------------------------------------------------------------------- */

static const char ATTENTION[] =
    "[{attention.heads?}\n"
    "  mean attention to key 0       {attention.mean_sink_mass:5.3f}\n"
    "[  mean share of distance        {attention.mean_distance_share:5.3f}\n]]";

static void print_names(const qk_analysis_totals *t)
{
    for (int i = 0; i < QK_NUM_HEAD_NAMES; i++)
        if (t->named[i] > 0)
            cli_print("  %-29s %5zu of %zu head%s\n",
                      qk_attention_name_text((qk_attention_name)i), t->named[i], t->attended,
                      cli_s((int64_t)t->attended));
}

static json_t *attention_json(const qk_analysis_totals *t)
{
    json_t *named = json_object();
    for (int i = 0; i < QK_NUM_HEAD_NAMES; i++)
        json_object_set_new(named, qk_attention_name_text((qk_attention_name)i),
                            json_integer((json_int_t)t->named[i]));
    return cli_object(
        CLI_ROWS(CLI_ROW("heads", t->attended), CLI_ROW("mean_sink_mass", t->sink_mass),
                 CLI_ROW("mean_distance_share", t->distance_share), CLI_ROW("names", named)));
}

/* ---- the whole -------------------------------------------------------------------------- */

static const char SIZES[] =
    "{done} head{s}, {rows} row{s} in {seconds:.2f} s ({threads} thread{s}, {speed:.0f} MB/s)\n"
    "[group size {q_per_kv_group} ({q_per_kv_group_source})\n]"
    "rows per head: least {rows_per_head.least:.15g}, median {rows_per_head.median:.15g}; "
    "texts: least {texts.least:.15g}[{many_texts?}+]\n"
    "{lengths_say}\n";

/* The components that follow position, in the PCA of each kind. */
static const char HIGH[] =
    "[{high_correlations?}\nHigh-correlation summary (|r| >= "
    "{high_correlations.threshold:g}):\n"
    "  {high_correlations.high}/{high_correlations.components} components, "
    "{high_correlations.heads_high}/{high_correlations.heads} heads\n"
    "  Negative: {high_correlations.high_negative} components, "
    "{high_correlations.heads_high_negative} heads\n]";

static void print_summary(const qk_analysis_settings *s, const qk_analysis_results *results,
                          const qk_analysis_totals *totals, const cli_row *rows)
{
    cli_say(SIZES, rows);
    if (s->combined && (s->analyses & QK_ANALYSE_PCA))
        print_categories(totals);
    cli_say(HIGH, rows);
    if (s->analyses & QK_ANALYSE_ROTATION)
        cli_say(ROTATION, rows);
    if (totals->rotated > 0 && s->analyses == QK_ANALYSE_ROTATION) {
        cli_print_depths();
        cli_print_strip("mean |r_q|", QK_RAMP_BLUES, totals->abs_r_q_a_by_depth);
        cli_print_strip("mean |r_k|", QK_RAMP_REDS, totals->abs_r_k_a_by_depth);
    }
    if (has_plasticity(s, results))
        cli_say(PLASTICITY, rows);
    if (has_plasticity(s, results) && s->analyses == QK_ANALYSE_PLASTICITY) {
        cli_print_depths();
        cli_print_strip("plasticity", QK_RAMP_MAGMA, totals->ap);
    }
    if (totals->attended > 0) {
        cli_say(ATTENTION, rows);
        print_names(totals);
    }
    putchar('\n');
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
        json_array_append_new(
            failures,
            cli_object(CLI_ROWS(CLI_ROW("head", (char *)name),
                                CLI_ROW("reason", qk_status_text(head->status)),
                                CLI_ROW("message", head->message ? head->message : ""))));
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
    return cli_object(CLI_ROWS(CLI_ROW("threshold", threshold), CLI_OF(n, components),
                               CLI_OF(n, heads), CLI_OF(n, high), CLI_OF(n, high_negative),
                               CLI_OF(n, heads_high), CLI_OF(n, heads_high_negative)));
}

static json_t *lengths_json(const qk_text_lengths *l)
{
    return cli_object(CLI_ROWS(CLI_ROW("text_tokens", l->median),
                               CLI_ROW("text_tokens_least", l->least),
                               CLI_ROW("text_tokens_most", l->most), CLI_OF(l, position_least),
                               CLI_OF(l, position_mean), CLI_OF(l, position_most)));
}

static json_t *least_and_median(double least, double median)
{
    return cli_object(CLI_ROWS(CLI_ROW("least", least), CLI_ROW("median", median)));
}

void cli_tell_analysis(const cli_common *common, const qk_analysis_settings *settings,
                       const qk_analysis_results *results)
{
    bool combined = settings->combined, pca = combined && (settings->analyses & QK_ANALYSE_PCA);
    bool rotation = settings->analyses & QK_ANALYSE_ROTATION;
    char lengths[QK_LENGTHS_SIZE];
    qk_analysis_totals t;
    qk_analysis_totals_of(results, &t);
    cli_row *rows = CLI_ROWS(
        CLI_OF(settings, output), CLI_ROW("files", cli_list_outputs(results)),
        CLI_OF(results, capture), CLI_OF(results, model), CLI_ROW("combined", combined),
        CLI_ROW("heads", results->num_heads), CLI_ROW("rows", results->num_rows),
        CLI_OF(results, threads), CLI_OF(results, seconds),
        CLI_ROW("failures", cli_list_failures(results)),
        CLI_ROW("rows_per_head", least_and_median(t.rows_least, t.rows_median)),
        CLI_ROW("texts", least_and_median(t.texts_least, t.texts_median)),
        CLI_ROW("lengths", lengths_json(&results->lengths)),
        CLI_ROW_IF(combined, "q_per_kv_group", results->group.size),
        CLI_ROW_IF(combined, "q_per_kv_group_source", SOURCES[results->group.source]),
        CLI_ROW_IF(pca, "categories", cli_count_categories(t.categories)),
        CLI_ROW_IF(pca, "categories_key_heads", cli_count_categories(t.key_heads)),
        CLI_ROW_IF(pca, "certainty", certainty_json(&t)),
        CLI_ROW_IF(pca, "position_off_pc0", position_json(&t)),
        CLI_ROW_IF(pca, "mean_r_q_by_depth", cli_json_numbers(t.r_q, QK_DEPTHS)),
        CLI_ROW_IF(pca, "mean_r_k_by_depth", cli_json_numbers(t.r_k, QK_DEPTHS)),
        CLI_ROW_IF(pca, "mean_abs_r_k_by_depth", cli_json_numbers(t.abs_r_k, QK_DEPTHS)),
        CLI_ROW_IF(!combined, "high_correlations",
                   high_json(settings->correlation_threshold, &results->high)),
        CLI_ROW_IF(rotation, "rotation", rotation_json(&t)),
        CLI_ROW_IF(has_plasticity(settings, results), "plasticity",
                   plasticity_json(&results->plasticity)),
        CLI_ROW_IF(t.attended > 0, "attention", attention_json(&t)),
        CLI_SAY("lengths_say", qk_text_lengths_say(&results->lengths, lengths)),
        CLI_SAY("done", count_done(results)),
        CLI_SAY("speed", (double)results->bytes_read / 1e6 / results->seconds),
        CLI_SAY("many_texts", t.texts_least >= 65535),
        CLI_SAY("published", settings->plasticity.convention == QK_CONVENTION_PUBLISHED));
    if (!common->json && !common->quiet)
        print_summary(settings, results, &t, rows);
    cli_tell(common, "", rows);
}
