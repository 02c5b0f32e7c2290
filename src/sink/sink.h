/* SPDX-License-Identifier: Apache-2.0 */
/* A sink, as its parts see it.
 *
 *     open_sink.c        opening and closing a sink
 *     finish_sink.c      the end
 *     sink_common.c      what all the others use: names, sizes of blocks, notices, failures
 *     text_order.c       in which order texts are run, and which a block has
 *     keep.c             what is kept: words for it
 *     run_identity.c     what decides the bytes, and its fingerprint
 *     run_file.c         run.json: that, and all that it takes to put the capture together
 *     output.c           the output folder: what may be done with it
 *     captures.c         captures in a folder: which files are theirs
 *     blocks.c           finished blocks of texts
 *     open_blocks.c      those that are being filled; finishing one
 *     open_texts.c       texts that are open
 *     parts.c            queries or keys of one layer of a text: which positions are kept
 *     choose_reservoir.c which of these are stored, of a reservoir
 *     put.c              vectors to where they belong
 *     put_sums.c         sums that others made, in place of vectors
 *     put_attention.c    sums over rows of attention
 *     sums.c             vectors to moments, in the order of texts
 *     all_blocks.c       rows of all blocks
 *     write_sums.c       sums of all blocks, in their order
 *     write_rows.c       rows -> Parquet
 *     capture_facts.c    capture.json, card and table of examples
 *     publish.c          finished captures take their place
 *     merge.c            blocks that several folders have, in one
 *
 * OUTPUT/.partial while it goes on:
 *
 *     run.json               what the run is; written once
 *     units/b000007          a block of texts: a unit (work/units.h)
 *     new/                   the captures as OUTPUT will hold them, made of the units when all are there */
#ifndef QK_SINK_SINK_H
#define QK_SINK_SINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/sink.h>

#include "base/buffer.h"
#include "base/fingerprint.h"
#include "capture/capture.h"
#include "work/place.h"
#include "sink/captures.h"
#include "state/layer_moments.h"
#include "work/units.h"

/* A position that is kept. */
typedef struct qk__kept {
    int64_t position;
    int64_t row; /* of the text's rows in the file; -1: it is summed, and not stored */
} qk__kept;

/* Rows of a chunk on their way into the sums. */
typedef struct qk__chunk_vectors {
    float *vectors; /* [heads][rows][dim]; NULL: no vector has come, or all are summed */
    size_t missing; /* missing vectors, over all heads */
} qk__chunk_vectors;

/* Queries or keys of one layer of a text, of one stage. */
typedef struct qk__stage_part {
    int64_t offset;            /* of the vectors in the block's file */
    uint64_t *came;            /* a bit for each head and kept position */
    qk__chunk_vectors *chunks; /* [chunks], where rows come and moments are kept */

    /* Where sums came in place of rows, only the stored rows come besides. */
    bool *summed;             /* [heads] whose sums came */
    size_t unsummed;          /* heads whose sums have not come */
    struct qk__waiting *sums; /* chunk that is added when all sums are there */
} qk__stage_part;

/* Queries or keys of one layer of a text that is open. */
typedef struct qk__part {
    qk__kept *kept; /* by position */
    size_t count, stored;
    size_t left;  /* vectors that have to come, and chunks to be summed, of all stages */
    size_t users; /* threads that put rows into it */
    qk__stage_part stages[QK__STAGES];
} qk__part;

enum qk__text_state { QK__TEXT_WAITS, QK__TEXT_OPEN, QK__TEXT_DONE };

/* The state of a part that is not in memory. */
enum qk__part_state { QK__PART_WAITS, QK__PART_EMPTY, QK__PART_CAME };

typedef struct qk__text {
    enum qk__text_state state;
    int64_t number, example_id, text_id, tokens;
    const int32_t *ids;
    char *line;       /* its line of the examples */
    qk__part **parts; /* [2 * num_layers], made at the first use */
    bool *attended;   /* [num_layers] whether attention has come; NULL: it is not kept */
    uint8_t *ends;    /* [2 * num_layers] of enum qk__part_state */
} qk__text;

/* Moments of a chunk that wait for those of chunks before it. */
typedef struct qk__waiting {
    struct qk__waiting *next;
    int64_t text;
    size_t chunk;
    bool last; /* the last chunk of its text */
    qk__chunk_moments *moments;
    bool has_first; /* has rows of first positions: */
    qk__chunk_moments *first;
} qk__waiting;

/* Sums over the queries or keys of one layer in a block, and the next chunk to add. */
typedef struct qk__queue {
    pthread_mutex_t lock;
    qk__part_moments *sums;  /* NULL: no head of that kind */
    qk__part_moments *first; /* sums of first positions; NULL: not apart */
    int64_t text;            /* number in the block of the text that is added next */
    size_t chunk;
    qk__waiting *waiting;
} qk__queue;

/* Where vectors of one text, layer and kind lie in a block's file: their positions (int64), their tokens (int32, an
 * even number of them), then [heads][rows][dim] floats. */
typedef struct qk__region {
    int64_t text; /* its number */
    int64_t example_id;
    int64_t part; /* see qk__part_of */
    int64_t rows, offset;
    int64_t block; /* its number, in a list of the regions of all blocks */
} qk__region;

/* The numbers of a block: its texts and their tokens; in its file where the examples begin and how long they are,
 * where the index of each stage begins, and the list of sums. */
enum {
    QK__BLOCK_TEXTS,
    QK__BLOCK_TOKENS,
    QK__AT_EXAMPLES,
    QK__EXAMPLES_SIZE,
    QK__AT_INDEX,
    QK__AT_SUMS = QK__AT_INDEX + QK__STAGES,
    QK__BLOCK_NUMBERS
};

/* What a block says of itself. */
typedef struct qk__block_facts {
    int64_t *numbers; /* [QK__BLOCK_NUMBERS], followed by: */
    int64_t *rows,
        *stored; /* [2 * num_layers] of each head: kept rows, and those that are stored */
} qk__block_facts;

/* Texts at the places first .. first + count - 1 of the order in which they are run. */
typedef struct qk__text_block {
    struct qk__text_block *next;
    int64_t number, first, count, begun, done;
    qk__unit unit; /* the file of the rows, until it is finished */
    qk__text *texts;
    qk__queue *queues;              /* [QK__SUM_SETS][2 * num_layers], where sums are kept */
    qk__buffer regions[QK__STAGES]; /* qk__region */
    qk__block_facts facts;
} qk__text_block;

/* A finished block, open. */
typedef struct qk__block {
    int fd;
    int64_t bytes;
    qk__block_facts facts;
} qk__block;

/* Where the sums of a part lie in its file; size 0: there are none. */
typedef struct qk__stored_sums {
    int64_t offset, size;
} qk__stored_sums;

struct qk_sink {
    qk_sink_settings settings;
    int threads;
    bool stages[QK__STAGES];
    int *heads[2];     /* captured heads by kind, layer by layer */
    size_t *starts[2]; /* [num_layers + 1] where the heads of a layer begin */
    int64_t block_texts, num_blocks;
    /* [num_texts] the text at each place, and the place of each text; NULL: in the order of their numbers */
    int64_t *order, *places;
    uint64_t group_bits; /* bits of an id that tell its group */
    /* hash of the texts' ids; "": they come text by text */
    char ids_hash[QK__FINGERPRINT_SIZE];
    json_t *identity;
    char fingerprint[QK__FINGERPRINT_SIZE];
    char *partial, *fresh, *units; /* folders */
    qk__hold place;
    int end;    /* lock of the process that puts the capture together; -1 */
    bool alone; /* nobody else holds the place */
    bool merging, complete, replaces;
    bool began; /* begun by this process */
    bool empty; /* all blocks are there, and none keeps anything */
    /* [num_blocks] there when the sink was opened, or since by this process */
    atomic_bool *there;
    int64_t texts_before, tokens_before;
    pthread_mutex_t asking;
    atomic_bool stopped;   /* progress returned false once */
    pthread_mutex_t mutex; /* guards what follows, and the states of texts and parts */
    qk__text_block *open;
    qk__waiting *spare;
    qk_status failure; /* the first failure */
    qk_error why;
};

/* ---- sink_common.c ---------------------------------------------------------------------- */

/* Where the capture of a stage lies in a folder like OUTPUT; NULL when out of memory. */
char *qk__stage_folder(const qk_sink *sink, const char *root, int stage);

static inline size_t qk__part_of(int layer, qk_kind kind)
{
    return 2 * (size_t)layer + (size_t)kind;
}

/* The captured heads of a layer, ascending. */
static inline size_t qk__heads_of(const qk_sink *sink, int layer, qk_kind kind,
                                  const int **heads)
{
    const size_t *starts = sink->starts[kind];
    *heads = sink->heads[kind] + starts[layer];
    return starts[layer + 1] - starts[layer];
}

/* Whether vectors go into files. */
static inline bool qk__stores_rows(const qk_sink *sink)
{
    return sink->settings.keep.rows || sink->settings.keep.reservoir > 0;
}

/* Whether sums of this set are kept. */
static inline bool qk__keeps_set(const qk_sink *sink, int set)
{
    return set == QK__ATTENTION ? sink->settings.keep.attention
                                : sink->settings.keep.moments && sink->stages[set];
}

/* Attention belongs to both stages; one capture holds it. */
static inline bool qk__keeps_attention(const qk_sink *sink, int stage)
{
    return sink->settings.keep.attention &&
           stage == (sink->stages[QK__POST] ? QK__POST : QK__PRE);
}

static inline bool qk__keeps_sums(const qk_sink *sink)
{
    return sink->settings.keep.moments || sink->settings.keep.attention;
}

/* Tells how far the end has come. QK_ERR_CANCELLED: the user stops it. */
QK_MUST_CHECK qk_status qk__sink_ask(qk_sink *sink, const char *what, size_t done, size_t total,
                                     qk_error *err);

/* From now on nothing more is taken. From any thread. */
void qk__sink_fail(qk_sink *sink, qk_status status, const qk_error *err);

/* ---- text_order.c ------------------------------------------------------------------------ */

QK_MUST_CHECK qk_status qk__order_texts(qk_sink *sink, qk_error *err);

static inline int64_t qk__text_at(const qk_sink *sink, int64_t place)
{
    return sink->order ? sink->order[place] : place;
}

static inline int64_t qk__place_of(const qk_sink *sink, int64_t number)
{
    return sink->places ? sink->places[number] : number;
}

/* ---- sink_common.c, blocks --------------------------------------------------------------- */

/* The number of texts in a block. */
int64_t qk__choose_block(const qk_sink_settings *settings);

/* The number of texts in this block: the last one may have fewer. */
int64_t qk__block_size(const qk_sink *sink, int64_t number);

/* The name of a block's unit. */
enum { QK__UNIT_NAME_SIZE = 40 };
void qk__block_name(int64_t number, char name[QK__UNIT_NAME_SIZE]);

/* ---- open_sink.c, finish_sink.c --------------------------------------------------------- */

/* qk_sink_open. merging: no texts are put in, shards may be at work beside it, and the texts' ids, which only the
 * shards have, are those with this hash. NULL: texts are put in. */
QK_MUST_CHECK qk_status qk__sink_open(qk_sink **sink, const qk_sink_settings *settings,
                                      const char *merging, qk_error *err);

/* Puts the capture together if all blocks are there and nobody else does so. */
QK_MUST_CHECK qk_status qk__sink_end(qk_sink *sink, qk_sink_outcome *outcome, qk_error *err);

/* ---- run_identity.c --------------------------------------------------------------------- */

/* Sets identity and fingerprint. */
QK_MUST_CHECK qk_status qk__sink_identify(qk_sink *sink, qk_error *err);

/* The name of the first thing in which two identities differ; NULL: nothing. */
const char *qk__identity_difference(const json_t *a, json_t *b);

/* ---- output.c --------------------------------------------------------------------------- */

/* Refuses at once an output folder with anything else in it. */
QK_MUST_CHECK qk_status qk__output_glance(const char *output, bool force, qk_rope_stage stage,
                                          qk_error *err);

/* Whether the capture of this run is in its place. */
bool qk__is_complete(const qk_sink *sink);

/* Decides what this run may do: sets sink->complete if its capture is there already, else prepares and holds the
 * folder. */
QK_MUST_CHECK qk_status qk__output_open(qk_sink *sink, qk_error *err);

/* ---- blocks.c, open_blocks.c ------------------------------------------------------------ */

/* Sets sink->there, texts_before and tokens_before. */
QK_MUST_CHECK qk_status qk__blocks_look(qk_sink *sink, qk_error *err);

/* Creates zeros, to be freed by freeing numbers; writes them as one line, the head of a block. */
QK_MUST_CHECK qk_status qk__facts_create(const qk_sink *sink, qk__block_facts *facts,
                                         qk_error *err);
QK_MUST_CHECK qk_status qk__facts_print(const qk_sink *sink, const qk__block_facts *facts,
                                        qk__buffer *line, qk_error *err);

/* Opens a finished block after checking its bytes; QK_ERR_MALFORMED with the remedy. To be closed in any case. */
QK_MUST_CHECK qk_status qk__block_open(const qk_sink *sink, int64_t number, qk__block *block,
                                       qk_error *err);
void qk__block_close(qk__block *block);
qk_status qk__block_fail(const qk_sink *sink, int64_t number, const char *why, qk_error *err);

/* The block of a text, begun if needed; the caller holds the mutex. */
QK_MUST_CHECK qk_status qk__open_block(qk_sink *sink, int64_t text, qk__text_block **block,
                                       qk_error *err);

/* Writes what a finished block has in memory, names it, and frees it in any case. */
QK_MUST_CHECK qk_status qk__block_publish(qk_sink *sink, qk__text_block *block, qk_error *err);
void qk__text_block_free(const qk_sink *sink, qk__text_block *block);

static inline qk__text *qk__text_of(const qk_sink *sink, const qk__text_block *block,
                                    int64_t number)
{
    return &block->texts[qk__place_of(sink, number) - block->first];
}

/* ---- open_texts.c ----------------------------------------------------------------------- */

/* QK_ERR_ARGUMENT: the model has no such layer, or there is no such kind. */
QK_MUST_CHECK qk_status qk__check_part(const qk_sink *sink, int layer, qk_kind kind,
                                       qk_error *err);
/* Checks its heads, too; NULL = 0, 1, ... */
QK_MUST_CHECK qk_status qk__check_heads(const qk_sink *sink, int layer, qk_kind kind,
                                        const int *heads, size_t count, qk_error *err);

/* An open text, and its block; the caller holds the mutex. */
QK_MUST_CHECK qk_status qk__find_text(qk_sink *sink, int64_t number, qk__text_block **block,
                                      qk__text **text, qk_error *err);

/* ---- parts.c, choose_reservoir.c -------------------------------------------------------- */

/* Decides which positions of a part are kept and stored. */
QK_MUST_CHECK qk_status qk__part_choose(const qk_sink *sink, int64_t example_id, int64_t tokens,
                                        int layer, qk_kind kind, qk__part *part, qk_error *err);
QK_MUST_CHECK qk_status qk__choose_reservoir(const qk_sink *sink, int64_t example_id,
                                             qk_kind kind, qk__part *part, qk_error *err);

/* The part of a layer and kind, made if needed; the caller holds the mutex. *part is NULL where all of it has come, or
 * nothing is kept. */
QK_MUST_CHECK qk_status qk__part_get(qk_sink *sink, qk__text_block *block, qk__text *text,
                                     int layer, qk_kind kind, qk__part **part, qk_error *err);

/* A thread is done with a part, which is freed if all of it has come; the caller holds the mutex. */
void qk__part_leave(qk__text *text, size_t number);
void qk__text_free(const qk_sink *sink, qk__text *text);

static inline size_t qk__chunks_of(const qk__part *part)
{
    return (part->count + QK__CHUNK_ROWS - 1) / QK__CHUNK_ROWS;
}

static inline size_t qk__chunk_rows_of(const qk__part *part, size_t chunk)
{
    size_t left = part->count - chunk * QK__CHUNK_ROWS;
    return left < QK__CHUNK_ROWS ? left : QK__CHUNK_ROWS;
}

/* The head's place among the captured heads; count: it is not captured. */
size_t qk__head_place(const int *captured, size_t count, int head);

/* ---- sums.c ----------------------------------------------------------------------------- */

QK_MUST_CHECK qk_status qk__queues_create(qk_sink *sink, qk__text_block *block, qk_error *err);
void qk__queues_free(const qk_sink *sink, qk__text_block *block);
qk__queue *qk__queue_of(const qk_sink *sink, const qk__text_block *block, int set, int layer,
                        qk_kind kind);

/* Sums a chunk whose vectors are all there, and frees them. */
QK_MUST_CHECK qk_status qk__sum_chunk(qk_sink *sink, qk__text_block *block,
                                      const qk__text *text, const qk__part *part, int stage,
                                      int layer, qk_kind kind, size_t chunk, qk_error *err);

/* A text is done: chunks that wait for it may be added. */
QK_MUST_CHECK qk_status qk__sums_follow(qk_sink *sink, qk__text_block *block, qk_error *err);

/* Puts chunks of a text into the queue, and adds all whose turn it is. */
QK_MUST_CHECK qk_status qk__sums_push(qk_sink *sink, const qk__text_block *block, int set,
                                      int layer, qk_kind kind, qk__waiting *list,
                                      qk_error *err);

/* The shape of a part; attention has no keys, hence no heads of keys. */
qk__part_shape qk__part_shape_of(const qk_sink *sink, int set, int layer, qk_kind kind);

/* Memory of a chunk, new or of one that was added; the caller holds the mutex. */
QK_MUST_CHECK qk_status qk__spare_take(qk_sink *sink, qk__waiting **found, qk_error *err);
void qk__waiting_free(qk__waiting **list);

/* ---- write_rows.c, capture_facts.c ------------------------------------------------------ */

/* Makes the captures in .partial/new. */
QK_MUST_CHECK qk_status qk__write_captures(qk_sink *sink, qk_error *err);

/* The user's own keys for capture.json, to be released with json_decref. */
QK_MUST_CHECK qk_status qk__extra_keys(const qk_sink *sink, json_t **root, qk_error *err);

/* ---- publish.c -------------------------------------------------------------------------- */

/* Puts the finished captures into their place and removes the rest. */
QK_MUST_CHECK qk_status qk__output_publish(qk_sink *sink, qk_error *err);

/* Removes what a killed run left beside the output folder. */
void qk__publish_sweep(const char *output);

#endif
