/* SPDX-License-Identifier: Apache-2.0 */
/* An export: its settings, which format, the output folder. */
#include "export/export.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "settings/common_rows.h"
#include "settings/settings.h"

/* ---- settings --------------------------------------------------------------------------- */

#define AT(member) QK_SETTING_AT(qk_export_settings, member)

/* The command, and which formats of it take a setting. */
static const char KVPRESS[] = "export kvpress-stats", DUO[] = "export duo-attention",
                  LENS[] = "export transformer-lens",
                  CAPTURES[] = "export kvpress-stats duo-attention q-filters";

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "DIR",
     .help = "folder for the files", .section = "Output"},
    {"force", QK_SETTING_FLAG, AT(force), .help = "replace files that DIR has of an export",
     .section = "Output"},
    {"dataset", QK_SETTING_TEXT, AT(dataset), .value = "NAME",
     .help = "kvpress-stats: what config.json calls the texts", .unset = "no name",
     .section = "Output", .commands = KVPRESS},
    QK__REVISION_ROW(qk_export_settings, CAPTURES, .yaml = NULL),
    QK__OFFLINE_ROW(qk_export_settings, NULL, .yaml = NULL),
    QK__SPLIT_ROW(qk_export_settings, CAPTURES, .yaml = NULL),
    QK__GROUP_ROW(qk_export_settings, CAPTURES, .yaml = NULL),
    {"from-position", QK_SETTING_INTEGER, AT(from_position), .number = -1, .min = 0,
     .max = 1e15, .value = "K", .help = "leave out rows of positions below K",
     .unset = "4 for kvpress-stats, else 0", .section = "Heads and rows", .commands = CAPTURES},
    {"where", QK_SETTING_TEXT, AT(where), .value = "CONDITION",
     .help = "transformer-lens: heads of which this holds, as in qkscope heads", .unset = "all",
     .section = "Heads and rows", .commands = LENS},
    {"sort", QK_SETTING_TEXT, AT(sort), .value = "COLUMN",
     .help = "transformer-lens: order by this column or abs(COLUMN); -COLUMN: descending",
     .unset = "layer and head", .section = "Heads and rows", .commands = LENS},
    {"top", QK_SETTING_INTEGER, AT(top), .min = 1, .max = 1e9, .value = "N",
     .help = "transformer-lens: the first N of them", .unset = "all",
     .section = "Heads and rows", .traits = QK_SETTING_ZERO_IS_NULL, .commands = LENS},
    {"model", QK_SETTING_TEXT, AT(model), .letter = 'm', .value = "MODEL",
     .help = "whose RoPE turns the means: a folder or a name of the Hub that is cached",
     .unset = "as the capture tells", .section = "DuoAttention", .commands = DUO},
    {"sink", QK_SETTING_INTEGER, AT(sink), .number = 128, .min = 0, .max = 1e9, .value = "N",
     .unit = "tokens", .help = "first keys that a head without far keys sees",
     .section = "DuoAttention", .commands = DUO},
    {"recent", QK_SETTING_INTEGER, AT(recent), .number = 256, .min = 1, .max = 1e9,
     .value = "N", .unit = "tokens", .help = "latest keys that it sees",
     .section = "DuoAttention", .commands = DUO},
    {"length", QK_SETTING_INTEGER, AT(length), .number = 500, .min = 2, .max = 1e6,
     .value = "N", .unit = "tokens", .help = "length of the text that means are predicted for",
     .section = "DuoAttention", .commands = DUO},
    QK__THREADS_ROW(qk_export_settings, NULL, .yaml = NULL),
};

const qk_settings_table qk_export_settings_table = {QK_SETTINGS_ROWS(qk_export_settings, ROWS)};

void qk_export_settings_default(qk_export_settings *settings)
{
    qk__settings_default(&qk_export_settings_table, settings);
}

/* ---- formats ---------------------------------------------------------------------------- */

/* files: in the order in which they take their places. */
static const struct {
    const char *name, *files[2];
    qk_status (*make)(qk__export *x, qk_error *err);
} FORMATS[] = {
    [QK_EXPORT_KVPRESS_STATS] = {"kvpress-stats",
                                 {QK__EXPORT_TENSORS, QK__EXPORT_CONFIG},
                                 qk__export_kvpress_stats},
    [QK_EXPORT_DUO_ATTENTION] = {"duo-attention",
                                 {QK__EXPORT_DUO, QK__EXPORT_CONFIG},
                                 qk__export_duo_attention},
    [QK_EXPORT_Q_FILTERS] = {"q-filters",
                             {QK__EXPORT_TENSORS, QK__EXPORT_CONFIG},
                             qk__export_q_filters},
    [QK_EXPORT_TRANSFORMER_LENS] = {"transformer-lens",
                                    {QK__EXPORT_HEADS},
                                    qk__export_head_list},
};
enum { NUM_FORMATS = sizeof FORMATS / sizeof *FORMATS };

const char *qk_export_format_name(int format)
{
    return format >= 0 && format < NUM_FORMATS ? FORMATS[format].name : NULL;
}

/* ---- the run ---------------------------------------------------------------------------- */

static qk_status check_settings(const qk_export_settings *s, qk_error *err)
{
    if (!qk_export_format_name((int)s->format))
        return qk__fail(err, QK_ERR_ARGUMENT, "there is no format %d", (int)s->format);
    if (!s->source || !s->output)
        return qk__fail(err, QK_ERR_ARGUMENT, "no %s given",
                        s->source ? "output folder" : "source");
    return qk__settings_check(&qk_export_settings_table, s, err);
}

/* config.json and model.safetensors may be those of a model. */
static qk_status check_place(const qk__export *x, qk_error *err)
{
    const qk_export_settings *s = x->settings;
    for (int i = 0; i < 2 && FORMATS[s->format].files[i] && !s->force; i++) {
        char *path = qk__path_join(s->output, FORMATS[s->format].files[i]);
        if (!path)
            return qk__nomem(err);
        const bool there = qk__is_there(path);
        if (there)
            qk__set_error(err, QK_ERR_EXISTS,
                          "%s: is there already: give another folder, or --force to replace it",
                          path);
        free(path);
        if (there)
            return QK_ERR_EXISTS;
    }
    return QK_OK;
}

static qk_status make_files(qk__export *x, qk_error *err)
{
    QK_TRY(check_place(x, err));
    QK_TRY(qk__place_sweep(x->settings->output, err));
    QK_TRY(FORMATS[x->settings->format].make(x, err));
    for (size_t i = 0; i < x->files.count; i++)
        x->outcome->files[x->outcome->num_files++] = x->files.names[i];
    return qk__file_set_install(&x->files, NULL, NULL, NULL, err);
}

qk_status qk_export(const qk_export_settings *settings, qk_export_outcome *outcome,
                    qk_error *err)
{
    QK_NEED(err, settings, outcome);
    *outcome = (qk_export_outcome){0};
    qk__export x = {.settings = settings, .outcome = outcome};
    qk__hold place;
    QK_TRY(check_settings(settings, err));
    QK_TRY(qk__place_claim(&place, settings->output, err));
    qk_status status = make_files(&x, err);
    qk__file_set_discard(&x.files);
    qk__place_release(&place);
    return status;
}
