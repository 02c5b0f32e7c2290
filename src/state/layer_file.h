/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a layer's moments: safetensors, metadata {"format": "qkscope moments 2", "layer": "0",
 * "groups": "16"} and whatever texts the writer adds; sinks add "capture", the fingerprint in capture.json. For each kind, after "q." or "k.", with H
 * heads, G groups of texts, B buckets and d dimensions:
 *
 *     heads         I64 [H]          numbers of the heads, ascending
 *     texts         I64 [H]          texts that gave the head rows
 *     positions     I64 [H][2]       least and largest position; 0, -1 without rows
 *     group         I64 [G]          labels (id & mask), ascending as unsigned
 *     mask          I64 []           bits of an id that tell its group; -1: all, 0: groups = 0
 *     count         I64 [G][H]       rows
 *     mean_t        F64 [G][H]       mean position
 *     sum_tt        F64 [G][H]       sum of (t - mean_t)^2
 *     mean          F64 [G][H][d]    mean of x
 *     sum_xt        F64 [G][H][d]    sum of (x - mean)(t - mean_t)
 *     sum_xx        F64 [G][H][d(d+1)/2]  sum of (x - mean)(x - mean)^T: i <= j, row by row
 *     sum_abs       F64 [G][H][F]    of queries before RoPE, where its F pairs are known: sum of the length of
 *                                    each pair; NaN: a sum that came without it
 *
 * and of queries, where buckets are kept:
 *
 *     bucket        I64 [B]          the sampler's ids that occur, ascending
 *     bucket_count  I64 [B][H]       and so on, without groups; bucket_sum_xx, F64 [B][H][d], is
 *                                    the diagonal alone
 *
 * Sums of attention (format "qkscope attention 1", <qkscope/attention.h>) are a file of their own: of queries, with
 * buckets, where x are the d terms of a row and count and mean are all that is kept of each set.
 *
 * Where rows of first positions were summed once more, their arrays follow, after "first.q." and "first.k.",
 * of the same heads and without buckets. A kind of which no head was captured has no arrays. layer_write.c writes them,
 * layer_file.c maps and checks them, layer_read.c reads them, head by head. */
#ifndef QK_STATE_LAYER_FILE_H
#define QK_STATE_LAYER_FILE_H

#include <jansson.h>

#include <qkscope/capture.h>

#include "state/layer_moments.h"
#include "stats/moments.h"

/* ==== whole layers ======================================================================== */

/* Queries or keys may be NULL, not both; those given agree on max_groups and dim. metadata: more texts,
 * or NULL; "format", "layer" and "groups" are the file's own, whatever it says of them. Equal
 * moments give equal bytes; the file appears whole or not at all. */
QK_MUST_CHECK qk_status qk__layer_moments_write(const char *path, const qk__layer_parts *parts,
                                                int layer, const json_t *metadata,
                                                qk_error *err);

/* In the metadata: the fingerprint of the capture that the sums are of. */
#define QK__LAYER_CAPTURE "capture"

/* ==== single heads ======================================================================== */

/* A file that stays on disk: a head costs what is its own. Any number of threads may read heads
 * of one file. */
typedef struct qk__layer_file qk__layer_file;
struct qk__layer_view;

/* Checks all but the sums of single heads: types, shapes, heads, labels and buckets that ascend,
 * counts. What is no such file is QK_ERR_MALFORMED, a later format QK_ERR_UNSUPPORTED. Messages
 * name the file. */
QK_MUST_CHECK qk_status qk__layer_file_open(qk__layer_file **file, const char *path,
                                            qk_error *err);
void qk__layer_file_close(qk__layer_file **file); /* takes a pointer to NULL, too */

/* What was read of it needs no memory until it is read again: else a run over all layers would have all of
 * them there at its end. */
void qk__layer_file_let_go(const qk__layer_file *file);

int qk__layer_file_layer(const qk__layer_file *file);
const char *qk__layer_file_path(const qk__layer_file *file);
const json_t *qk__layer_file_metadata(const qk__layer_file *file); /* an object of texts */

/* All that the file holds of a part, for layer_read.c (layer_view.h). */
const struct qk__layer_view *qk__layer_file_view(const qk__layer_file *file, int part);

/* Place of a head in shape->heads, -1: it is not there. */
ptrdiff_t qk__layer_file_find(const qk__layer_file *file, qk_kind kind, int head);

/* Rows of the head at a place, without reading its sums. */
int64_t qk__layer_file_rows(const qk__layer_file *file, qk_kind kind, size_t place);

/* Sums over the rows of a head in one bucket. */
typedef struct qk__bucket_sums {
    int64_t bucket, count; /* count: may be 0 for this head */
    double mean_t, sum_tt;
    double *mean, *sum_xt; /* [d] */
    double *sum_xx;        /* [d] the diagonal */
} qk__bucket_sums;

/* All that is known of a head. Who wants to keep moments or texts sets the member to NULL.
 * texts: as qk__accumulator_finish_texts gives them, of no more groups than it would keep, finer ones
 * being joined; NULL where texts were not kept apart. */
typedef struct qk__head_state {
    qk_moments *moments; /* of all rows: the groups merged in the order of their labels */
    qk__text_moments *texts;
    int64_t num_texts;
    int64_t first_position, last_position; /* 0, -1 without rows */
    uint64_t mask;                         /* as in the file */
    size_t num_groups;
    uint64_t *labels;         /* [num_groups] ascending */
    qk_moments **parts;       /* [num_groups] moments of each; count 0 where it has no rows */
    size_t pairs;             /* of queries before RoPE; 0: their lengths were not summed */
    double *sum_abs;          /* [pairs] of all rows; NaN: not known */
    size_t num_buckets;       /* 0 for keys and where buckets were not kept */
    qk__bucket_sums *buckets; /* [num_buckets] ascending */
    /* of rows of first positions, without texts and buckets; NULL: not apart */
    struct qk__head_state *first;
} qk__head_state;

/* Reads and checks the sums of the head at a place of shape->heads. What no rows give (sums of
 * squares below 0, NaN) is QK_ERR_MALFORMED, numbers that overflow QK_ERR_INCONSISTENT; messages
 * name file, kind and head. */
QK_MUST_CHECK qk_status qk__layer_file_head(const qk__layer_file *file, qk_kind kind,
                                            size_t place, qk__head_state **state,
                                            qk_error *err);
void qk__head_state_free(qk__head_state **state); /* takes a pointer to NULL, too */

/* Takes the rows of first positions out of moments, groups and texts. Buckets, the number of texts and the
 * range of positions stay those of all rows. */
QK_MUST_CHECK qk_status qk__head_state_leave_out_first(qk__head_state *state, qk_error *err);

#endif
