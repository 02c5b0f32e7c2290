/* SPDX-License-Identifier: Apache-2.0 */
/* Places several plots in one figure, with the text, axes and legends around them. */
#include "figure/panels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_SIZE       0.8  /* of labels and legends beside the theme's size */
#define CHARACTER_WIDTH 0.58 /* of a character beside its size */
/* Characters of a model's label; below which a shortened name says nothing; pixels of a row. */
enum { MAX_LABEL = 32, LEAST_NAME = 4, LEGEND_ROW = 17 };

double qk__em(const qk__figure *figure)
{
    return figure->theme->font_size / 13;
}

double qk__text_width(const qk__figure *figure, size_t characters)
{
    return (double)characters * CHARACTER_WIDTH * TEXT_SIZE * figure->theme->font_size;
}

/* ---- text ------------------------------------------------------------------------------- */

/* Places that the character beginning with this byte takes in a line: Chinese, Japanese and
 * Korean take two. */
static size_t columns_of(unsigned char lead)
{
    return (lead & 0xc0) == 0x80 ? 0 : (lead >= 0xe3 && lead <= 0xed) || lead >= 0xf0 ? 2 : 1;
}

size_t qk__count_columns(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += columns_of((unsigned char)*text);
    return count;
}

void qk__shorten(const char *text, size_t limit, char *out, size_t size)
{
    bool cut = qk__count_columns(text) > limit;
    size_t keep = cut ? limit - 1 : limit, length = 0, count = 0;
    for (; text[length] && length + 4 < size; length++) {
        count += columns_of((unsigned char)text[length]);
        if (count > keep)
            break;
        out[length] = text[length];
    }
    snprintf(out + length, size - length, "%s", cut ? "\xe2\x80\xa6" : "");
}

size_t qk__longest_label(const qk__results *results)
{
    size_t longest = 0;
    for (size_t m = 0; m < results->num_models; m++) {
        size_t count = qk__count_columns(results->models[m].label);
        longest = count > longest ? count : longest;
    }
    return longest < MAX_LABEL ? longest : MAX_LABEL;
}

const char *qk__brief(qk__figure *figure, const char *text, int limit)
{
    char shown[256];
    qk__shorten(text, limit > 1 ? (size_t)limit : 1, shown, sizeof shown);
    return qk__figure_quote(figure, shown);
}

/* ---- places ----------------------------------------------------------------------------- */

double qk__heading_height(const qk__figure *figure)
{
    return 34 * qk__em(figure);
}

void qk__start_panels(qk__figure *figure, const qk__results *results, const char *rest)
{
    const double size = 1.1 * figure->theme->font_size;
    /* A variable: `set key` and `set xtics` take no expression for a font. */
    qk__figure_print(figure,
                     "small = sprintf(',%%g', %g*size)\nunset key\nset multiplot\nset label ",
                     TEXT_SIZE);
    int room =
        (int)(figure->width / (CHARACTER_WIDTH * size)) - 2 - (int)qk__count_columns(rest);
    if (*results->title && room >= 8)
        qk__figure_print(figure, "%s.': '.", qk__brief(figure, results->title, room));
    qk__figure_print(figure,
                     "'%s' at screen 0.5,%.5f center tc rgb '%s' "
                     "font sprintf(',%%g', 1.1*size)\n",
                     rest, 1 - 15 * qk__em(figure) / figure->height, figure->theme->ink);
}

void qk__put_panel(qk__figure *figure, const qk__place *place)
{
    qk__figure_print(figure,
                     "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
                     "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
                     place->left / figure->width, (place->left + place->width) / figure->width,
                     1 - place->top / figure->height,
                     1 - (place->top + place->height) / figure->height);
}

void qk__label_panel(qk__figure *figure, const qk__place *place, const char *label)
{
    qk__figure_print(figure, "set label '%s' at screen %.5f,%.5f center rotate tc rgb '%s'\n",
                     label, (place->left - 50 * qk__em(figure)) / figure->width,
                     1 - (place->top + place->height / 2) / figure->height, figure->theme->ink);
}

void qk__put_text(qk__figure *figure, const char *text, double x, double y, bool note)
{
    qk__figure_print(figure, "set label %s at screen %.5f,%.5f center tc rgb '%s'%s\n", text,
                     x / figure->width, 1 - y / figure->height,
                     note ? figure->theme->muted : figure->theme->ink,
                     note ? " font small" : "");
}

void qk__end_panels(qk__figure *figure)
{
    qk__figure_print(figure, "unset multiplot\n");
}

/* ---- axes ------------------------------------------------------------------------------- */

qk__model_axis qk__plan_model_axis(const qk__figure *figure, const qk__results *results,
                                   double width)
{
    double text = qk__text_width(figure, qk__longest_label(results));
    double step = width / ((double)results->num_models + 0.2), em = qk__em(figure);
    qk__model_axis axis = {results, width, text + 8 * em > step, 1, 20 * em, 0};
    if (axis.turned) {
        axis.step = (size_t)fmax(1, ceil(13 * em / step));
        axis.height = 0.64 * text + 16 * em; /* sine and cosine of 40 degrees */
        axis.reach = 0.77 * text - 0.6 * step;
    }
    return axis;
}

void qk__set_model_axis(qk__figure *figure, const qk__model_axis *axis)
{
    const qk__results *results = axis->results;
    qk__figure_print(figure, "set xrange [-0.6:%.1f]\nset xtics scale 0 %s (",
                     (double)results->num_models - 0.4,
                     axis->turned ? "rotate by 40 right" : "norotate");
    for (size_t m = 0; m < results->num_models; m += axis->step)
        qk__figure_print(figure, "%s%s %zu", m ? ", " : "",
                         qk__figure_tic(figure, results->models[m].label), m);
    qk__figure_print(figure, ") font small\n");
}

/* ---- phases of training ----------------------------------------------------------------- */

void qk__part_phases(qk__figure *figure, const qk__results *results)
{
    for (size_t m = 1; m < results->num_models; m++)
        if (results->models[m].phase_index != results->models[m - 1].phase_index)
            qk__figure_vertical(figure, (double)m - 0.5);
}

void qk__figure_panel_phases(qk__figure *figure, const qk__results *results, double width)
{
    if (!results->checkpoints || results->num_phases == 0)
        return;
    double step = fmax(0, width) / ((double)results->num_models + 0.2);
    double character = qk__text_width(figure, 1);
    for (size_t first = 0, end; first < results->num_models; first = end) {
        const qk__result_model *models = results->models;
        for (end = first + 1; end < results->num_models; end++)
            if (models[end].phase_index != models[first].phase_index)
                break;
        if (first > 0)
            qk__figure_vertical(figure, (double)first - 0.5);
        double room = floor((double)(end - first) * step / character - 0.5);
        if (room < LEAST_NAME)
            continue;
        char name[256];
        qk__shorten(models[first].phase, room < 60 ? (size_t)room : 60, name, sizeof name);
        qk__figure_print(figure,
                         "set label %s at first %g, graph 1 offset 0,0.6 center tc rgb '%s' "
                         "font sprintf(',%%g', 0.8*size)\n",
                         qk__figure_quote(figure, name), (double)(first + end - 1) / 2,
                         figure->theme->muted);
    }
    qk__figure_print(figure, "set title offset 0,0.9\n");
}

/* ---- legends ---------------------------------------------------------------------------- */

qk__legend qk__plan_legend(const qk__figure *figure, const qk__entry *entries, size_t count,
                           double width)
{
    const double em = qk__em(figure), beside = 34 * em; /* the sample, and to the next entry */
    qk__legend legend = {.count = count, .columns = 1, .characters = 4, .entries = entries};
    double room = (width - beside) / qk__text_width(figure, 1);
    if (room > 4)
        legend.characters = room < MAX_LABEL ? (size_t)room : MAX_LABEL;
    size_t longest = 1;
    for (size_t i = 0; i < count; i++) {
        size_t characters = qk__count_columns(entries[i].name);
        longest = characters > longest ? characters : longest;
    }
    if (longest > legend.characters)
        longest = legend.characters;
    legend.column_width = beside + qk__text_width(figure, longest);
    if (width > 2 * legend.column_width)
        legend.columns = (size_t)(width / legend.column_width);
    if (legend.columns > count || legend.columns == 0)
        legend.columns = count > 0 ? count : 1;
    size_t rows = (count + legend.columns - 1) / legend.columns;
    legend.height = (double)rows * LEGEND_ROW * em;
    return legend;
}

void qk__put_legend(qk__figure *figure, const qk__legend *legend, double x, double y)
{
    const double em = qk__em(figure);
    double left = x - ((double)legend->columns * legend->column_width - 24 * em) / 2;
    for (size_t i = 0; i < legend->count; i++) {
        const qk__entry *entry = &legend->entries[i];
        size_t row = i / legend->columns, column = i % legend->columns;
        double at = left + (double)column * legend->column_width;
        double down = 1 - (y + ((double)row + 0.5) * LEGEND_ROW * em) / figure->height;
        qk__figure_print(figure,
                         "set label %s at screen %.5f,%.5f left offset 1,0 tc rgb '%s' "
                         "font small point pt %d ps %g lc rgb '%s'\n",
                         qk__brief(figure, entry->name, (int)legend->characters),
                         at / figure->width, down, figure->theme->ink, entry->point,
                         entry->point == QK__AREA ? 1.2 : 0.9, entry->color);
        if (entry->point == QK__LINE)
            qk__figure_print(figure,
                             "set arrow from screen %.5f,%.5f to screen %.5f,%.5f nohead lw 2 "
                             "lc rgb '%s'\n",
                             (at - 16 * em) / figure->width, down,
                             (at + 6 * em) / figure->width, down, entry->color);
    }
}

int qk__color_group(const qk__results *results, const qk__result_model *model)
{
    return results->checkpoints ? model->phase_index : model->family_index;
}

size_t qk__color_groups(const qk__results *results, const char *const **names)
{
    *names = results->checkpoints ? results->phases : results->families;
    return results->checkpoints ? results->num_phases : results->num_families;
}

size_t qk__series_entries(const qk__figure *figure, const char *const *names, size_t count,
                          qk__entry entries[QK__MAX_ENTRIES])
{
    size_t i = 0;
    for (; i < count && i < QK__MAX_ENTRIES; i++)
        entries[i] = (qk__entry){names[i], qk__series_color(figure->theme, (int)i), QK__AREA};
    return i;
}

/* ---- numbers ---------------------------------------------------------------------------- */

qk__power qk__power_of(double largest)
{
    qk__power power = {0, 1, ""};
    if (!(largest > 0) || !isfinite(largest))
        return power;
    power.exponent = -3 * (int)floor(log10(largest / 0.2) / 3);
    power.factor = pow(10, power.exponent);
    if (!isfinite(power.factor) || !(power.factor > 0))
        return (qk__power){0, 1, ""};
    if (power.exponent != 0)
        snprintf(power.text, sizeof power.text, " × 10^{%s%d}", power.exponent < 0 ? "−" : "",
                 power.exponent < 0 ? -power.exponent : power.exponent);
    return power;
}

/* 1, 2 or 5 times a power of ten. */
static double round_step(double step)
{
    double unit = pow(10, floor(log10(step))), times = step / unit;
    return unit * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

void qk__set_range(qk__figure *figure, char axis, double low, double high, int count)
{
    if (!(high - low > 1e-9 * fmax(fabs(low), fabs(high)))) {
        double margin = low != 0 ? 0.2 * fabs(low) : 1;
        low -= margin;
        high += margin;
    }
    qk__figure_print(figure, "set %crange [%.9g:%.9g]\nset %ctics %.9g font small\n", axis, low,
                     high, axis, round_step((high - low) / count));
}

qk__spread qk__figure_spread(qk__figure *figure, const qk__result_model *model,
                             const char *field, bool magnitude)
{
    qk__spread spread = {0, NAN, NAN, NAN, NAN, NAN};
    if (figure->status == QK_OK)
        figure->status =
            qk__spread_of(model, qk__find_field(field), magnitude, &spread, &figure->err);
    return spread;
}

bool qk__has_field(const qk__results *results, const char *name)
{
    const qk__field *field = qk__find_field(name);
    for (size_t m = 0; field && m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++)
            if (isfinite(qk__field_value(field, &results->models[m].heads[h].v)))
                return true;
    return false;
}

/* ---- depth ------------------------------------------------------------------------------ */

bool qk__start_depth_map(qk__figure *figure, const qk__results *results, qk__depth_map *map)
{
    static const char *const DEPTHS[QK__DEPTH_BINS] = {"0.0", "0.1", "0.2", "0.3", "0.4",
                                                       "0.5", "0.6", "0.7", "0.8", "0.9"};
    size_t rows = results->num_models;
    *map = (qk__depth_map){
        .results = results,
        .values = qk__figure_alloc(figure, rows, QK__DEPTH_BINS * sizeof *map->values),
        .labels = qk__figure_alloc(figure, rows, sizeof *map->labels)};
    map->heatmap = (qk__heatmap){.rows = rows,
                                 .columns = QK__DEPTH_BINS,
                                 .values = map->values,
                                 .row_labels = map->labels,
                                 .column_labels = DEPTHS};
    for (size_t m = 0; map->labels && m < rows; m++)
        map->labels[m] = results->models[m].label;
    return map->values && map->labels;
}

void qk__fill_depth_map(qk__depth_map *map, const char *field, bool magnitude)
{
    for (size_t m = 0; m < map->heatmap.rows; m++)
        qk__by_depth(&map->results->models[m], qk__find_field(field), magnitude,
                     map->values + m * QK__DEPTH_BINS);
}

void qk__free_depth_map(qk__depth_map *map)
{
    free(map->values);
    free(map->labels);
}
