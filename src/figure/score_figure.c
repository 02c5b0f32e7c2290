/* SPDX-License-Identifier: Apache-2.0 */
/* A number of the models against a score from elsewhere (a benchmark): a point per model. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "figure/catalog.h"
#include "figure/label_places.h"
#include "figure/sheet.h"

enum { MIN_POINTS = 3, MAX_NAME = 28, AXIS_LINE = 15 };

typedef struct point {
    double x, y;
    const char *label, *family;
    int family_index;
} point;

/* ---- what is drawn ---------------------------------------------------------------------- */

/* The study's families keep their colours, others get the next ones. */
static int family_of(const qk__score_pairing *pair, const point *points, size_t count,
                     const char *name)
{
    const qk__results *results = pair->results;
    int next = (int)results->num_families;
    for (size_t f = 0; f < results->num_families; f++)
        if (strcmp(results->families[f], name) == 0)
            return (int)f;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(points[i].family, name) == 0)
            return points[i].family_index;
        if (points[i].family_index >= next)
            next = points[i].family_index + 1;
    }
    return next;
}

/* Whether axes can show it. */
static bool is_usable(double value)
{
    return isfinite(value) && fabs(value) < 1e100;
}

/* Models with both numbers; points may be NULL to count them. */
static size_t find_points(const qk__score_pairing *pair, point *points)
{
    const qk__results *results = pair->results;
    size_t count = 0;
    for (size_t i = 0; i < results->num_scores; i++) {
        const qk__score *score = &results->scores[i];
        const qk__result_model *model = qk__scored_model(results, score);
        double x = qk__scored_metric(pair, score), y = score->values[pair->y_column];
        if (!is_usable(x) || !is_usable(y))
            continue;
        if (points) {
            const char *family = *score->family ? score->family : model ? model->family : "";
            points[count] = (point){x, y, model ? model->label : score->model, family,
                                    family_of(pair, points, count, family)};
        }
        count++;
    }
    return count;
}

static bool find_pairing(const qk__subject *subject, qk__score_pairing *pair)
{
    return qk__pair_scores(subject->results, subject->score_metric, subject->score_column,
                           pair);
}

bool qk__has_scores(const qk__subject *subject)
{
    qk__score_pairing pair;
    return find_pairing(subject, &pair) && find_points(&pair, NULL) >= MIN_POINTS;
}

/* ---- the plot --------------------------------------------------------------------------- */

typedef struct plot {
    qk__place place;
    qk__range x, y; /* of the axes */
    qk__line line;
    qk__lines across;       /* what the axis shows, */
    char up[QK__LINE_SIZE]; /* and the other */
} plot;

static void add_margin(qk__range *range)
{
    double margin = 0.09 * (range->high - range->low);
    if (!(margin > 0))
        margin = fmax(0.1 * fabs(range->low), 1e-9);
    range->low -= margin;
    range->high += margin;
}

/* Ranges that hold points and line; the points and the ends of the line as data. */
static void add_scored_points(qk__figure *figure, const point *points, size_t count, plot *p)
{
    double *xy = qk__figure_alloc(figure, 2 * count, sizeof *xy);
    if (!xy)
        return;
    p->x = p->y = QK__NO_RANGE;
    for (size_t i = 0; i < count; i++) {
        qk__range_add(&p->x, xy[i] = points[i].x);
        qk__range_add(&p->y, xy[count + i] = points[i].y);
        qk__figure_row(figure, points[i].x, points[i].y, (double)points[i].family_index);
    }
    qk__figure_end_block(figure);
    p->line = qk__fit_line(xy, xy + count, count);
    for (int end = 0; end < 2 && isfinite(p->line.slope); end++) {
        double x = end == 0 ? p->x.low : p->x.high, y = p->line.start + p->line.slope * x;
        qk__range_add(&p->y, y);
        qk__figure_row(figure, x, y);
    }
    qk__figure_end_block(figure);
    add_margin(&p->x);
    add_margin(&p->y);
}

static double pixel_x(const plot *p, double x)
{
    return p->place.left + p->place.width * (x - p->x.low) / (p->x.high - p->x.low);
}

static double pixel_y(const plot *p, double y)
{
    return p->place.top + p->place.height * (p->y.high - y) / (p->y.high - p->y.low);
}

static void print_name(qk__figure *figure, const qk__name_place *name, const point *of)
{
    const qk__box *box = &name->box;
    const char *align = "center";
    double x = (box->left + box->right) / 2, y = (box->top + box->bottom) / 2;
    if (name->apart) /* to the nearest point of the box */
        qk__figure_print(
            figure,
            "set arrow from first %.9g, first %.9g to screen %.5f, screen %.5f nohead back "
            "lc rgb '%s' lw 0.6\n",
            of->x, of->y, fmin(fmax(name->x, box->left), box->right) / figure->width,
            1 - fmin(fmax(name->y, box->top), box->bottom) / figure->height,
            figure->theme->muted);
    if (box->left >= name->x || box->right <= name->x) { /* its width is a guess */
        align = box->left >= name->x ? "left" : "right";
        x = box->left >= name->x ? box->left + 2 : box->right - 2;
    }
    qk__figure_print(figure,
                     "set label %s at screen %.5f,%.5f %s front font small "
                     "tc rgb '%s'\n",
                     qk__brief(figure, of->label, MAX_NAME), x / figure->width,
                     1 - y / figure->height, align, figure->theme->ink);
}

/* Names of the points; those without room are left out. */
static void add_names(qk__figure *figure, const point *points, size_t count, const plot *p)
{
    const double em = qk__em(figure);
    qk__name_place *names = qk__figure_alloc(figure, count, sizeof *names);
    if (!names)
        return;
    for (size_t i = 0; i < count; i++) {
        size_t length = qk__count_columns(points[i].label);
        names[i] = (qk__name_place){
            .x = pixel_x(p, points[i].x),
            .y = pixel_y(p, points[i].y),
            .width = qk__text_width(figure, length < MAX_NAME ? length : MAX_NAME) + 4 * em,
            .height = 14 * em};
    }
    const qk__box frame = {p->place.left + 3, p->place.top + 3,
                           p->place.left + p->place.width - 3,
                           p->place.top + p->place.height - 3};
    const double x[2] = {frame.left, frame.right};
    double line[4];
    bool has_line = isfinite(p->line.slope);
    for (int end = 0; has_line && end < 2; end++) {
        double value =
            p->x.low + (x[end] - p->place.left) / p->place.width * (p->x.high - p->x.low);
        line[2 * end] = x[end];
        line[2 * end + 1] = pixel_y(p, p->line.start + p->line.slope * value);
    }
    qk__place_names(names, count, 6 * em, &frame, has_line ? line : NULL);
    for (size_t i = 0; i < count; i++)
        if (names[i].shown)
            print_name(figure, &names[i], &points[i]);
}

/* ---- names of columns ----------------------------------------------------------------------- */

/* "longbench_pro_overall" as "LongBench Pro Overall"; what has capitals or spaces is as its author wants it. */
static void spell_column(const char *column, char out[QK__LINE_SIZE])
{
    static const char *const KNOWN[] = {"GSM8K", "HellaSwag", "LongBench", "MMLU", "RULER"};
    snprintf(out, QK__LINE_SIZE, "%s", column);
    for (const char *c = column; *c; c++)
        if (isupper((unsigned char)*c) || *c == ' ')
            return;
    for (char *word = out, *end; *word; word = end + (*end != 0)) {
        end = word + strcspn(word, "_");
        *word = (char)toupper((unsigned char)*word);
        for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
            if (strlen(KNOWN[i]) == (size_t)(end - word) &&
                strncasecmp(KNOWN[i], word, strlen(KNOWN[i])) == 0)
                memcpy(word, KNOWN[i], strlen(KNOWN[i]));
        if (*end)
            *end = ' ';
    }
}

/* A column that the tables have, too, is called as there. */
static void name_metric(const qk__score_pairing *pair, char out[QK__LINE_SIZE])
{
    if (pair->field)
        snprintf(out, QK__LINE_SIZE, "%s", pair->field->info.label);
    else
        spell_column(pair->metric, out);
    out[0] = (char)toupper((unsigned char)out[0]);
}

/* ---- around it -------------------------------------------------------------------------- */

/* Families in order of appearance; returns how many. */
static size_t list_families(const qk__figure *figure, const point *points, size_t count,
                            qk__entry entries[QK__MAX_ENTRIES])
{
    size_t families = 0;
    for (size_t i = 0; i < count && families < QK__MAX_ENTRIES; i++) {
        bool known = *points[i].family == '\0';
        for (size_t j = 0; j < i; j++)
            known |= points[j].family_index == points[i].family_index;
        if (!known)
            entries[families++] = (qk__entry){
                points[i].family, qk__series_color(figure->theme, points[i].family_index),
                qk__series_point(points[i].family_index)};
    }
    return families;
}

static void set_score_labels(qk__figure *figure, const plot *p, size_t count)
{
    const double em = qk__em(figure);
    char r[80] = "r undefined", value[QK__NUMBER_TEXT];
    if (isfinite(p->line.r))
        snprintf(r, sizeof r, "{/:Italic r} = %s", qk__number_text(value, "%.2f", p->line.r));
    for (size_t i = 0; i < p->across.count; i++)
        qk__put_text(figure, qk__figure_quote_line(figure, p->across.text[i]),
                     p->place.left + p->place.width / 2,
                     p->place.top + p->place.height + (38 + AXIS_LINE * (double)i) * em,
                     QK__CENTRED);
    qk__put_text(figure, qk__figure_quote(figure, p->up), 14 * em,
                 p->place.top + p->place.height / 2, QK__TURNED);
    qk__figure_print(
        figure,
        "set style textbox opaque noborder fillcolor rgb '%s' margins 1.5,1.2\n"
        "set label '%s,  {/:Italic n} = %zu' at screen %.5f,%.5f right front boxed "
        "tc rgb '%s'\n",
        figure->theme->box, r, count, (p->place.left + p->place.width - 8 * em) / figure->width,
        1 - (p->place.top - 14 * em) / figure->height, figure->theme->ink);
}

/* The points of a family at a time, since each has its own sign. */
static void draw_points(qk__figure *figure, const point *points, size_t count)
{
    qk__figure_print(figure, "plot data index 1 using 1:2 with lines ls 103");
    for (size_t i = 0; i < count; i++) {
        int family = points[i].family_index;
        bool drawn = false;
        for (size_t j = 0; j < i; j++)
            drawn |= points[j].family_index == family;
        if (!drawn)
            qk__figure_print(figure,
                             ", data index 0 using ($3==%d ? $1 : NaN):2 with points pt %d "
                             "ps 1.3 lc rgb '%s'",
                             family, qk__series_point(family),
                             qk__series_color(figure->theme, family));
    }
    qk__figure_print(figure, "\n");
}

static void draw_scores(qk__figure *figure, const qk__score_pairing *pair, const point *points,
                        size_t count)
{
    qk__entry entries[QK__MAX_ENTRIES];
    size_t num_families = list_families(figure, points, count, entries);
    char heading[2 * QK__LINE_SIZE + 16], metric[QK__LINE_SIZE];
    plot p;
    name_metric(pair, metric);
    spell_column(pair->results->score_columns[pair->y_column], p.up);
    snprintf(heading, sizeof heading, "%s against %s", metric, p.up);
    qk__set_heading(figure, pair->results, NULL, heading);
    figure->heading.plain = true; /* a column of a file names it */
    snprintf(heading, sizeof heading, "%s (%s)", metric,
             pair->from_scores ? "from the score file" : "mean over heads");
    double room = (figure->width - 70 * qk__em(figure)) / qk__text_width(figure, 1);
    qk__break_lines(heading, false, (size_t)fmax(2, room * QK__SMALL), 3, &p.across);
    qk__sheet sheet = {.count = 1,
                       .left = 84,
                       .right = 26,
                       .above = 30,
                       .height = 420,
                       .square = true,
                       .below = 39 + AXIS_LINE * (double)p.across.count,
                       .entries = entries,
                       .num_entries = num_families};
    qk__begin_sheet(figure, &sheet);
    p.place = sheet.first;
    add_scored_points(figure, points, count, &p);
    qk__put_panel(figure, &p.place);
    qk__set_range(figure, 'x', p.x.low, p.x.high,
                  (int)fmax(2, fmin(8, p.place.width / (60 * qk__em(figure)))));
    qk__set_range(figure, 'y', p.y.low, p.y.high, 7);
    qk__figure_print(figure, "set grid x y back\n");
    set_score_labels(figure, &p, count);
    add_names(figure, points, count, &p);
    draw_points(figure, points, count);
    qk__end_sheet(figure);
}

void qk__build_scores(qk__figure *figure, const qk__subject *subject)
{
    qk__score_pairing pair;
    if (!find_pairing(subject, &pair))
        return;
    size_t count = find_points(&pair, NULL);
    point *points = qk__figure_alloc(figure, count, sizeof *points);
    if (!points)
        return;
    find_points(&pair, points);
    draw_scores(figure, &pair, points, count);
}
