/* SPDX-License-Identifier: Apache-2.0 */
/* Options and runs of the commands that analyse a capture. */
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
     .help = "write complement.csv: the planes of the remaining space, and how they turn",
     .section = "Rotation", .commands = "rotate analyze"},
    CLI_CONFIG(request, "settings in YAML; options given here override it"),
    QK_SETTING_PART(request, common, cli_common_table),
};

const qk_settings_table cli_analysis_table = {QK_SETTINGS_ROWS(request, ROWS)};

qk_status cli_analysis_load(void *of, qk_error *err)
{
    request *r = of;
    qk_status status = qk_config_load(&r->config, r->common.config, err);
    if (status != QK_OK)
        return status;
    r->settings = *qk_config_settings(r->config);
    return QK_OK;
}

void cli_analysis_release(void *of)
{
    qk_config_free(&((request *)of)->config);
}

void cli_print_notes(const qk_config *config, const cli_common *common)
{
    for (size_t i = 0; config && !common->quiet && i < qk_config_num_notes(config); i++)
        cli_error("note: %s", qk_config_note(config, i));
}

/* Sets what follows from options beside their own settings. */
static void settle_options(const cli_call *call)
{
    request *r = call->request;
    qk_analysis_settings *s = &r->settings;
    s->analyses = call->command->analyses;
    s->command_line = call->line;
    if (call->count > 0)
        s->capture = call->arguments[0];
    if (r->complement && s->rotation.planes == 0)
        s->rotation.planes = DEFAULT_PAIRS;
    if (cli_given(call, "kinds"))
        s->combined = false;
    if (cli_given(call, "combined") || s->analyses != QK_ANALYSE_PCA)
        s->combined = true;
}

static int check_thresholds(const qk_analysis_settings *s)
{
    if (!s->capture)
        return cli_usage("which capture? Give a folder, or org/name of a dataset on the "
                         "Hugging Face Hub");
    if (!s->output)
        return cli_usage("where to? Give -o DIR");
    if (s->ci > 0 && !s->combined)
        return cli_usage("--ci needs queries and keys together: leave out --kinds");
    return -1;
}

/* The next command, after an analysis of everything. */
static void print_next(const char *output)
{
    char *line = cli_words("qkscope report", 1, (char *[]){(char *)(uintptr_t)output});
    if (line)
        cli_print("Next: %s\n", line);
    free(line);
}

static int analyse(const cli_common *common, qk_analysis_settings *settings)
{
    cli_messages messages;
    qk_analysis_results *results;
    qk_error err;
    settings->drop_written = true; /* nothing below looks at written files */
    cli_messages_init(&messages, common, &settings->context);
    qk_status status = qk_analysis_run(settings, &results, &err);
    cli_messages_end(&messages, status, &err);
    if (results)
        cli_tell_analysis(common, settings, results);
    for (size_t i = 0; results && !common->json && !common->quiet && i < results->num_outputs;
         i++)
        cli_print("%s/%s\n", settings->output, results->outputs[i]);
    if (status == QK_OK && !common->json && !common->quiet &&
        (settings->analyses & QK_ANALYSE_PCA) && (settings->analyses & QK_ANALYSE_ROTATION))
        print_next(settings->output);
    qk_analysis_results_free(&results);
    return cli_exit_code(status);
}

int cli_analysis_run(cli_call *call)
{
    request *r = call->request;
    settle_options(call);
    int code = check_thresholds(&r->settings);
    if (code >= 0)
        return code;
    cli_print_notes(r->config, &r->common);
    return analyse(&r->common, &r->settings);
}
