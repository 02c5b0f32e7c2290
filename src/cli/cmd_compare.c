/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope compare: what changed from one model to another. */
#include "tell.h"

#include <math.h>
#include <string.h>

#include <qkscope/compare.h>

typedef struct request {
    cli_common common;
    qk_compare_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_compare_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

enum { SHOWN_MOVERS = 8 };

/* ---- what was found --------------------------------------------------------------------- */

/* "a", with the tokens of its texts where the texts of b have another length. */
typedef struct side_name {
    char text[32];
} side_name;

static side_name name_side(const qk_compare_outcome *o, int side)
{
    side_name name;
    const double tokens = o->tokens[side];
    snprintf(name.text, sizeof name.text, o->unlike ? "%c (%.15g)" : "%c", "ab"[side], tokens);
    return name;
}

static void print_means(const qk_compare_outcome *o, double level)
{
    cli_print("\n  %-19s %10s %10s %9s %9s %9s  %11s  %s\n", "mean over heads",
              name_side(o, 0).text, name_side(o, 1).text, "b - a", "lo", "hi", "corrected p",
              "changed");
    bool has_intervals = false;
    for (size_t i = 0; i < o->num_metrics; i++) {
        const qk_compare_metric *m = &o->metrics[i];
        if (!m->main)
            continue;
        cli_print("  %-19s ", m->name);
        cli_print_number("%10.4g", m->mean_a);
        cli_print(" ");
        cli_print_number("%10.4g", m->mean_b);
        cli_print(" ");
        cli_print_number("%+9.3g", m->mean);
        cli_print(" ");
        cli_print_number("%+9.3g", m->low);
        cli_print(" ");
        cli_print_number("%+9.3g", m->high);
        cli_print("  ");
        cli_print_number("%11.2g", m->p_corrected);
        has_intervals = has_intervals || isfinite(m->low);
        if (m->tested > 0)
            cli_print("  %zu of %zu\n", m->supported, m->tested);
        else
            cli_print("  -\n");
    }
    if (has_intervals)
        cli_print("  lo, hi: the %g %% interval of b - a, over key heads and layers\n", level);
    if (o->tested > 0)
        cli_print("  changed: heads whose own corrected p is below 0.05\n");
}

static void print_categories(const qk_compare_outcome *o)
{
    size_t all = 0, same = 0;
    for (int a = 0; a < QK_NUM_CATEGORIES; a++)
        for (int b = 0; b < QK_NUM_CATEGORIES; b++) {
            all += o->categories[a][b];
            same += a == b ? o->categories[a][b] : 0;
        }
    if (all == 0)
        return;
    cli_print("\nof another category in b: %zu of %zu heads\n", all - same, all);
    for (int a = 0; a < QK_NUM_CATEGORIES; a++)
        for (int b = 0; b < QK_NUM_CATEGORIES; b++)
            if (a != b && o->categories[a][b] > 0)
                cli_print("  %4zu %s, in b %s\n", o->categories[a][b],
                          qk_category_name((qk_category)a), qk_category_name((qk_category)b));
}

static void print_movers(const qk_compare_outcome *o, double level)
{
    bool has_intervals = false;
    if (o->num_movers == 0) {
        cli_print("\nno number of any head changed\n");
        return;
    }
    cli_print(
        "\nthe biggest movers, by the change in spreads (standard deviations over all heads)"
        "\n  %-6s %-19s %9s %9s %9s %9s %9s %8s  %11s\n",
        "head", "metric", name_side(o, 0).text, name_side(o, 1).text, "b - a", "lo", "hi",
        "spreads", "corrected p");
    for (size_t i = 0; i < o->num_movers && i < SHOWN_MOVERS; i++) {
        const qk_compare_mover *m = &o->movers[i];
        char head[32];
        snprintf(head, sizeof head, "%d:%d", m->layer, m->q_head);
        cli_print("  %-6s %-19s %9.4g %9.4g ", head, m->metric, m->a, m->b);
        cli_print_number("%+9.3g", m->difference);
        cli_print(" ");
        cli_print_number("%+9.3g", m->low);
        cli_print(" ");
        cli_print_number("%+9.3g", m->high);
        cli_print_number("%+9.2f", m->size);
        cli_print("  ");
        cli_print_number("%11.2g", m->p_corrected);
        cli_print("\n");
        has_intervals = has_intervals || isfinite(m->low);
    }
    if (has_intervals)
        cli_print("  lo, hi: the %g %% interval of b - a, over texts\n", level);
    if (o->movers[0].p_corrected < 0.05)
        cli_print(
            "  first those that changed by more than texts explain (corrected p < 0.05)\n");
}

static void print_outcome(const request *r, const qk_compare_outcome *o)
{
    char lengths[QK_LENGTHS_SIZE];
    if (o->unlike)
        cli_print("texts of different lengths: categories and most numbers depend on them\n");
    if (o->unlike && !r->settings.any_length)
        cli_print("no change is tested and no categories are compared without --any-length\n");
    cli_print("a: %s\nb: %s\n%zu head%s in both, %zu in a alone, %zu in b alone, %.2f s\n",
              o->names[0], o->names[1], o->paired, cli_s((int64_t)o->paired), o->only_a,
              o->only_b, o->seconds);
    for (int s = 0; s < 2; s++)
        cli_print("%c: %s\n", "ab"[s], qk_text_lengths_say(&o->lengths[s], lengths));
    if (o->tested > 0)
        cli_print("%zu of %zu changes are more than texts explain (corrected p < 0.05)\n",
                  o->supported, o->tested);
    print_means(o, r->settings.ci);
    print_categories(o);
    print_movers(o, r->settings.ci);
    cli_print("\n");
    if (o->replaced > 0)
        cli_print("replaced a comparison of %zu head%s\n", o->replaced,
                  cli_s((int64_t)o->replaced));
    for (size_t i = 0; i < o->num_outputs; i++)
        cli_print("%s/%s\n", r->settings.output, o->outputs[i]);
    if (o->num_figures > 0)
        cli_print("%s/figures\n", r->settings.output);
}

/* What compare_summary.json holds, and what was written. */
static void print_json(const request *r, const qk_compare_outcome *o)
{
    json_t *root = json_loads(o->summary, 0, NULL);
    json_t *done = json_pack(
        "{s:o, s:o, s:I, s:I, s:f}", "output", cli_json_text(r->settings.output), "files",
        cli_json_texts(o->outputs, o->num_outputs), "figures", (json_int_t)o->num_figures,
        "heads_replaced", (json_int_t)o->replaced, "seconds", o->seconds);
    if (root && done)
        json_object_update(root, done);
    json_decref(done);
    cli_json_print(root);
}

/* ---- running ---------------------------------------------------------------------------- */

static int compare_models(request *r)
{
    cli_messages messages;
    qk_compare_outcome *outcome = NULL;
    qk_error err;
    cli_messages_init(&messages, &r->common, &r->settings.context);
    qk_status status = qk_compare_run(&r->settings, &outcome, &err);
    cli_messages_end(&messages, status, &err);
    if (outcome && r->common.json)
        print_json(r, outcome);
    else if (outcome && !r->common.quiet)
        print_outcome(r, outcome);
    qk_compare_outcome_free(&outcome);
    return cli_exit_code(status);
}

static int run_compare(cli_call *call)
{
    request *r = call->request;
    if (call->count < 2)
        return cli_usage("which two? Give A and B: results folders, or FOLDER:MODEL");
    if (!r->settings.output)
        return cli_usage("where to? Give -o DIR");
    r->settings.a = call->arguments[0];
    r->settings.b = call->arguments[1];
    r->settings.command_line = call->line;
    return compare_models(r);
}

const cli_command cmd_compare = {
    .name = "compare",
    .group = "Analyse",
    .summary = "what changed from one model, checkpoint or run to another, head by head",
    .usage = "A B -o DIR [options]",
    .description =
        "What changed from A to B, head by head: the difference b - a of every number, with "
        "intervals over texts and p-values that are corrected together; means over all "
        "heads; which heads have another category; and the biggest movers. A and B are each a "
        "folder of results, or FOLDER:MODEL for one model of a study's folder. They need "
        "intervals (analyze --ci 95) for p-values. Heads are paired by layer and number, so A "
        "and B should be of one architecture. Writes compare.csv (a row per head and metric), "
        "compare_heads.csv, compare_summary.json, figures/ and compare.html into DIR, which "
        "holds nothing else.",
    .usual = "ci any-length output force no-html format theme width threads json help",
    .examples = "qkscope compare results/step-20 results/step-2004 -o changes\n"
                "qkscope compare results/base results/tuned -o changes\n"
                "qkscope compare study:step-20 study:step-2004 -o changes --no-html\n",
    .table = &TABLE,
    .max_arguments = 2,
    .run = run_compare,
};
