/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a layer while a capture is made: sums over the queries, or the keys, of all its
 * heads, by groups of texts and, of queries, by the sampler's buckets.
 *
 *     rows ──compute──▶ chunk ──fold──▶ part ──merge──▶ part ──write──▶ file
 *        (any thread)       (in order)      (in order)       (layer_file.h)
 *
 * All numbers are about means: two sets of rows join by the formula of qk__moments_merge (Chan,
 * Golub and LeVeque, 1979), so means far from zero cost no digits. The same folds and merges in
 * the same order give the same bits on every processor; another order gives other roundings. So who
 * folds keeps an order that does not depend on threads. Nothing here starts threads or locks.
 *
 * chunk_moments.c computes, chunk_sums.c takes sums that others made, part_moments.c folds and merges, part_store.c
 * keeps what is not merged yet.
 *
 * Groups of texts are those of stats/text_groups.h: they depend on the set of ids alone. A part
 * does not remember ids, only the labels of its groups. */
#ifndef QK_STATE_LAYER_MOMENTS_H
#define QK_STATE_LAYER_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/stats.h>

#include "stats/moments.h"

enum {
    QK__CHUNK_ROWS = 256,      /* rows of a chunk, at most */
    QK__MAX_GROUPS = 64,       /* of texts in a part, at most */
    QK__MAX_PART_HEADS = 4096, /* of a kind in a layer */
};

/* The parts of a layer: queries and keys, by qk_kind; and, QK__FIRST_PARTS behind these, those of their rows that
 * are of a text's first positions, summed once more. */
enum { QK__FIRST_PARTS = 2, QK__LAYER_PARTS = 4 };
typedef struct qk__layer_parts {
    struct qk__part_moments *part[QK__LAYER_PARTS]; /* NULL: none */
} qk__layer_parts;
void qk__layer_parts_free(qk__layer_parts *parts);

/* What a part is of. */
typedef struct qk__part_shape {
    size_t dim;          /* 1 .. QK_MAX_DIM */
    size_t num_heads;    /* 1 .. QK__MAX_PART_HEADS */
    const int *heads;    /* [num_heads] ascending, from 0 on; copied by who keeps them */
    uint32_t max_groups; /* 0: one group of all texts; else 2 .. QK__MAX_GROUPS */
    /* of an id, which may tell its group: those that leave no more of all texts; 0: all */
    uint64_t group_bits;
    bool by_bucket; /* of queries: sums by bucket, too */
    bool means;     /* count and mean alone, of sums that come summed, and of a maximum */
    /* of queries before RoPE: that turn, and whose lengths are summed; 0: none are */
    size_t pairs;
    /* pair p is dimensions 2p and 2p + 1, else p and p + pairs; files do not tell */
    bool interleaved;
} qk__part_shape;

/* Bytes of the arrays of such a part in a file, with so many groups and buckets; in memory it
 * takes the same and a few hundred bytes for each group and bucket. Saturates at INT64_MAX. */
int64_t qk__part_shape_bytes(const qk__part_shape *shape, size_t groups, size_t buckets);

/* ==== a chunk ============================================================================= */

/* Rows of one text, of every head at the same positions. Row r of head h begins at
 * x + h * head_stride + r * dim. */
typedef struct qk__chunk_rows {
    size_t rows; /* 1 .. QK__CHUNK_ROWS */
    const float *x;
    size_t head_stride;      /* in floats */
    const int64_t *position; /* [rows] ascending */
    const int64_t *bucket;   /* [rows], in runs; NULL where the part is not by bucket */
} qk__chunk_rows;

/* Moments of such rows, and memory that is used again for the next ones: a thread needs one of
 * them for all layers and kinds. It grows to what the largest part asks for; then computing
 * allocates nothing. */
typedef struct qk__chunk_moments qk__chunk_moments;

QK_MUST_CHECK qk_status qk__chunk_moments_create(qk__chunk_moments **chunk, qk_error *err);
void qk__chunk_moments_free(qk__chunk_moments **chunk); /* takes a pointer to NULL, too */

/* Replaces what the chunk held. shape need not outlive the call. A NaN or infinity is
 * QK_ERR_INCONSISTENT: "head 3, row 17 (position 40), dimension 5: NaN or infinity", where row
 * counts from the first of these and the caller adds layer, kind and text. */
QK_MUST_CHECK qk_status qk__chunk_moments_compute(qk__chunk_moments *chunk,
                                                  const qk__part_shape *shape,
                                                  const qk__chunk_rows *rows, qk_error *err);

/* ---- rows that were summed elsewhere ---------------------------------------------------- */

/* All rows of a text whose sums come. */
typedef struct qk__summed_rows {
    size_t rows;             /* at least 1 */
    const int64_t *position; /* [rows] ascending */
    const int64_t *bucket;   /* [rows], in runs; NULL where the part is not by bucket */
} qk__summed_rows;

/* Sums of one head over them, about an origin of vectors and one of positions. */
typedef struct qk__head_sums {
    const double *origin; /* [dim]; NULL: 0 */
    double origin_t;
    const double *x, *xt;                  /* [dim] */
    const double *xx;                      /* [dim][dim]: the upper triangle is read */
    const double *abs;                     /* [pairs]; NULL: not known */
    size_t runs;                           /* of a part by bucket */
    const double *run_x, *run_xt, *run_xx; /* [runs][dim], run_xx of squares */
} qk__head_sums;

/* How many chunks such a text makes: one, unless it has very many buckets. */
size_t qk__summed_chunks(const qk__part_shape *shape, const qk__summed_rows *rows);

/* Makes it chunk `number` of the text, whatever it held; the sums of each head are given to
 * qk__chunk_moments_take. */
QK_MUST_CHECK qk_status qk__chunk_moments_expect(qk__chunk_moments *chunk,
                                                 const qk__part_shape *shape,
                                                 const qk__summed_rows *rows, size_t number,
                                                 qk_error *err);

/* Takes the sums of the head at place `head` of the part's list. Returns what is wrong with them, or
 * NULL. Threads may take different heads at once. */
const char *qk__chunk_moments_take(qk__chunk_moments *chunk, size_t head,
                                   const qk__head_sums *sums);

/* Sums of all rows of a text, by bucket, of a part that keeps means. */
typedef struct qk__summed_means {
    int64_t last_position;
    size_t num_buckets;  /* 0 .. num_buckets - 1, at most QK__CHUNK_ROWS */
    const int64_t *rows; /* [num_buckets], not all 0 */
} qk__summed_means;

/* Makes it the only chunk of the text; then each head's sums [num_buckets][dim], the last of dim being a maximum,
 * those of buckets without rows being passed over. False: they are not finite. */
QK_MUST_CHECK qk_status qk__chunk_means_expect(qk__chunk_moments *chunk,
                                               const qk__part_shape *shape,
                                               const qk__summed_means *text, qk_error *err);
QK_MUST_CHECK bool qk__chunk_means_take(qk__chunk_moments *chunk, size_t head,
                                        const double *sums);

/* ==== a part ============================================================================== */

/* Sums over any rows of a kind in a layer. */
typedef struct qk__part_moments qk__part_moments;

/* Starts without rows, groups and buckets: rows bring them. A shape outside its ranges is QK_ERR_ARGUMENT. */
QK_MUST_CHECK qk_status qk__part_moments_create(qk__part_moments **part,
                                                const qk__part_shape *shape, qk_error *err);
void qk__part_moments_free(qk__part_moments **part);

int64_t qk__part_moments_count(const qk__part_moments *part); /* rows of its first head */

/* Adds a chunk that was computed for the part's shape (another one is QK_ERR_ARGUMENT).
 * first_of_text: no other chunk of this text was folded before, into this part or one that will be
 * merged with it; so texts are counted. The caller keeps the order of chunks, which decides the
 * roundings, and lets one thread fold at a time. Where memory runs out nothing is added. */
QK_MUST_CHECK qk_status qk__part_moments_fold(qk__part_moments *part, int64_t example_id,
                                              bool first_of_text,
                                              const qk__chunk_moments *chunk, qk_error *err);

/* Adds the rows of `later` behind those of `part`. Both must be of one shape, else QK_ERR_INCONSISTENT.
 * `later` is left without rows, since its sets move where they can instead of being copied; the caller
 * still frees it. After a failure both are as they were. */
QK_MUST_CHECK qk_status qk__part_moments_merge(qk__part_moments *part, qk__part_moments *later,
                                               qk_error *err);

/* Bytes of a part in a file of the program's own; writing them; and reading them into a part of the same shape that
 * has no rows: what is no such part is QK_ERR_MALFORMED, and then it can only be freed. Messages do not name the file. */
size_t qk__part_moments_stored(const qk__part_moments *part);
QK_MUST_CHECK qk_status qk__part_moments_store(const qk__part_moments *part, int fd,
                                               int64_t offset, qk_error *err);
QK_MUST_CHECK qk_status qk__part_moments_load(qk__part_moments *part, int fd, int64_t offset,
                                              size_t size, qk_error *err);

#endif
