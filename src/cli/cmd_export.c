/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope export: heads in the files of other programs. */
#include "tell.h"

#include <string.h>

#include <qkscope/export.h>

typedef struct request {
    cli_common common;
    qk_export_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_export_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* By its word; -1, or the exit code of a usage error. */
static int find_format(const char *word, qk_export_format *format)
{
    const char *name;
    for (int i = 0; (name = qk_export_format_name(i)); i++)
        if (strcmp(name, word) == 0) {
            *format = (qk_export_format)i;
            return -1;
        }
    return cli_usage("there is no format '%s': give kvpress-stats, duo-attention, q-filters or "
                     "transformer-lens",
                     word);
}

static int settle_export(const cli_call *call)
{
    request *r = call->request;
    if (call->count < 2)
        return cli_usage(call->count == 0
                             ? "which format, and of what? Give FORMAT RESULTS"
                             : "of what? Give a capture or results after the format");
    if (!r->settings.output)
        return cli_usage("where to? Give -o DIR");
    r->settings.source = call->arguments[1];
    return find_format(call->arguments[0], &r->settings.format);
}

/* Options of other formats: those that the rows of the library's table do not give to this one. */
static void note_idle(const cli_call *call, const char *format)
{
    const qk_settings_table *all = &qk_export_settings_table;
    const request *r = call->request;
    qk_settings *taken;
    if (r->common.quiet || !cli_is_first() ||
        qk_settings_new(&taken, all, format, NULL) != QK_OK)
        return;
    const size_t count = qk_settings_count(taken);
    for (size_t i = 0, k = 0; i < all->count; i++)
        if (k < count && qk_settings_row(taken, k) == &all->rows[i])
            k++;
        else if (cli_given(call, all->rows[i].name))
            cli_error("note: --%s does nothing for %s", all->rows[i].name, format);
    qk_settings_free(&taken);
}

static void tell_export(const request *r, const qk_export_outcome *o)
{
    json_t *files = json_array();
    for (size_t i = 0; i < o->num_files; i++)
        json_array_append_new(files, cli_json_text(o->files[i]));
    cli_tell(&r->common,
             "{heads} head{s} for {format}[; the sign of {unsure} is not sure]\n"
             "{output}/{files.0}\n[{output}/{files.1}\n]",
             CLI_ROWS(CLI_ROW("format", qk_export_format_name((int)r->settings.format)),
                      CLI_ROW("output", r->settings.output), CLI_ROW("files", files),
                      CLI_OF(o, heads), CLI_OF(o, unsure)));
}

static int run_export(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_export_outcome outcome;
    qk_error err;
    int code = settle_export(call);
    if (code >= 0)
        return code;
    note_idle(call, qk_export_format_name((int)r->settings.format));
    cli_messages_init(&messages, &r->common, &r->settings.context);
    qk_status status = qk_export(&r->settings, &outcome, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK)
        tell_export(r, &outcome);
    return cli_settings_code(status);
}

const cli_command cmd_export = {
    .name = "export",
    .group = "Make",
    .summary = "heads in the files of kvpress, DuoAttention, Q-Filters, TransformerLens",
    .usage = "FORMAT RESULTS -o DIR [options]",
    .description =
        "Writes what is known of heads as other programs read it, into DIR.\n\n"
        "kvpress-stats: RESULTS is a capture of all heads before RoPE. Mean and covariance of "
        "queries, from position 4 on, for kvpress's ExpectedAttentionStatsPress.\n\n"
        "duo-attention: RESULTS is such a capture, or the folder of qkscope ablate --what "
        "window:256:128. How much each key head needs far keys, 0 to 1: what kvpress predicts "
        "from mean queries and keys, or what the model loses without far keys.\n\n"
        "q-filters: RESULTS is a capture of all heads after RoPE. Where the queries of each "
        "key head point.\n\n"
        "transformer-lens: RESULTS is as for qkscope heads. A list [[layer, head], ...] of "
        "those of which a condition holds.\n\n"
        "A capture may keep moments in place of rows (docs/export.md).",
    .examples = "qkscope export kvpress-stats capture/pre -o stats\n"
                "qkscope export duo-attention capture/pre -o duo\n"
                "qkscope export duo-attention ablation -o duo\n"
                "qkscope export q-filters capture/post -o filters\n"
                "qkscope export transformer-lens results "
                "--where \"bias_strength_lo > 0\" -o heads\n",
    .table = &TABLE,
    .max_arguments = 2,
    .word = qk_export_format_name,
    .run = run_export,
};
