/* SPDX-License-Identifier: Apache-2.0 */
/* plot-plasticity, a command of the original tool: its settings, and the picture of a table of
 * buckets. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analysis/published.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "figure/bucket_plot.h"
#include "base/csv_reader.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_plot_settings, member)

static const qk_word TYPES[] = {{"uniform", QK_BUCKETS_UNIFORM}, {"log", QK_BUCKETS_LOG}, {0}};

static const qk_setting ROWS[] = {
    {"bucket_csv", QK_SETTING_PATH, AT(bucket_csv), .value = "FILE", .help = "the table",
     .section = "Files", .yaml = "bucket_csv"},
    {"output", QK_SETTING_PATH, AT(output), .text = "plasticity.png", .value = "FILE",
     .help = "picture: .png, .svg or .pdf", .section = "Files", .yaml = "output"},
    {"model_name", QK_SETTING_TEXT, AT(model_name), .value = "NAME",
     .help = "name in the title", .section = "Figure", .yaml = "model_name"},
    {"alpha", QK_SETTING_REAL, AT(alpha), .number = 0.25, .min = 0, .max = 1, .value = "A",
     .help = "opacity of the lines of heads", .section = "Figure", .yaml = "alpha"},
    {"line_width", QK_SETTING_REAL, AT(line_width), .number = 0.8, .min = 0, .max = 1e12,
     .value = "W", .unit = "points", .help = "width of these lines", .section = "Figure",
     .yaml = "line_width"},
    {"bucket_type", QK_SETTING_CHOICE, AT(bucket_type), .words = TYPES,
     .help = "uniform: bucket b lies at (b + 1/2) times the size; log: at 2^(b + 1/2) times it",
     .section = "Figure", .yaml = "bucket_type"},
    {"bucket_min_size", QK_SETTING_REAL, AT(bucket_min_size), .number = 1, .min = 1e-12,
     .max = 1e12, .value = "N", .unit = "tokens", .help = "size of a bucket, for --bucket_type",
     .section = "Figure", .yaml = "bucket_min_size"},
    {"color_by_layer", QK_SETTING_FLAG, AT(color_by_layer), .help = "colours by layer",
     .off = "no-color_by_layer", .off_help = "one colour, whatever the file says",
     .section = "Figure", .yaml = "color_by_layer"},
    {"color_trend", QK_SETTING_FLAG, AT(color_trend),
     .help = "colours by slope: rising, falling, flat", .off = "no-color_trend",
     .off_help = "one colour, whatever the file says", .section = "Figure",
     .yaml = "color_trend"},
    {"trend_threshold", QK_SETTING_REAL, AT(trend_threshold), .number = 1e-4, .min = 1e-300,
     .max = 1e12, .value = "S", .help = "slope from which a head counts as rising or falling",
     .section = "Figure", .yaml = "trend_threshold"},
    {"cmap", QK_SETTING_TEXT, AT(cmap), .text = "viridis", .value = "MAP",
     .help = "colours of the layers: viridis, magma, Blues, Reds or YlOrRd",
     .section = "Figure", .yaml = "cmap"},
};

const qk_settings_table qk_plot_settings_table = {QK_SETTINGS_ROWS(qk_plot_settings, ROWS)};

void qk_plot_settings_default(qk_plot_settings *settings)
{
    qk__settings_default(&qk_plot_settings_table, settings);
}

qk_status qk_published_load_plot(qk_published **file, const char *path,
                                 qk_plot_settings *settings, qk_error *err)
{
    QK_NEED(err, file);
    *file = NULL;
    QK_NEED(err, path, settings);
    qk_plot_settings_default(settings);
    return qk__published_read(file, path, &qk_plot_settings_table, (qk__keys){0}, settings,
                              err);
}

/* ---- the table -------------------------------------------------------------------------- */

typedef struct points {
    qk__buffer memory; /* of qk__bucket_point */
    size_t count;
} points;

static qk__bucket_point *items(const points *p)
{
    return (qk__bucket_point *)(void *)p->memory.data;
}

/* Rows without a value have nothing to show. */
static qk_status read_row(qk__csv_reader *reader, const size_t columns[5], points *p,
                          qk_error *err)
{
    qk__bucket_point point = {0};
    int64_t *const places[4] = {&point.layer, &point.q_head, &point.k_head, &point.bucket};
    QK_TRY(qk__reader_number(reader, columns[4], &point.ap, err));
    if (isnan(point.ap))
        return QK_OK;
    for (int c = 0; c < 4; c++)
        QK_TRY(qk__reader_integer(reader, columns[c], INT32_MIN, INT32_MAX, places[c], err));
    p->count++;
    return qk__buffer_append(&p->memory, &point, sizeof point, err);
}

/* The column `bucket` is what older tables call it. */
static qk_status read_points(const char *path, points *p, qk_error *err)
{
    static const char *const NAMES[] = {"layer", "q_head", "k_head", "bucket", "ap_bucket"};
    size_t columns[5];
    bool more;
    qk__csv_reader *reader;
    QK_TRY(qk__reader_open(&reader, path, err));
    qk_status status = QK_OK;
    for (int c = 0; c < 5 && status == QK_OK; c++) {
        columns[c] = QK__NO_COLUMN;
        if (c == 3)
            status = qk__reader_find(reader, "q_bucket", false, &columns[c], err);
        if (status == QK_OK && columns[c] == QK__NO_COLUMN)
            status = qk__reader_find(reader, NAMES[c], true, &columns[c], err);
    }
    while (status == QK_OK && (status = qk__reader_next(reader, &more, err)) == QK_OK && more)
        status = read_row(reader, columns, p, err);
    qk__reader_close(&reader);
    if (status == QK_OK && p->count == 0)
        status =
            qk__fail(err, QK_ERR_DEGENERATE, "%s: no row has a value in 'ap_bucket'", path);
    return status;
}

static int compare_points(const void *a, const void *b)
{
    const qk__bucket_point *x = a, *y = b;
    const int64_t keys[4][2] = {{x->layer, y->layer},
                                {x->q_head, y->q_head},
                                {x->k_head, y->k_head},
                                {x->bucket, y->bucket}};
    for (int i = 0; i < 4; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return (x->ap > y->ap) - (x->ap < y->ap); /* sums do not depend on the order of rows */
}

/* Rows of the same head and query bucket become their mean. */
static void merge(points *p)
{
    qk__bucket_point *x = items(p);
    size_t kept = 0;
    qsort(x, p->count, sizeof *x, compare_points);
    for (size_t first = 0, end; first < p->count; first = end) {
        double sum = 0;
        for (end = first; end < p->count && x[end].layer == x[first].layer &&
                          x[end].q_head == x[first].q_head &&
                          x[end].k_head == x[first].k_head && x[end].bucket == x[first].bucket;
             end++)
            sum += x[end].ap;
        x[kept] = x[first];
        x[kept++].ap = sum / (double)(end - first);
    }
    p->count = kept;
}

/* ---- drawing ---------------------------------------------------------------------------- */

static const qk__colormap *find_map(const char *name)
{
    const qk__colormap *const maps[] = {&qk__viridis, &qk__magma, &qk__blues, &qk__reds,
                                        &qk__ylorrd};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (strcasecmp(maps[i]->name, name) == 0)
            return maps[i];
    return NULL;
}

/* Folder, name and format of a picture. */
static qk_status split_output(const char *path, char **folder, char name[80], unsigned *format,
                              qk_error *err)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t length = dot ? (size_t)(dot - base) : 0;
    if (!dot || qk_figure_formats_parse(dot + 1, format, err) != QK_OK)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "output %s: expected a name that ends in .png, "
                        ".svg or .pdf",
                        path);
    snprintf(name, 80, "%.*s", (int)(length < 80 ? length : 0), base);
    if (*name == '-' || !qk__is_figure_name(name))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "output %s: a picture's name is made of letters, digits and . _ -, at "
                        "most 79",
                        path);
    return qk__parent_folder(path, folder, err);
}

static qk_status check_plot_settings(const qk_plot_settings *s, qk_error *err)
{
    if (!s->bucket_csv)
        return qk__fail(err, QK_ERR_ARGUMENT, "bucket_csv is missing");
    if (s->color_by_layer && s->color_trend)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "color_by_layer and color_trend exclude each other");
    if (!(s->bucket_min_size > 0))
        return qk__fail(err, QK_ERR_ARGUMENT, "bucket_min_size must be above 0");
    if (!(s->trend_threshold > 0))
        return qk__fail(err, QK_ERR_ARGUMENT, "trend_threshold must be above 0");
    if (s->color_by_layer && !find_map(s->cmap))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "cmap %s: expected viridis, magma, Blues, Reds or YlOrRd", s->cmap);
    return QK_OK;
}

static qk_status draw_plot(const qk_plot_settings *s, const points *p, size_t *num_heads,
                           qk_error *err)
{
    char *folder, name[80];
    qk_figure_settings figures;
    qk_figure_settings_default(&figures);
    figures.theme = s->theme;
    figures.gnuplot = s->gnuplot;
    QK_TRY(split_output(s->output, &folder, name, &figures.formats, err));
    const qk__bucket_plot plot = {.points = items(p),
                                  .count = p->count,
                                  .model_name = s->model_name,
                                  .alpha = s->alpha,
                                  .line_width = s->line_width,
                                  .log_buckets = s->bucket_type == QK_BUCKETS_LOG,
                                  .bucket_min_size = s->bucket_min_size,
                                  .trend_threshold = s->color_trend ? s->trend_threshold : 0,
                                  .layers = s->color_by_layer ? find_map(s->cmap) : NULL};
    qk__figure figure;
    qk__figure_init(&figure, name, qk__theme_of(s->theme), 0, 0);
    *num_heads = qk__figure_buckets(&figure, &plot);
    qk_status status = qk__figure_draw(&figure, folder, &figures, err);
    qk__figure_free(&figure);
    free(folder);
    return status;
}

qk_status qk_plot_run(const qk_plot_settings *settings, size_t *num_heads, qk_error *err)
{
    QK_NEED(err, settings, num_heads);
    points p = {0};
    *num_heads = 0;
    QK_TRY(check_plot_settings(settings, err));
    qk_status status = read_points(settings->bucket_csv, &p, err);
    if (status == QK_OK) {
        merge(&p);
        status = draw_plot(settings, &p, num_heads, err);
    }
    qk__buffer_free(&p.memory);
    return status;
}
