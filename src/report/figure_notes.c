/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the notes beside the figures of a report. */
#include "report/figure_notes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "figure/figure_note.h"
#include "figure/figure_settings.h"

/* ---- what the data say ------------------------------------------------------------------ */

/* With one model, the curves stand for the figures that compare models. */
static bool is_shown_in(const qk__finding *finding, const char *figure)
{
    bool curves = strcmp(figure, "map-07-layer-curves") == 0;
    for (size_t i = 0; curves && i < QK__NUM_SHOWN && finding->figures[i]; i++) {
        const qk__figure_kind *other = qk__find_figure(finding->figures[i]);
        if (other && other->compares)
            return true;
    }
    return qk__is_shown_by(finding, figure);
}

/* "Claim (verdict)." for each finding, in the order of the page; count strings to free. */
static qk_status gather_claims(const qk__findings *findings, const char *figure, char **say,
                               size_t *count, qk_error *err)
{
    *count = 0;
    for (size_t i = 0; i < findings->count; i++) {
        const qk__finding *finding = &findings->items[i];
        if (!finding->claim || !is_shown_in(finding, figure))
            continue;
        say[*count] =
            qk__format("%s (%s)", finding->claim, qk__verdict_names[finding->verdict]);
        if (!say[(*count)++])
            return qk__nomem(err);
    }
    return QK_OK;
}

/* ---- the command ------------------------------------------------------------------------ */

/* The command runs in the folder of the figures: where the results are the folder above, it needs no path. */
static qk_status put_report_command(const qk__note_places *places, const char *figure,
                                    qk__buffer *out, qk_error *err)
{
    static const char *const BUT[] = {"output", "html",  "alone",   "figure", "list",
                                      "force",  "title", "threads", NULL};
    const qk_report_settings *settings = places->settings;
    const qk__command command = {"report", places->figures, places->table, settings, BUT};
    bool apart = settings->output && strcmp(settings->output, settings->results) != 0;
    QK_TRY(qk__buffer_printf(out, err, "qkscope report "));
    QK_TRY(apart ? qk__put_path(out, places->figures, settings->results, err)
                 : qk__put_word(out, "..", err));
    QK_TRY(qk__buffer_printf(out, err, "%s --figure %s", apart ? " -o .." : "", figure));
    return qk__put_options(out, &command, err);
}

/* ---- notes ------------------------------------------------------------------------------ */

static qk_status write_figure_note(const qk__note_places *places, const qk__drawn *drawn,
                                   const char *const *say, size_t num_say, qk_error *err)
{
    const qk__figure_kind *kind = drawn->kind;
    qk__buffer command = {0}, text = {0};
    qk_status status = put_report_command(places, drawn->name, &command, err);
    qk__figure_note note = {
        .name = drawn->name,
        .title = kind->title,
        .caption = kind->caption,
        .tables = kind->tables,
        .rows = kind->rows,
        .numbers = kind->numbers,
        .together = kind->pools ? places->checkpoints : 0,
        .model = drawn->model ? drawn->model->label : NULL,
        .command = (const char *)command.data,
        .say = say,
        .num_say = num_say,
    };
    if (status == QK_OK)
        status = qk__note_write(&note, &text, err);
    char *name = qk__format("%s/%s.md", places->staging, drawn->name);
    if (status == QK_OK && !name)
        status = qk__nomem(err);
    if (status == QK_OK)
        status = qk__write_file(name, text.data, text.size, err);
    free(name);
    qk__buffer_free(&text);
    qk__buffer_free(&command);
    return status;
}

qk_status qk__figure_notes_write(const qk__note_places *places, const qk__drawn_list *drawn,
                                 const qk__findings *findings, qk_error *err)
{
    char **say = qk__calloc(findings->count + 1, sizeof *say);
    qk_status status = say ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < drawn->count && status == QK_OK; i++) {
        const qk__drawn *item = &drawn->items[i];
        size_t count = 0;
        if (item->status != QK_OK)
            continue;
        status = gather_claims(findings, item->kind->name, say, &count, err);
        if (status == QK_OK)
            status = write_figure_note(places, item, (const char *const *)say, count, err);
        for (size_t k = 0; k < count; k++)
            free(say[k]);
    }
    free(say);
    return status;
}
