/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of scatter figures: their table, and what of them goes together. */
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "figure/figure_settings.h"
#include "scatter/scatter.h"
#include "settings/common_rows.h"
#include "settings/settings.h"

/* Of a figure, without what tells several of one run apart. */
enum { MAX_NAME = 80 };

#define AT(member) QK_SETTING_AT(qk_scatter_settings, member)

static const qk_word BASIS_WORDS[] = {{"pca", QK_BASIS_PCA},
                                      {"ab", QK_BASIS_AB},
                                      {"complement", QK_BASIS_COMPLEMENT},
                                      {"attention", QK_BASIS_ATTENTION},
                                      {0}};
static const qk_word KINDS[] = {{"q", QK_KINDS_Q}, {"k", QK_KINDS_K}, {0}};

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "PATH",
     .help = "folder for the figures, or one picture: FILE.png, .svg or .pdf",
     .section = "Output"},
    {"name", QK_SETTING_TEXT, AT(name), .value = "NAME", .help = "name of the files",
     .unset = "made from basis and heads", .section = "Output"},
    {"title", QK_SETTING_TEXT, AT(title), .value = "TEXT", .help = "line above the figure",
     .section = "Output", .traits = QK_SETTING_UTF8},
    {"format", QK_SETTING_SET, AT(figures.formats), .number = QK_FIGURE_SVG,
     .words = qk__figure_formats, .value = "LIST",
     .help = "pictures beside the SVG: png, pdf or both (by rsvg-convert)",
     .section = "Output"},
    {"basis", QK_SETTING_CHOICE, AT(basis), .number = QK_BASIS_PCA, .words = BASIS_WORDS,
     .help = "components of the PCA, axes a and b of the rotation model, or the pairs of "
             "axes of what is left; attention: no axes, but rows of attention of one text",
     .section = "Axes"},
    {"pc-x", QK_SETTING_INTEGER, AT(pc_x), .min = 0, .max = 4095, .value = "N",
     .help = "component on the x axis, from 0", .unset = "0", .section = "Axes"},
    {"pc-y", QK_SETTING_INTEGER, AT(pc_y), .number = 1, .min = 0, .max = 4095, .value = "N",
     .help = "component on the y axis", .section = "Axes"},
    {"kind", QK_SETTING_CHOICE, AT(kinds), .number = QK_KINDS_BOTH, .words = KINDS,
     .value = "q|k", .help = "queries or keys alone, on their own components",
     .unset = "together", .section = "Axes"},
    {"centred", QK_SETTING_FLAG, AT(centred),
     .help = "with pca, draw as pca-visualize does: zero is the mean of all rows, lines run "
             "through it, and a box shows r of the components",
     .section = "Axes"},
    {"example-id", QK_SETTING_INTEGER, AT(example_id), .number = -1, .min = 0, .max = 9e15,
     .value = "N",
     .help = "draw this text in colour, all others in grey; with attention, this one alone",
     .unset = "none, with attention the longest", .section = "Points"},
    {"heads", QK_SETTING_HEADS, AT(heads), .value = "L:H,...",
     .help = "query heads (with --kind k key heads): 5:13,1:8, 2:*, 5 (of every layer), @FILE",
     .unset = "the first", .section = "Heads and rows"},
    {"max-points", QK_SETTING_INTEGER, AT(max_points), .number = QK_SCATTER_FEW_POINTS,
     .min = 0, .max = 1e15, .value = "N", .help = "points per kind and panel; 0: all",
     .unset = "8000, complement 2000", .section = "Points"},
    QK_SETTING_PART(qk_scatter_settings, figures, qk__figure_settings_table),
    QK_SETTING_PART(qk_scatter_settings, input, qk_analysis_settings_table),
};

const qk_settings_table qk_scatter_settings_table = {
    QK_SETTINGS_ROWS(qk_scatter_settings, ROWS)};

qk_status qk__scatter_check_settings(const qk_scatter_settings *s, qk_error *err)
{
    const qk_status status = QK_ERR_ARGUMENT;
    if (!s->output)
        return qk__fail(err, status, "no output folder given");
    if (s->figures.formats == 0)
        return qk__fail(err, status, "no picture format given");
    if (s->name &&
        (*s->name == '-' || strlen(s->name) > MAX_NAME || !qk__is_figure_name(s->name)))
        return qk__fail(
            err, status,
            "'%.80s' is not a name for a figure: at most %d letters, digits, '.', '_' and "
            "'-', of which only '_' may be the first",
            s->name, MAX_NAME);
    if (s->kinds != QK_KINDS_BOTH && s->basis != QK_BASIS_PCA)
        return qk__fail(
            err, status,
            "one kind alone has a PCA only (--basis pca): all else is of queries and keys "
            "together");
    if (s->rows < 0 || s->columns < 0 || s->rows > QK__SCATTER_SIDE ||
        s->columns > QK__SCATTER_SIDE || (s->rows == 0) != (s->columns == 0))
        return qk__fail(err, status, "a collage of %d x %d: expected 1x1 to %dx%d", s->rows,
                        s->columns, QK__SCATTER_SIDE, QK__SCATTER_SIDE);
    if (s->basis == QK_BASIS_PCA && (s->pc_x < 0 || s->pc_y < 0 || s->pc_x == s->pc_y ||
                                     s->pc_x >= QK_MAX_DIM || s->pc_y >= QK_MAX_DIM))
        return qk__fail(err, status,
                        "components %d and %d: expected two different ones, counted from 0",
                        s->pc_x, s->pc_y);
    if (s->random < 0 || (s->random > 0 && s->heads.count > 0))
        return qk__fail(err, status, "heads are either named or random");
    if (s->basis == QK_BASIS_ATTENTION &&
        (s->pc_x != 0 || s->pc_y != 1 || s->centred || s->max_points >= 0 ||
         s->input.max_samples > 0 || s->input.from_position > 0))
        return qk__fail(err, status,
                        "attention is of all rows, and on no axes: leave --pc-x, --pc-y, "
                        "--centred, --max-points, --max-samples and --from-position out");
    return QK_OK;
}
