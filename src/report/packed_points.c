/* SPDX-License-Identifier: Apache-2.0 */
/* Packs the points of each head, as finely as the page has room for. */
#include "report/packed_points.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"

enum { ROOM = 20000 /* bytes on the page that the points of a head take, on average */ };

/* Bytes of a coordinate, and the step between points that are taken, the best first. */
static const struct {
    int bytes;
    size_t step;
} SIZES[] = {{2, 1}, {1, 1}, {1, 2}, {1, 4}};
enum { NUM_SIZES = sizeof SIZES / sizeof *SIZES };

static uint8_t to_byte(uint16_t value)
{
    return (uint8_t)(((uint32_t)value * UINT8_MAX + UINT16_MAX / 2) / UINT16_MAX);
}

/* A point: x, y (from the top), then its position, whose last bit is 1 for a key. */
static qk_status pack_cell(const qk__head_cell *cell, size_t size, qk__buffer *out,
                           qk_error *err)
{
    for (size_t i = 0; i < cell->count; i += SIZES[size].step) {
        const qk__dot *dot = &cell->dots[i];
        const uint8_t bytes[] = {(uint8_t)(dot->x >> 8), (uint8_t)dot->x,
                                 (uint8_t)(dot->y >> 8), (uint8_t)dot->y,
                                 (uint8_t)((dot->at & 0xFE) | dot->is_key)};
        if (SIZES[size].bytes == 2) {
            QK_TRY(qk__buffer_append(out, bytes, sizeof bytes, err));
        } else {
            const uint8_t coarse[] = {to_byte(dot->x), to_byte(dot->y), bytes[4]};
            QK_TRY(qk__buffer_append(out, coarse, sizeof coarse, err));
        }
    }
    return QK_OK;
}

static qk_status pack_all(qk__points *points, size_t size, qk_error *err)
{
    enum { PLANES = QK__NUM_POINT_STAGES * QK__NUM_POINT_PLANES };
    for (size_t i = 0; i < points->num_models * PLANES; i++) {
        qk__points_plane *plane = &points->models[i / PLANES]
                                       .stages[i % PLANES / QK__NUM_POINT_PLANES]
                                       .planes[i % QK__NUM_POINT_PLANES];
        for (size_t c = 0; c < plane->cells.count; c++) {
            plane->packed[c].size = 0;
            if (!plane->cells.items[c].why)
                QK_TRY(pack_cell(&plane->cells.items[c], size, &plane->packed[c], err));
        }
    }
    points->coordinate_bytes = SIZES[size].bytes;
    return QK_OK;
}

/* The bytes as base64. */
static size_t packed_bytes(const qk__buffer *packed)
{
    return (packed->size + 2) / 3 * 4;
}

/* Counts the points of one head; returns whether it has any. */
static bool count_planes(qk__points *points, qk__stage_points *of, size_t i, size_t room)
{
    bool any = false;
    for (int p = 0; p < QK__NUM_POINT_PLANES; p++) {
        qk__buffer *packed = &of->planes[p].packed[i];
        if (points->bytes + packed_bytes(packed) > room)
            qk__buffer_free(packed);
        points->bytes += packed_bytes(packed);
        any |= packed->size > 0;
    }
    return any;
}

/* Counts all points; those beyond the room are dropped. */
static void count_points(qk__points *points, size_t room)
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

/* ---- tokens ----------------------------------------------------------------------------- */

typedef struct counted {
    uint32_t number, count;
} counted;

static int compare_counts(const void *a, const void *b)
{
    const counted *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static qk_status pack_number(uint32_t number, qk__buffer *out, qk_error *err)
{
    for (; number > 0x7F; number >>= 7)
        QK_TRY(qk__buffer_append(out, &(uint8_t){(uint8_t)(number | 0x80)}, 1, err));
    return qk__buffer_append(out, &(uint8_t){(uint8_t)number}, 1, err);
}

/* Counts tokens (out NULL), or packs those of the points of a cell. */
static qk_status see_tokens(const qk__head_cell *cell, size_t step, counted *counts,
                            const uint32_t *place, qk__buffer *out, qk_error *err)
{
    for (size_t i = 0; i < cell->count; i += step) {
        const int32_t token = cell->dots[i].token;
        if (out)
            QK_TRY(pack_number(token < 0 ? 0 : place[token], out, err));
        else if (token >= 0)
            counts[token].count++;
    }
    return QK_OK;
}

static qk_status pack_tokens(qk__points_plane *plane, size_t step, qk_error *err)
{
    const size_t strings = plane->cells.strings.count;
    counted *counts;
    uint32_t *place;
    qk_status status = QK_OK;
    if (strings == 0)
        return QK_OK;
    QK_TRY(QK__CREATE_ARRAYS(err, {&counts, strings, sizeof *counts},
                             {&place, strings, sizeof *place},
                             {&plane->listed, strings, sizeof *plane->listed},
                             {&plane->tokens, plane->cells.count, sizeof *plane->tokens}));
    for (size_t n = 0; n < strings; n++)
        counts[n].number = (uint32_t)n;
    for (size_t c = 0; c < plane->cells.count && status == QK_OK; c++)
        if (plane->packed[c].size > 0)
            status = see_tokens(&plane->cells.items[c], step, counts, NULL, NULL, err);
    qsort(counts, strings, sizeof *counts, compare_counts);
    for (size_t n = 0; n < strings && counts[n].count > 0; n++) {
        plane->listed[plane->num_listed++] = counts[n].number;
        place[counts[n].number] = (uint32_t)n + 1;
    }
    for (size_t c = 0; c < plane->cells.count && status == QK_OK; c++)
        if (plane->packed[c].size > 0)
            status =
                see_tokens(&plane->cells.items[c], step, NULL, place, &plane->tokens[c], err);
    free(counts);
    free(place);
    return status;
}

/* Points are in one order on all planes of a stage, so one plane has their tokens. */
static qk_status pack_all_tokens(qk__points *points, size_t step, qk_error *err)
{
    for (size_t m = 0; m < points->num_models; m++)
        for (int s = 0; s < QK__NUM_POINT_STAGES; s++)
            QK_TRY(pack_tokens(&points->models[m].stages[s].planes[QK__PLANE_PCA], step, err));
    return QK_OK;
}

qk_status qk__points_pack(qk__points *points, qk_error *err)
{
    size_t room = 0, step = 1;
    for (size_t m = 0; m < points->num_models; m++)
        room += ROOM * points->models[m].stages[QK__POINTS_OWN].planes[0].cells.count;
    for (size_t size = 0; size < NUM_SIZES; size++) {
        QK_TRY(pack_all(points, size, err));
        step = SIZES[size].step;
        count_points(points, SIZE_MAX);
        if (points->bytes <= room)
            break;
    }
    count_points(points, room);
    return pack_all_tokens(points, step, err);
}
