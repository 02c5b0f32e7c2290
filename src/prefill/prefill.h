/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a model over sequences: what is allocated once, and the state of the layer in hand.
 *
 * Sequences are padded to whole panels of 32 tokens, one behind the other:
 *
 *     x      [all panels][hidden_size][32]        the residual stream
 *     keys   [all panels][key heads * head_dim][32]  of the layer in hand, and so values
 *
 * The jobs of a layer are blocks of a few panels of one sequence. How a sequence is cut depends
 * on its length alone, and numbers do not depend on the cut.
 *
 * A branch is a sequence too, behind those given. In the layer where it begins, its residual stream comes out of that
 * of its text's blocks; from the next layer on its own blocks are run. With a suffix it has panels of the end
 * alone, from a whole block of keys on, and before them sees its text's keys.
 *
 *     prefill.c     the run; it leads the others
 *     layer.c       one layer over all sequences
 *     workload.c    what the run will do and needs
 *     head_rows.c   rows of heads, to the caller
 *     measured.c    what is measured of their attention, to the caller
 *     changes.c     heads of branches that are changed
 *     branches.c    what branches ask for
 *     layer_attention.c  what heads attend with
 *     losses.c      how well tokens are predicted, to the caller */
#ifndef QK_PREFILL_PREFILL_H
#define QK_PREFILL_PREFILL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"
#include "prefill/attention.h"
#include "prefill/bf16_kernel.h"
#include "prefill/linear.h"
#include "prefill/norm.h"
#include "prefill/panel_kernel.h"
#include "prefill/panel_rope.h"
#include "prefill/rounding.h"

enum {
    QK_MAX_PANELS = 6,       /* in a block */
    QK_WORDS = 8 * QK_DEPTH, /* of the vocabulary, whose weights are in memory at once */
};

/* Heads that the sink wants, ascending. */
typedef struct qk__wanted_heads {
    int *heads;
    size_t count;
} qk__wanted_heads;

typedef struct qk__panel_block {
    size_t sequence;
    size_t number;      /* of the block in its sequence */
    size_t first_panel; /* in the sequence */
    size_t panels;
    size_t first_sums; /* of measured attention: buckets of the blocks before it */
} qk__panel_block;

/* Measured attention; empty in runs without. */
typedef struct qk__prefill_measured {
    size_t heads; /* most in a layer */
    float *sums;  /* of each block [heads][buckets][QK_ATTENTION_SUMS], in the layer in hand */
    size_t size;  /* of sums */
    float *outputs;      /* the same, [heads][buckets][head_dim]; NULL: not asked for */
    size_t outputs_size; /* of outputs */
    int32_t *tokens;     /* [panels][lanes], and one before each sequence */
    int32_t *repeats;    /* [panels][lanes], in a window of so many tokens */
    int64_t window;
    int32_t *seen; /* [vocab_size] */
    double *logs;  /* ln of 0 .. the longest sequence */
} qk__prefill_measured;

/* A branch: the number of its sequence is that of the run's first branch, plus its own. */
typedef struct qk__branch {
    const qk_prefill_branch *given;
    int first_layer;
    size_t first_panel; /* that it has, a multiple of QK_KEY_PANELS */
    int64_t first_row;  /* that is changed */
} qk__branch;

/* Sizes in floats, for a run of so many panels; what is allocated and what is estimated. */
typedef struct qk__prefill_sizes {
    size_t features;  /* hidden_size in whole tiles */
    size_t q, k;      /* heads * head_dim, in whole tiles */
    size_t rows;      /* of one block for the sink, before or after rotation */
    size_t rotation;  /* see qk__rope_scratch */
    size_t attention; /* see qk__attention_scratch */
    /* of one changed head, and of weights for the drift of losses; 0 without branches */
    size_t changes;
    size_t scratch;    /* of one thread, all of it */
    int64_t weights;   /* bytes of one layer */
    int64_t per_panel; /* bytes of x, keys, values, and the positions' tables */
} qk__prefill_sizes;

typedef struct qk__prefill_run {
    const qk_model *model;
    const qk_prefill_settings *settings;
    const qk_sequence *sequences; /* those given, and behind them those of branches */
    qk_sequence *all_sequences;   /* the same; not those given */
    size_t num_sequences, first_branch;
    qk__branch *branches; /* [num_sequences - first_branch] */
    const qk__panel_kernel *kernel;
    const qk__bf16_kernel *bf16; /* NULL: everything is float32 */
    int threads;
    qk__rounding rounding;
    qk__prefill_sizes sizes;

    qk__panel_block *blocks;
    size_t num_blocks, num_text_blocks; /* those of branches come last */
    /* [num_sequences] in x, keys, values: where a sequence's first is, or would be */
    size_t *first_panel;
    size_t num_panels, longest; /* in all, of the longest sequence */

    float *x, *keys, *values;
    float *unrotated; /* keys; NULL where no branch needs them */
    size_t k_step;    /* floats of a panel of keys */
    float *scratch;
    qk__rope_table tables[QK_NUM_ROPES];

    qk__wanted_heads *wanted; /* [num_layers][2]: queries, keys */
    int last_layer;           /* -1: nothing is wanted */
    int num_run;              /* layers that are run */
    qk__output_layer output;  /* of runs with losses */
    qk__prefill_measured measured;

    /* The layer in hand. */
    int layer;
    qk__matrix q, k, v, o, gate, up, down;
    qk__norm attention_norm, attention_out_norm, mlp_norm, mlp_out_norm, q_norm, k_norm;

    /* Whose turn it is at the sink: the number of a block for each (sequence, kind). */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    size_t *turns; /* [num_sequences][2] */
    bool stopped;
    size_t failed_block; /* the first that failed, with its error */
    qk_status failure;
    qk_error error;
} qk__prefill_run;

/* The parts of a thread's scratch. */
typedef struct qk__prefill_scratch {
    float *hidden, *q, *attended, *out, *gate, *up, *attention, *rotation, *before, *after,
        *changes;
} qk__prefill_scratch;

/* qk_prefill, whose products of bfloat16 numbers are this kernel's. */
QK_MUST_CHECK qk_status qk__prefill_by(const qk__bf16_kernel *bf16, const qk_model *model,
                                       const qk_prefill_settings *settings,
                                       const qk_sequence *sequences, size_t num_sequences,
                                       qk_error *err);

/* workload.c */
void qk__prefill_measure(qk__prefill_sizes *sizes, const qk_model *model,
                         const qk_prefill_settings *settings);
QK_MUST_CHECK qk_status qk__prefill_plan(qk__prefill_run *run, qk_error *err);
qk__prefill_scratch qk__prefill_scratch_of(const qk__prefill_run *run, int worker);

/* layer.c: the layer run->layer, whose weights are loaded first. */
QK_MUST_CHECK qk_status qk__prefill_layer(qk__prefill_run *run, qk_error *err);

/* Whether the layer in hand is the last one, of which no more is needed than the heads asked for. */
static inline bool qk__prefill_ends_here(const qk__prefill_run *run)
{
    return run->layer == run->last_layer && !run->settings->loss;
}

/* head_rows.c */
const qk__wanted_heads *qk__prefill_wanted(const qk__prefill_run *run, qk_kind kind);
/* Puts the wanted heads of panels into rows; only_wanted: the panels hold no others. */
void qk__prefill_gather(const qk__prefill_run *run, qk_kind kind, const qk__panels *panels,
                        bool only_wanted, float *rows);
/* Hands a block's rows to the sink when it is its turn; NULL rows are not handed. False when
 * the run has stopped. */
bool qk__prefill_emit(qk__prefill_run *run, size_t block, qk_kind kind, const float *before,
                      const float *after);
bool qk__prefill_stopped(qk__prefill_run *run);

/* measured.c */
int64_t qk__prefill_measured_bytes(const qk_model *model, bool outputs, int64_t panels,
                                   int64_t blocks);
QK_MUST_CHECK qk_status qk__prefill_init_measured(qk__prefill_run *run, qk_error *err);
void qk__prefill_free_measured(qk__prefill_run *run);
/* Whether attention is measured in this layer: then qk__prefill_start_measuring goes before its jobs, and
 * what they measured is delivered behind them. */
bool qk__prefill_measures(const qk__prefill_run *run);
void qk__prefill_start_measuring(qk__prefill_run *run);
qk__measured_heads qk__prefill_measured_heads(const qk__prefill_run *run,
                                              const qk__panel_block *block);
/* Sums what the heads of a block put out. */
void qk__prefill_measure_outputs(const qk__prefill_run *run, const qk__panel_block *block,
                                 const qk__panels *attended);
QK_MUST_CHECK qk_status qk__prefill_deliver_measured(const qk__prefill_run *run, qk_error *err);

/* branches.c */
QK_MUST_CHECK qk_status qk__prefill_check_branches(const qk__prefill_run *run, qk_error *err);
/* Whether a run with these settings has such a branch in some layer. */
bool qk__prefill_turns_keys(const qk_prefill_settings *settings);
size_t qk__changes_scratch(size_t head_dim, size_t pairs);
/* Whether some branch has a head of the layer in hand rotated otherwise: then queries before rotation are in
 * scratch->before, panels like those after it, and keys in run->unrotated. */
bool qk__prefill_turns(const qk__prefill_run *run);

/* changes.c: puts the heads that a branch changes in this layer into attended. block: of the branch, or of its text in the
 * layer where it begins; or a part of one, in which queries begin at panel `skipped`. */
void qk__prefill_change(const qk__prefill_run *run, const qk__branch *branch,
                        const qk__panel_block *block, size_t skipped, const qk__panels *q,
                        const qk__panels *attended, const qk__prefill_scratch *scratch);

/* layer_attention.c */
void qk__prefill_attention_of(const qk__prefill_run *run, size_t sequence,
                              qk__attention *attention);
void qk__prefill_scale_queries(const qk__prefill_run *run, size_t first_panel,
                               const qk__panels *q, size_t features);

/* losses.c: behind the last layer, whose output is used up. */
QK_MUST_CHECK qk_status qk__prefill_losses(qk__prefill_run *run, qk_error *err);

/* What a branch adds to qk_prefill_flops and qk_prefill_bytes, of a text of so many tokens, changed from a layer on in its last `suffix` rows (0: all). */
double qk__prefill_branch_flops(const qk_model *model, int layer, int64_t tokens,
                                int64_t suffix);
int64_t qk__prefill_branch_bytes(const qk_model *model, const qk_prefill_settings *settings,
                                 int64_t tokens, int64_t suffix);

#endif
