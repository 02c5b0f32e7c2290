/* SPDX-License-Identifier: Apache-2.0 */
/* A number of the models against a score from elsewhere (a benchmark): a point per model. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "figure/catalog.h"
#include "figure/label_places.h"
#include "figure/sheet.h"

enum { MIN_POINTS = 3, MAX_NAME = 28 /* characters */, AXIS_LINE = 15 };

typedef struct point {
    double x, y;
    const char *label, *family;
    int family_index;
} point;

/* Columns of rows. */
enum { LABEL = 1, FAMILY, METRIC, VALUE, IN_FILE, SCORE };

/* ---- what is drawn ---------------------------------------------------------------------- */

/* A text in SQL; NULL for no text. */
static qk_status put_quoted(const char *text, qk__buffer *sql, qk_error *err)
{
    if (!text)
        return qk__buffer_printf(sql, err, "NULL");
    QK_TRY(qk__buffer_printf(sql, err, "'"));
    for (const char *c = text; *c; c++)
        QK_TRY(qk__buffer_append(sql, *c == '\'' ? "''" : c, *c == '\'' ? 2 : 1, err));
    return qk__buffer_printf(sql, err, "'");
}

/* The number of heads that the metric names, unless the score file has a column of that name. */
static const qk__field *field_of(const qk__subject *subject)
{
    const qk__field *field = qk__find_field(subject->score_metric);
    return field && field->use != QK__LISTED ? field : NULL;
}

/* Asks for the named score, or the first that is not the metric; and for the metric. */
qk_status qk__ask_scored(const qk__subject *subject, qk__buffer *sql, qk_error *err)
{
    const qk__field *field = field_of(subject);
    const char *const parts[] = {
        "WITH asked AS (SELECT *, metric IN (SELECT score FROM scores) AS in_file, "
        "coalesce(up, "
        "(SELECT score FROM scores WHERE score <> metric ORDER BY rowid LIMIT 1)) AS shown "
        "FROM "
        "(SELECT ",
        " AS metric, ",
        " AS up)) SELECT 0, coalesce(m.label, y.model), coalesce(nullif(y.family, ''), "
        "m.family), CASE WHEN in_file THEN x.value ELSE mean END AS x, y.value AS y, in_file, "
        "shown FROM "
        "asked JOIN scores y ON y.score = shown LEFT JOIN models m ON m.model = y.scored LEFT "
        "JOIN scores x ON x.model = y.model AND x.score = metric LEFT JOIN (SELECT model, avg(",
        ") AS mean FROM head_numbers GROUP BY model) h ON h.model = y.scored ORDER BY y.rowid"};
    QK_TRY(qk__buffer_printf(sql, err, "%s", parts[0]));
    QK_TRY(put_quoted(subject->score_metric, sql, err));
    QK_TRY(qk__buffer_printf(sql, err, "%s", parts[1]));
    QK_TRY(put_quoted(subject->score_column, sql, err));
    return qk__buffer_printf(sql, err, "%s%s%s", parts[2], field ? field->info.name : "NULL",
                             parts[3]);
}

/* The study's families keep their colours, other families get the next ones. */
static int family_of(const qk__results *results, const point *points, size_t count,
                     const char *name)
{
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
static size_t find_points(const qk__subject *subject, point *points)
{
    const qk__found *rows = &subject->rows;
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const double x = qk__number_in(rows, i, METRIC), y = qk__number_in(rows, i, VALUE);
        const char *family = qk__text_in(rows, i, FAMILY);
        if (!is_usable(x) || !is_usable(y))
            continue;
        family = family ? family : "";
        if (points)
            points[count] = (point){x, y, qk__text_in(rows, i, LABEL), family,
                                    family_of(subject->results, points, count, family)};
        count++;
    }
    return count;
}

bool qk__has_scores(const qk__subject *subject)
{
    return find_points(subject, NULL) >= MIN_POINTS;
}

/* ---- the plot --------------------------------------------------------------------------- */

typedef struct plot {
    qk__plot at;
    qk__range x, y; /* of the axes */
    qk__line line;
    qk__lines across;       /* what the horizontal axis shows, */
    char up[QK__LINE_SIZE]; /* and the vertical one */
} plot;

static void add_margin(qk__range *range)
{
    double margin = 0.09 * (range->high - range->low);
    if (!(margin > 0))
        margin = fmax(0.1 * fabs(range->low), 1e-9);
    range->low -= margin;
    range->high += margin;
}

/* Finds ranges that include points and line. */
static void find_line(qk__figure *figure, const point *points, size_t count, plot *p)
{
    double *xy = qk__figure_alloc(figure, 2 * count, sizeof *xy);
    if (!xy)
        return;
    p->x = p->y = QK__NO_RANGE;
    for (size_t i = 0; i < count; i++) {
        qk__range_add(&p->x, xy[i] = points[i].x);
        qk__range_add(&p->y, xy[count + i] = points[i].y);
        qk__tell_point(figure, NULL, qk__figure_escape(figure, points[i].label), points[i].x,
                       points[i].y);
    }
    p->line = qk__fit_line(xy, xy + count, count);
    for (int end = 0; end < 2 && isfinite(p->line.slope); end++) {
        double x = end == 0 ? p->x.low : p->x.high, y = p->line.start + p->line.slope * x;
        qk__range_add(&p->y, y);
    }
    add_margin(&p->x);
    add_margin(&p->y);
}

static void put_point_name(qk__figure *figure, const qk__name_place *name, const char *label)
{
    const qk__box *box = &name->box;
    double x = (box->left + box->right) / 2, y = (box->top + box->bottom) / 2;
    unsigned how = QK__SMALL_TYPE;
    if (name->apart) /* to the nearest point of the box */
        qk__draw_line(&figure->canvas, name->x, name->y,
                      fmin(fmax(name->x, box->left), box->right),
                      fmin(fmax(name->y, box->top), box->bottom),
                      (qk__pen){.stroke = figure->theme->muted, .width = 0.6});
    if (box->left >= name->x || box->right <= name->x) { /* its width is a guess */
        how |= box->left >= name->x ? QK__RIGHT_OF : QK__LEFT_OF;
        x = box->left >= name->x ? box->left + 2 : box->right - 2;
    }
    qk__put_text(figure, label, x, y, how);
}

/* Names the points; names without room are left out. */
static void add_names(qk__figure *figure, const point *points, size_t count, const plot *p)
{
    const double em = qk__em(figure);
    qk__name_place *names = qk__figure_alloc(figure, count, sizeof *names);
    const char **labels = qk__figure_alloc(figure, count, sizeof *labels);
    if (!names || !labels)
        return;
    for (size_t i = 0; i < count; i++) {
        labels[i] = qk__brief(figure, points[i].label, qk__text_width(figure, MAX_NAME));
        names[i] = (qk__name_place){.x = qk__at_x(&p->at, points[i].x),
                                    .y = qk__at_y(&p->at, points[i].y),
                                    .width = qk__markup_width(figure, labels[i]) + 4 * em,
                                    .height = 14 * em};
    }
    const qk__box frame = {p->at.left + 3, p->at.top + 3, p->at.left + p->at.width - 3,
                           p->at.top + p->at.height - 3};
    const double x[2] = {frame.left, frame.right};
    double line[4];
    bool has_line = isfinite(p->line.slope);
    for (int end = 0; has_line && end < 2; end++) {
        double value = p->x.low + (x[end] - p->at.left) / p->at.width * (p->x.high - p->x.low);
        line[2 * end] = x[end];
        line[2 * end + 1] = qk__at_y(&p->at, p->line.start + p->line.slope * value);
    }
    qk__place_names(names, count, 6 * em, &frame, has_line ? line : NULL);
    for (size_t i = 0; i < count; i++)
        if (names[i].shown)
            put_point_name(figure, &names[i], labels[i]);
}

/* ---- names of columns ----------------------------------------------------------------------- */

/* "longbench_pro_overall" becomes "LongBench Pro Overall"; a name with capitals or spaces stays as its author wrote
 * it. */
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

/* A column that the tables have, too, keeps their name for it. */
static void name_metric(const qk__subject *subject, char out[QK__LINE_SIZE])
{
    const qk__field *field = field_of(subject);
    if (field)
        snprintf(out, QK__LINE_SIZE, "%s", field->info.label);
    else
        spell_column(subject->score_metric, out);
    out[0] = (char)toupper((unsigned char)out[0]);
}

/* ---- around it -------------------------------------------------------------------------- */

/* Families in order of appearance; returns their number. */
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
                (int)qk__series_sign(points[i].family_index), 0};
    }
    return families;
}

static void put_score_labels(qk__figure *figure, const plot *p, size_t count)
{
    const double em = qk__em(figure), right = p->at.left + p->at.width;
    char r[80] = "<i>r</i> undefined", value[QK__NUMBER_TEXT];
    if (isfinite(p->line.r))
        snprintf(r, sizeof r, "<i>r</i> = %s", qk__number_text(value, "%.2f", p->line.r));
    for (size_t i = 0; i < p->across.count; i++)
        qk__put_text(figure, qk__figure_escape(figure, p->across.text[i]),
                     p->at.left + p->at.width / 2,
                     p->at.top + p->at.height + (38 + AXIS_LINE * (double)i) * em, QK__CENTRED);
    qk__put_text(figure, qk__brief(figure, p->up, QK__SMALL * p->at.height), 14 * em,
                 p->at.top + p->at.height / 2, QK__TURNED);
    qk__put_text(figure, qk__figure_format(figure, "%s,  <i>n</i> = %zu", r, count),
                 right - 8 * em, p->at.top - 14 * em, QK__LEFT_OF);
}

static void draw_scores(qk__figure *figure, const qk__subject *subject, const point *points,
                        size_t count)
{
    qk__entry entries[QK__MAX_ENTRIES];
    size_t num_families = list_families(figure, points, count, entries);
    char heading[2 * QK__LINE_SIZE + 16], metric[QK__LINE_SIZE];
    plot p;
    name_metric(subject, metric);
    spell_column(qk__text_in(&subject->rows, 0, SCORE), p.up);
    snprintf(heading, sizeof heading, "%s against %s", metric, p.up);
    qk__set_heading(figure, subject->results, NULL, heading);
    figure->heading.plain = true; /* a column of a file names it */
    snprintf(heading, sizeof heading, "%s (%s)", metric,
             qk__number_in(&subject->rows, 0, IN_FILE) > 0 ? "from the score file"
                                                           : "mean over heads");
    qk__break_lines(heading, false, figure->width - 70 * qk__em(figure),
                    figure->theme->font_size, 3, &p.across);
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
    const double em = qk__em(figure);
    const qk__tic_style style = {.length = 4 * em, .grid = true};
    p.at = qk__figure_plot(figure, &sheet.first);
    find_line(figure, points, count, &p);
    p.at.x = qk__axis_between(p.x.low, p.x.high);
    p.at.y = qk__axis_between(p.y.low, p.y.high);
    qk__number_tics(&p.at, QK__BELOW, 70 * em, 0, style);
    qk__number_tics(&p.at, QK__LEFT, 50 * em, 0, style);
    qk__draw_sides(&p.at, 1u << QK__BELOW | 1u << QK__LEFT);
    put_score_labels(figure, &p, count);
    const double x[2] = {p.x.low, p.x.high};
    const double y[2] = {p.line.start + p.line.slope * x[0],
                         p.line.start + p.line.slope * x[1]};
    qk__begin_marks(&p.at);
    qk__draw_curve(&p.at, x, y, 2, qk__guide(figure));
    qk__end_marks(&p.at);
    for (size_t i = 0; i < count; i++)
        qk__draw_points(&p.at, &points[i].x, &points[i].y, 1,
                        qk__series_sign(points[i].family_index), 5.4 * em,
                        qk__series_color(figure->theme, points[i].family_index), 0);
    add_names(figure, points, count, &p);
}

void qk__build_scores(qk__figure *figure, const qk__subject *subject)
{
    size_t count = find_points(subject, NULL);
    point *points = qk__figure_alloc(figure, count, sizeof *points);
    if (!points)
        return;
    find_points(subject, points);
    draw_scores(figure, subject, points, count);
}
