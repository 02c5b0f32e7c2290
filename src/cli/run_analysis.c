/* SPDX-License-Identifier: Apache-2.0 */
/* Options and running of the commands that analyse a capture. */
#include "run_analysis.h"

enum { DEFAULT_PAIRS = 30 };

typedef struct request {
    cli_common common;
    qk_analysis_settings settings;
    qk_config *config;
    bool complement;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_analysis_settings_table),
    {"complement", QK_SETTING_FLAG, QK_SETTING_AT(request, complement),
     .help = "write complement.csv: the planes of what is left, and how they turn",
     .section = "Rotation", .commands = "rotate analyze"},
    CLI_CONFIG(request, "settings in YAML; options given here override it"),
    QK_SETTING_PART(request, common, cli_common_table),
};

const qk_settings_table cli_analysis_table = {QK_SETTINGS_ROWS(request, ROWS)};

int cli_analysis_load(cli_call *call)
{
    request *r = call->request;
    qk_error err;
    qk_status status = qk_config_load(&r->config, r->common.config, &err);
    if (status == QK_OK)
        r->settings = *qk_config_settings(r->config);
    return cli_loaded(call, status, &err);
}

void cli_analysis_release(void *of)
{
    qk_config_free(&((request *)of)->config);
}

/* What follows from options beside their own settings. */
static void settle(const cli_call *call, unsigned analyses)
{
    request *r = call->request;
    qk_analysis_settings *s = &r->settings;
    if (call->count > 0)
        s->capture = call->arguments[0];
    if (r->complement && s->rotation.planes == 0)
        s->rotation.planes = DEFAULT_PAIRS;
    if (cli_given(call, "kinds"))
        s->combined = false;
    if (cli_given(call, "combined") || analyses != QK_ANALYSE_PCA)
        s->combined = true;
    s->analyses = analyses;
}

static int check(const cli_call *call)
{
    const qk_analysis_settings *s = &((const request *)call->request)->settings;
    if (!s->capture)
        return cli_usage(call, "which capture? Give a folder, or org/name of a dataset in the "
                               "Hugging Face cache");
    if (!s->output)
        return cli_usage(call, "where to? Give -o DIR");
    if (s->pca.low > s->pca.high)
        return cli_usage(call, "--taxonomy-low %g is above --taxonomy-high %g", s->pca.low,
                         s->pca.high);
    if (s->ci_refit && !(s->ci > 0))
        return cli_usage(call, "--ci-refit changes intervals: give --ci, too");
    if (s->ci > 0 && !s->combined)
        return cli_usage(call, "--ci needs queries and keys together: leave out --kinds");
    return -1;
}

static int run(const cli_call *call)
{
    request *r = call->request;
    const char *command = call->command->title;
    cli_messages messages;
    qk_analysis_results *report;
    qk_error err;
    cli_messages_init(&messages, command, &r->common, "heads");
    for (size_t i = 0; r->config && i < qk_config_num_notes(r->config); i++)
        if (!r->common.quiet)
            cli_error(command, "note: %s", qk_config_note(r->config, i));
    r->settings.notice = cli_notice;
    r->settings.progress = cli_progress;
    r->settings.user = &messages;
    qk_status status = qk_analysis_run(&r->settings, &report, &err);
    cli_clear(&messages);
    if (status != QK_OK)
        cli_error(command, "%s", err.message);
    if (report && r->common.json)
        cli_print_outcome_json(&r->settings, report);
    else if (report && !r->common.quiet)
        cli_print_outcome(&r->settings, report);
    qk_analysis_results_free(&report);
    return cli_finish(command, cli_exit_code(status));
}

int cli_analyse(cli_call *call, unsigned analyses)
{
    request *r = call->request;
    settle(call, analyses);
    int code = check(call);
    if (code >= 0)
        return code;
    r->settings.command_line = call->line;
    return run(call);
}
