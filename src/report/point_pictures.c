/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts sheets of many heads into pictures of one. */
#include "report/point_pictures.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "figure/figure.h"
#include "report/thumbnail.h"

enum {
    ROOM = 20000, /* bytes on the page that the pictures of a head take, on average */
    MAX_FILE = 64 << 20,
};

/* How small a picture is made, and how many shades of blue and of red it has, the best first. */
static const struct {
    size_t divisor;
    int shades;
} SIZES[] = {{2, 15}, {2, 7}, {3, 7}, {4, 3}};
enum { NUM_SIZES = sizeof SIZES / sizeof *SIZES };

typedef struct sheet {
    qk__points_plane *plane;
    size_t figure; /* of its cells */
} sheet;

typedef struct cutting {
    const char *staging;
    sheet *sheets;
    size_t count, size; /* size: of SIZES */
} cutting;

/* Colours say positions: so all pictures have the same ones, whatever is frequent in them. */
static qk__palette palette_of(int shades)
{
    qk__palette palette = {.count = 1 + 2 * shades, .colors = {{255, 255, 255}}};
    for (int i = 0; i < shades; i++) {
        double x = (i + 0.5) / shades;
        qk_ramp_color(QK_RAMP_BLUES, x, palette.colors[1 + i]);
        qk_ramp_color(QK_RAMP_REDS, x, palette.colors[1 + shades + i]);
    }
    return palette;
}

static void cut_cell(const qk__pixels *pixels, const qk__head_cell *cell, size_t size,
                     qk__buffer *picture)
{
    const size_t width = pixels->width / QK__SHEET, rows = pixels->width * QK__CELL_HEIGHT;
    const size_t height = rows / (QK__SHEET * QK__CELL_WIDTH);
    const qk__palette palette = palette_of(SIZES[size].shades);
    qk__pixels one;
    if (!qk__pixels_cut(pixels, cell->cell % QK__SHEET * width, cell->cell / QK__SHEET * height,
                        width, height, &one))
        return;
    (void)qk__pixels_write(&one, SIZES[size].divisor, &palette, picture);
    qk__pixels_free(&one);
}

static void cut_sheet(void *context, size_t i, int worker)
{
    (void)worker;
    const cutting *all = context;
    qk__points_plane *plane = all->sheets[i].plane;
    char *path =
        qk__format("%s/%s.png", all->staging, plane->cells.figures[all->sheets[i].figure]);
    qk__buffer file = {0};
    qk__pixels pixels = {0};
    if (path && qk__read_file(path, MAX_FILE, &file, NULL) == QK_OK &&
        qk__pixels_read(&file, &pixels))
        for (size_t c = 0; c < plane->cells.count; c++) {
            const qk__head_cell *cell = &plane->cells.items[c];
            if (cell->figure != all->sheets[i].figure || cell->why)
                continue;
            qk__buffer_free(&plane->pictures[c]);
            cut_cell(&pixels, cell, all->size, &plane->pictures[c]);
        }
    qk__pixels_free(&pixels);
    qk__buffer_free(&file);
    free(path);
}

/* As base64. */
static size_t picture_bytes(const qk__buffer *picture)
{
    return (picture->size + 2) / 3 * 4;
}

/* Of one head; whether it has any. */
static bool count_planes(qk__points *points, qk__stage_points *of, size_t i, size_t room)
{
    bool any = false;
    for (int p = 0; p < QK__NUM_POINT_PLANES; p++) {
        qk__buffer *picture = &of->planes[p].pictures[i];
        if (points->bytes + picture_bytes(picture) > room)
            qk__buffer_free(picture);
        points->bytes += picture_bytes(picture);
        any |= picture->size > 0;
    }
    return any;
}

/* Sums up; pictures behind the room are dropped. */
static void count_pictures(qk__points *points, size_t room)
{
    points->bytes = points->shown = 0;
    for (size_t m = 0; m < points->num_models; m++) {
        qk__model_points *of = &points->models[m];
        of->shown = 0;
        for (int s = 0; s < QK__NUM_POINT_STAGES; s++)
            for (size_t i = 0; i < of->stages[s].planes[0].cells.count; i++) {
                const bool any = count_planes(points, &of->stages[s], i, room);
                of->shown += any && s == QK__POINTS_OWN;
            }
        points->shown += of->shown;
    }
}

static qk_status list_sheets(const qk__points *points, cutting *all, qk_error *err)
{
    for (int filled = 0; filled < 2; filled++) {
        all->count = 0;
        for (size_t m = 0; m < points->num_models; m++)
            for (int p = 0; p < QK__NUM_POINT_STAGES * QK__NUM_POINT_PLANES; p++) {
                qk__points_plane *plane = &points->models[m]
                                               .stages[p / QK__NUM_POINT_PLANES]
                                               .planes[p % QK__NUM_POINT_PLANES];
                for (size_t f = 0; f < plane->cells.num_figures; f++, all->count++)
                    if (filled)
                        all->sheets[all->count] = (sheet){plane, f};
            }
        if (!filled && !(all->sheets = qk__calloc(all->count + 1, sizeof *all->sheets)))
            return qk__nomem(err);
    }
    return QK_OK;
}

qk_status qk__points_cut(qk__points *points, const char *staging, int threads, qk_error *err)
{
    cutting all = {.staging = staging};
    size_t room = 0;
    for (size_t m = 0; m < points->num_models; m++)
        room += ROOM * points->models[m].stages[QK__POINTS_OWN].planes[0].cells.count;
    QK_TRY(list_sheets(points, &all, err));
    for (all.size = 0; all.size < NUM_SIZES; all.size++) {
        qk__parallel_for(all.count, threads, cut_sheet, &all);
        count_pictures(points, SIZE_MAX);
        if (points->bytes <= room)
            break;
    }
    count_pictures(points, room);
    free(all.sheets);
    return QK_OK;
}
