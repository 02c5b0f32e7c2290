/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a picture of each head, as large as leaves room for all. */
#include "report/point_pictures.h"

#include "base/error.h"
#include "base/parallel.h"

enum { ROOM = 20000 /* bytes on the page that the pictures of a head take, on average */ };

/* How large a picture is, and how many shades of blue and of red it has, the best first. */
static const struct {
    size_t width, height;
    int shades;
} SIZES[] = {{400, 340, 15}, {300, 255, 7}, {200, 170, 7}, {150, 128, 3}};
enum { NUM_SIZES = sizeof SIZES / sizeof *SIZES };

typedef struct making {
    const qk__points *points;
    size_t size; /* of SIZES */
} making;

/* A plane of a model: all its heads. */
static qk_status make_plane(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    enum { PLANES = QK__NUM_POINT_STAGES * QK__NUM_POINT_PLANES };
    const making *all = context;
    qk__points_plane *plane = &all->points->models[i / PLANES]
                                   .stages[i % PLANES / QK__NUM_POINT_PLANES]
                                   .planes[i % QK__NUM_POINT_PLANES];
    for (size_t c = 0; c < plane->cells.count; c++) {
        const qk__head_cell *cell = &plane->cells.items[c];
        qk__buffer_free(&plane->pictures[c]);
        if (!cell->why)
            QK_TRY(qk__cell_picture(cell, SIZES[all->size].width, SIZES[all->size].height,
                                    SIZES[all->size].shades, &plane->pictures[c], err));
    }
    return QK_OK;
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

qk_status qk__points_picture(qk__points *points, int threads, qk_error *err)
{
    making all = {.points = points};
    size_t room = 0;
    for (size_t m = 0; m < points->num_models; m++)
        room += ROOM * points->models[m].stages[QK__POINTS_OWN].planes[0].cells.count;
    for (; all.size < NUM_SIZES; all.size++) {
        QK_TRY(
            qk__parallel_try(points->num_models * QK__NUM_POINT_STAGES * QK__NUM_POINT_PLANES,
                             threads, make_plane, &all, err));
        count_pictures(points, SIZE_MAX);
        if (points->bytes <= room)
            break;
    }
    count_pictures(points, room);
    return QK_OK;
}
