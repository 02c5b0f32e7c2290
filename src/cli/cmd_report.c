/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope report: figures and a page from a folder of tables. */
#include "cli.h"

#include <stdio.h>

#include <qkscope/report.h>

static const char COMMAND[] = "qkscope report";

static const char DESCRIPTION[] =
    "Draws every figure that the tables in RESULTS allow, into DIR/figures, and writes\n"
    "DIR/report.html: one file with summary, findings, figures and an explorer of all heads,\n"
    "which opens without a network. RESULTS is the output folder of pca, rotate, plasticity,\n"
    "analyze or study; results that are not complete, or of two captures, are refused, and so\n"
    "are tables that changed since they were written (but see --force). Every figure NAME\n"
    "leaves NAME.gp and NAME.dat: gnuplot NAME.gp draws it again. Collages of qkscope scatter\n"
    "that lie in DIR/figures are shown, too.";

typedef struct request {
    qk_report_settings settings;
    cli_common common;
    const char *format, *theme;
    bool no_html;
} request;

/* A name that is not a format or theme is the caller's mistake. */
static bool set_figures(request *r)
{
    qk_error err;
    qk_figure_settings *figures = &r->settings.figures;
    if ((!r->format || qk_figure_formats_parse(r->format, &figures->formats, &err) == QK_OK) &&
        (!r->theme || qk_figure_theme_parse(r->theme, &figures->theme, &err) == QK_OK))
        return true;
    cli_error(COMMAND, "%s", err.message);
    return false;
}

static int parse(int argc, char **argv, request *r)
{
    qk_report_settings *s = &r->settings;
    const cli_option options[] = {
        {'o', "output", "DIR", "folder for figures/ and report.html (default: RESULTS)",
         OPTION_TEXT, &s->output, 0, 0},
        {0, "title", "TEXT", "of the page (default: of the study)", OPTION_TEXT, &s->title, 0,
         0},
        {0, "scores", "FILE",
         "CSV of benchmark scores, a row per model\n"
         "(default: RESULTS/scores.csv, if there)",
         OPTION_TEXT, &s->scores, 0, 0},
        {0, "score-metric", "NAME", "number to compare scores with (default: ap_drop)",
         OPTION_TEXT, &s->score_metric, 0, 0},
        {0, "score-column", "NAME", "which score (default: the first)", OPTION_TEXT,
         &s->score_column, 0, 0},
        {0, "format", "LIST",
         "of the figures: png,svg,pdf (default: png,svg,\nwhich the page "
         "always needs)",
         OPTION_TEXT, &r->format, 0, 0},
        {0, "theme", "NAME", "of the figures: paper, screen or dark (default: paper)",
         OPTION_TEXT, &r->theme, 0, 0},
        {0, "no-html", NULL, "figures alone", OPTION_FLAG, &r->no_html, 0, 0},
        {0, "threads", "N", "figures drawn at once (default: all processors)", OPTION_INT,
         &s->figures.threads, 1, 4096},
        {0, "force", NULL,
         "draw tables that are not as manifest.json says,\ntoo, with a warning", OPTION_FLAG,
         &s->force, 0, 0},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "RESULTS [-o DIR] [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r->common,
                               .max_arguments = 1};
    int count;
    int code = cli_parse(&syntax, argc, argv, &s->results, &count);
    if (code >= 0)
        return code;
    if (count == 0) {
        cli_error(COMMAND, "which results? Give the folder with the tables");
        return EXIT_CODE_USAGE;
    }
    s->html = !r->no_html;
    return set_figures(r) ? -1 : EXIT_CODE_USAGE;
}

static bool on_progress(void *user, size_t done, size_t total)
{
    return cli_progress(user, done, total, 0);
}

static void print_json(const qk_report_outcome *outcome)
{
    json_t *failures = json_array(), *changed = json_array();
    for (size_t i = 0; i < outcome->num_changed; i++)
        json_array_append_new(changed, cli_json_text(outcome->changed[i]));
    for (size_t i = 0; i < outcome->num_failed; i++)
        json_array_append_new(failures, cli_json_text(outcome->failures[i]));
    cli_json_print(
        json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:I, s:f}", "models",
                  (json_int_t)outcome->num_models, "heads", (json_int_t)outcome->num_heads,
                  "figures", (json_int_t)outcome->num_figures, "failures", failures, "changed",
                  changed, "html", outcome->html ? cli_json_text(outcome->html) : json_null(),
                  "html_bytes", (json_int_t)outcome->html_bytes, "seconds", outcome->seconds));
}

static void print_outcome(const request *r, const qk_report_outcome *outcome)
{
    for (size_t i = 0; i < outcome->num_changed; i++)
        cli_error(COMMAND, "warning: %s/%s; drawn all the same", r->settings.results,
                  outcome->changed[i]);
    if (r->common.json) {
        print_json(outcome);
        return;
    }
    cli_print_failures(COMMAND, outcome->failures, outcome->num_failed);
    if (r->common.quiet)
        return;
    cli_print("%zu model%s, %zu head%s, %zu figure%s in %.2f s\n", outcome->num_models,
              cli_s((int64_t)outcome->num_models), outcome->num_heads,
              cli_s((int64_t)outcome->num_heads), outcome->num_figures,
              cli_s((int64_t)outcome->num_figures), outcome->seconds);
    cli_print("%s/figures\n", r->settings.output ? r->settings.output : r->settings.results);
    if (outcome->html)
        cli_print("%s (%.1f MB)\n", outcome->html, (double)outcome->html_bytes / 1e6);
}

int cmd_report(int argc, char **argv)
{
    request r = {0};
    cli_messages messages;
    qk_report_outcome *outcome = NULL;
    qk_error err;
    qk_report_settings_default(&r.settings);
    int code = parse(argc, argv, &r);
    if (code >= 0)
        return code;
    cli_messages_init(&messages, COMMAND, &r.common, "figures");
    r.settings.progress = on_progress;
    r.settings.user = &messages;
    qk_status status = qk_report_write(&r.settings, &outcome, &err);
    cli_clear(&messages);
    if (outcome)
        print_outcome(&r, outcome);
    else
        cli_error(COMMAND, "%s", err.message);
    qk_report_outcome_free(&outcome);
    return cli_finish(COMMAND,
                      status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status));
}
