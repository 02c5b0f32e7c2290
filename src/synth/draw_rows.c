/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing the rows of a synthetic head. */
#include "synth/parameters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
    TILE_ROWS = 256, /* most rows handed out at a time */
    ROW_UNIT = 4,    /* the product below keeps 4 rows x 8 columns in registers */
    COLUMN_UNIT = 8,
    LANES = 4,
    TOKEN_SIZE = 16,
    VOCABULARY = 5000,
};

typedef float lanes __attribute__((vector_size(4 * LANES)));

struct qk__synth_rows {
    const qk_synth_settings *settings;
    const qk__synth_head *head;
    qk__rng position_rng, content_rng;
    int example;       /* in progress */
    size_t next;       /* of its rows */
    int64_t *in_order; /* [rows_per_example] positions of the example, ascending */
    uint64_t *marks;   /* bit set over a bucket or over the buckets */
    uint8_t *extra;    /* [buckets] buckets that get one row more */
    size_t stride;     /* dim rounded up to COLUMN_UNIT */
    float *basis;      /* [dim][stride] row j is sqrt(lambda_j) b_j */
    float *z;          /* [TILE_ROWS][dim] */
    float *content;    /* [TILE_ROWS][stride] */
    float *x;          /* [TILE_ROWS][dim] */
    int64_t *columns;  /* position, bucket, example, window: [TILE_ROWS] each */
    char *text;        /* [TILE_ROWS][TOKEN_SIZE] */
    const char **strings;
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The scale of the content goes into the basis, once for all rows. */
static void fill_basis(qk__synth_rows *rows)
{
    const qk__synth_head *head = rows->head;
    for (size_t j = 0; j < head->dim; j++)
        for (size_t i = 0; i < head->dim; i++)
            rows->basis[j * rows->stride + i] =
                (float)(sqrt(head->lambda[j]) * head->basis[j * head->dim + i]);
}

qk_status qk__synth_rows_open(qk__synth_rows **rows, const qk_synth_settings *settings,
                              const qk__synth_head *head, qk_error *err)
{
    *rows = NULL;
    qk__synth_rows *r = calloc(1, sizeof *r);
    if (!r)
        return qk__nomem(err);
    size_t dim = head->dim;
    size_t buckets = (size_t)settings->buckets;
    r->settings = settings;
    r->head = head;
    r->example = -1;
    r->next = settings->rows_per_example;
    r->stride = (dim + COLUMN_UNIT - 1) / COLUMN_UNIT * COLUMN_UNIT;
    r->in_order = qk__calloc(settings->rows_per_example, sizeof *r->in_order);
    r->marks =
        qk__calloc(larger(buckets, (size_t)settings->bucket_width) / 64 + 1, sizeof *r->marks);
    r->extra = qk__calloc(buckets, 1);
    r->basis = qk__calloc(dim * r->stride, sizeof *r->basis);
    r->z = qk__calloc(TILE_ROWS * dim, sizeof *r->z);
    r->content = qk__calloc(TILE_ROWS * r->stride, sizeof *r->content);
    r->x = qk__calloc(TILE_ROWS * dim, sizeof *r->x);
    r->columns = qk__calloc(4 * TILE_ROWS, sizeof *r->columns);
    r->text = qk__calloc(TILE_ROWS, TOKEN_SIZE);
    r->strings = qk__calloc(TILE_ROWS, sizeof *r->strings);
    if (!r->in_order || !r->marks || !r->extra || !r->basis || !r->z || !r->content || !r->x ||
        !r->columns || !r->text || !r->strings) {
        qk__synth_rows_close(&r);
        return qk__nomem(err);
    }
    for (size_t i = 0; i < TILE_ROWS; i++)
        r->strings[i] = r->text + i * TOKEN_SIZE;
    qk__synth_stream(&r->position_rng, settings, head->id, SYNTH_POSITIONS);
    qk__synth_stream(&r->content_rng, settings, head->id, SYNTH_CONTENT);
    fill_basis(r);
    *rows = r;
    return QK_OK;
}

void qk__synth_rows_close(qk__synth_rows **rows)
{
    qk__synth_rows *r = *rows;
    if (!r)
        return;
    free(r->in_order);
    free(r->marks);
    free(r->extra);
    free(r->basis);
    free(r->z);
    free(r->content);
    free(r->x);
    free(r->columns);
    free(r->text);
    free(r->strings);
    free(r);
    *rows = NULL;
}

/* ---- positions -------------------------------------------------------------------------- */

static bool is_marked(const qk__synth_rows *rows, size_t i)
{
    return rows->marks[i / 64] >> i % 64 & 1;
}

/* Chooses `count` of 0 .. n-1, every choice equally likely. Returns true where the chosen ones
 * are marked; false where those left out are, as they are fewer. */
static bool choose(qk__synth_rows *rows, size_t n, size_t count)
{
    bool chosen = count <= n / 2;
    size_t left = chosen ? count : n - count;
    memset(rows->marks, 0, (n / 64 + 1) * sizeof *rows->marks);
    while (left > 0) {
        size_t i = (size_t)qk__rng_below(&rows->position_rng, n);
        if (is_marked(rows, i))
            continue;
        rows->marks[i / 64] |= UINT64_C(1) << i % 64;
        left--;
    }
    return chosen;
}

/* Every bucket gets the same number of rows, give or take one. */
static void draw_positions(qk__synth_rows *rows)
{
    const qk_synth_settings *s = rows->settings;
    size_t buckets = (size_t)s->buckets;
    size_t width = (size_t)s->bucket_width;
    bool chosen = choose(rows, buckets, s->rows_per_example % buckets);
    for (size_t b = 0; b < buckets; b++)
        rows->extra[b] = is_marked(rows, b) == chosen;
    size_t n = 0;
    for (size_t b = 0; b < buckets; b++) {
        int64_t first = s->position_offset + (int64_t)(b * width);
        chosen = choose(rows, width, s->rows_per_example / buckets + rows->extra[b]);
        for (size_t i = 0; i < width; i++)
            if (is_marked(rows, i) == chosen)
                rows->in_order[n++] = first + (int64_t)i;
    }
}

/* Fills position, bucket, example and window of the next rows; returns how many. */
static size_t next_positions(qk__synth_rows *rows, size_t max_rows)
{
    const qk_synth_settings *s = rows->settings;
    size_t n = 0;
    while (n < max_rows && n < TILE_ROWS) {
        if (rows->next == s->rows_per_example) {
            if (rows->example + 1 >= s->examples)
                break;
            rows->example++;
            rows->next = 0;
            draw_positions(rows);
        }
        int64_t position = rows->in_order[rows->next++];
        rows->columns[n] = position;
        rows->columns[TILE_ROWS + n] = (position - s->position_offset) / s->bucket_width;
        rows->columns[2 * TILE_ROWS + n] = rows->example;
        rows->columns[3 * TILE_ROWS + n] = s->sliding_window;
        n++;
    }
    return n;
}

/* The same token of an example has the same string in every head. */
static void make_strings(qk__synth_rows *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint64_t place[2] = {(uint64_t)rows->columns[2 * TILE_ROWS + i],
                                   (uint64_t)rows->columns[i]};
        qk__rng rng;
        qk__rng_init(&rng, rows->settings->seed, place, 2);
        snprintf(rows->text + i * TOKEN_SIZE, TOKEN_SIZE, " w%u",
                 (unsigned)qk__rng_below(&rng, VOCABULARY));
    }
}

/* ---- vectors ---------------------------------------------------------------------------- */

/* Rows r .. r+3, columns c .. c+7 of content = z basis. Written with vectors because
 * compilers turn the plain loops into shuffles, at a third of the speed; every sum still
 * runs in the order of j. */
static void multiply_tile(const qk__synth_rows *rows, size_t r, size_t c)
{
    size_t dim = rows->head->dim;
    lanes sum[ROW_UNIT][COLUMN_UNIT / LANES] = {{{0}}};
    const float *z = rows->z + r * dim;
    for (size_t j = 0; j < dim; j++) {
        lanes b[COLUMN_UNIT / LANES];
        memcpy(b, rows->basis + j * rows->stride + c, sizeof b);
        for (size_t u = 0; u < ROW_UNIT; u++)
            for (size_t v = 0; v < COLUMN_UNIT / LANES; v++)
                sum[u][v] += z[u * dim + j] * b[v];
    }
    for (size_t u = 0; u < ROW_UNIT; u++)
        memcpy(rows->content + (r + u) * rows->stride + c, sum[u], sizeof sum[u]);
}

/* Rows beyond n are multiplied, too, up to a whole unit; they are never used. */
static void draw_content(qk__synth_rows *rows, size_t n)
{
    size_t dim = rows->head->dim;
    for (size_t i = 0; i < n * dim; i++)
        rows->z[i] = (float)qk__rng_gaussian(&rows->content_rng);
    for (size_t r = 0; r < n; r += ROW_UNIT)
        for (size_t c = 0; c < rows->stride; c += COLUMN_UNIT)
            multiply_tile(rows, r, c);
}

/* To the nearest, ties to even. */
static float round_bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    bits &= UINT32_C(0xffff0000);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void assemble_row(qk__synth_rows *rows, size_t row)
{
    const qk__synth_head *head = rows->head;
    double t = (double)rows->columns[row];
    double drift = head->alpha * (t - qk__synth_center(rows->settings));
    const float *content = rows->content + row * rows->stride;
    float *x = rows->x + row * head->dim;
    double turn[2];
    for (size_t i = 0; i < head->dim; i++)
        x[i] = (float)(head->mean[i] + drift * head->a[i] + (double)content[i]);
    for (size_t p = 0; p < head->num_planes; p++) {
        const qk__synth_plane *plane = &head->planes[p];
        double angle = plane->omega * t + plane->phase;
        turn[0] = plane->amplitude * cos(angle);
        turn[1] = plane->amplitude * sin(angle);
        x[plane->x] = (float)(head->mean[plane->x] + (double)content[plane->x] + turn[0]);
        x[plane->y] = (float)(head->mean[plane->y] + (double)content[plane->y] + turn[1]);
    }
    if (rows->settings->bfloat16)
        for (size_t i = 0; i < head->dim; i++)
            x[i] = round_bfloat16(x[i]);
}

void qk__synth_rows_next(qk__synth_rows *rows, size_t max_rows, qk_block *block,
                         const char *const **strings)
{
    size_t n = next_positions(rows, max_rows);
    draw_content(rows, n);
    for (size_t i = 0; i < n; i++)
        assemble_row(rows, i);
    if (rows->settings->strings)
        make_strings(rows, n);
    *block = (qk_block){.rows = n,
                        .dim = rows->head->dim,
                        .f32 = rows->x,
                        .position = rows->columns,
                        .bucket = rows->columns + TILE_ROWS,
                        .example = rows->columns + 2 * TILE_ROWS,
                        .window = rows->columns + 3 * TILE_ROWS};
    *strings = rows->settings->strings ? rows->strings : NULL;
}
