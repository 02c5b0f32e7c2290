/* SPDX-License-Identifier: Apache-2.0 */
/* The note beside a scatter figure: what it shows, and the command that draws it alone. */
#include <qkscope/common.h>

#include "base/error.h"
#include "figure/figure_note.h"
#include "scatter/scatter.h"

#define LATE_IS_DARK  " Light is early in the context, dark is late."
#define LATE_IS_LIGHT " Deep colours are early in the context, light ones late."

static const struct {
    const char *title, *caption, *numbers;
} BASES[] = {
    [QK_BASIS_PCA] = {"Queries and keys on two components",
                      "Every point is a query (blue) or a key (red) of one head, on two "
                      "components of its PCA.",
                      "projections of the rows on the components"},
    [QK_BASIS_AB] =
        {"Queries and keys in the plane (a, b)",
         "Every point is a query (blue) or a key (red) of one head. Along a lies all "
         "linear drift with position; b is the direction off it that tells queries "
         "from keys.",
         "projections of the rows on axes a and b of the rotation model"},
    [QK_BASIS_COMPLEMENT] =
        {"What is left outside the plane",
         "Every point is a query (blue) or a key (red) of one head, on pairs "
         "of axes of the complement of a and b. Rings that turn with position "
         "are planes of the rotary position embedding.",
         "projections of the rows on pairs of axes of the complement"},
    [QK_BASIS_ATTENTION] =
        {"What heads attend to in one text",
         "Every strip is a row of attention: the query at the position beside it, keys "
         "from left to right, coloured by weight, on a scale of powers of ten from 0.001 "
         "(and less) to 1. A column of several keys shows the largest of their weights. "
         "What else the model does to scores (caps, sinks that are no keys) the capture "
         "does not tell.",
         "position of the key, position of the row, weight; then colour, column and strip"},
};

static qk_status put_scatter_heads(const qk__scatter_shown *shown, qk__buffer *out,
                                   qk_error *err)
{
    for (size_t i = 0; i < shown->num_heads; i++)
        QK_TRY(qk__buffer_printf(out, err, "%s%d:%d", i ? "," : "", shown->heads[i].layer,
                                 shown->heads[i].head));
    return QK_OK;
}

/* Run in the folder of the figure. */
static qk_status put_scatter_command(const qk__scatter_shown *shown, qk__buffer *out,
                                     qk_error *err)
{
    static const char *const BUT[] = {"output", "name", "heads", "layers", "threads", NULL};
    const qk_scatter_settings *s = shown->settings;
    const qk__command command = {"scatter", s->output, shown->table, s, BUT};
    QK_TRY(qk__buffer_printf(out, err, "qkscope scatter "));
    QK_TRY(qk__put_path(out, s->output, s->input.capture, err));
    QK_TRY(qk__buffer_printf(out, err, " -o . --name %s --heads ", shown->name));
    QK_TRY(put_scatter_heads(shown, out, err));
    if (s->rows > 0)
        QK_TRY(qk__buffer_printf(out, err, " --collage %dx%d", s->rows, s->columns));
    return qk__put_options(out, &command, err);
}

static qk_status put_rows(const qk__scatter_shown *shown, qk__buffer *out, qk_error *err)
{
    const qk_scatter_settings *s = shown->settings;
    bool attention = s->basis == QK_BASIS_ATTENTION;
    const char *kinds = s->kinds == QK_KINDS_Q   ? "queries"
                        : s->kinds == QK_KINDS_K ? "keys"
                                                 : "queries and keys";
    QK_TRY(qk__buffer_printf(out, err, "%s of the heads ", kinds));
    QK_TRY(put_scatter_heads(shown, out, err));
    return qk__buffer_printf(
        out, err, " (layer:head)%s%s",
        attention            ? ", rows of one text at equal steps"
        : s->max_points == 0 ? ", all rows"
                             : ", evenly over the rows",
        s->example_id >= 0 && !attention ? "; one text in colour, the others grey" : "");
}

qk_status qk__scatter_note(const qk__scatter_shown *shown, qk__buffer *out, qk_error *err)
{
    const qk_scatter_settings *s = shown->settings;
    qk__buffer command = {0}, rows = {0}, caption = {0};
    const char *late = s->basis == QK_BASIS_ATTENTION      ? ""
                       : s->figures.theme == QK_THEME_DARK ? LATE_IS_LIGHT
                                                           : LATE_IS_DARK;
    qk_status status = put_scatter_command(shown, &command, err);
    if (status == QK_OK)
        status = qk__buffer_printf(&caption, err, "%s%s", BASES[s->basis].caption, late);
    if (status == QK_OK)
        status = put_rows(shown, &rows, err);
    const qk__figure_note note = {
        .name = shown->name,
        .title = BASES[s->basis].title,
        .caption = (const char *)caption.data,
        .tables = "the rows of the capture",
        .rows = (const char *)rows.data,
        .numbers = BASES[s->basis].numbers,
        .model = s->title && *s->title ? s->title : NULL,
        .command = (const char *)command.data,
    };
    if (status == QK_OK)
        status = qk__note_write(&note, out, err);
    qk__buffer_free(&caption);
    qk__buffer_free(&command);
    qk__buffer_free(&rows);
    return status;
}
