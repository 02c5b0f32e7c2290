/* SPDX-License-Identifier: Apache-2.0 */
/* A run, as its parts see it.
 *
 *     recorder.c        the order of events; it leads the others
 *     select_heads.c    which heads
 *     encode.c          texts as tokens, in windows where they are too long
 *     survey.c          all texts, read through before anything is run; which rate of the
 *                       sampler keeps so many rows of them
 *     identity.c        what decides the bytes of the capture, and its fingerprint
 *     journal.c         how far an unfinished run has come
 *     output.c          the output folder: what may be done with it; the lock on .partial
 *     place.c           captures in a folder: which files are theirs
 *     spool.c           files of rows, one a head, while the run goes on
 *     group.c           some texts: tokens, forward pass, rows kept
 *     write_captures.c  spool -> Parquet
 *     describe.c        capture.json, card and table of examples
 *     card.c            lines for its card
 *     publish.c         finished captures take their place
 *     recording.c       what all of them need: names of stages, which heads are kept
 *
 * OUTPUT/.partial while it goes on:
 *
 *     journal.json           rewritten after every few groups of texts
 *     lock                   held by the process that writes here
 *     spool/l00h00q.post     rows so far; what lies behind the journal's count is not valid
 *     spool/examples         a line of JSON for each text
 *     spool/buckets          rows by bucket, when all texts are through
 *     new/                   the captures as OUTPUT will hold them, built when all texts are
 *                            through
 *     cleared                what had to give way in OUTPUT is gone */
#ifndef QK_RECORDER_RECORDING_H
#define QK_RECORDER_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/model.h>
#include <qkscope/recorder.h>

#include "base/fingerprint.h"
#include "capture/capture.h"
#include "recorder/texts.h"

/* State of a run that is written down. */
typedef struct qk__journal {
    bool writing;  /* all texts are through */
    bool built;    /* so are all files */
    bool replaces; /* begun with `force` */
    int64_t texts, tokens, empty, split, cut, skipped;
    int64_t windows;       /* run, of all texts */
    int64_t window;        /* of them, of the text behind the `texts` that are through */
    int64_t done_weight;   /* see qk__text_weight */
    int64_t example_bytes; /* valid in spool/examples */
    int64_t *rows;         /* [num_layers][2]: of each head of a layer and kind */
} qk__journal;

/* After and before RoPE. */
enum { QK__POST, QK__PRE, QK__STAGES };

typedef struct qk__recording {
    const qk_recorder_settings *settings;
    qk_recorder_outcome *outcome;
    int threads;
    qk_model *model;
    const qk_model_facts *facts;
    qk_tokenizer *tokenizer;
    char *model_name;
    int64_t max_length;
    qk_recorder_selection *selection;
    bool stages[QK__STAGES];
    size_t specials_before, specials_after; /* tokens that the tokenizer puts round a text */
    qk__texts *texts;
    int64_t num_texts, total_weight; /* of all texts */
    int64_t total_tokens;            /* that will be run; 0 = not counted */
    char texts_hash[33];
    qk_sampler sampler;
    bool chosen; /* its rate, from `rows` */
    double expected_rows;
    json_t *identity;
    char fingerprint[QK__FINGERPRINT_SIZE];
    char *partial; /* OUTPUT/.partial */
    char *spool;
    char *fresh; /* new captures, as OUTPUT will hold them */
    int lock;    /* descriptor, -1 = none */
    qk__journal journal;
} qk__recording;

/* ---- recording.c ------------------------------------------------------------------------ */

/* "post", "pre" */
const char *qk__stage_name(int stage);

/* Where the capture of a stage lies in a folder like OUTPUT; NULL when out of memory. */
char *qk__stage_folder(const qk__recording *r, const char *root, int stage);

static inline size_t qk__part(int layer, qk_kind kind)
{
    return 2 * (size_t)layer + (size_t)kind;
}

/* Whether a head of the model is kept. */
bool qk__is_kept(const qk__recording *r, qk_head_id id);
int qk__num_heads(const qk__recording *r, qk_kind kind);

void qk__recorder_notice(const qk__recording *r, qk_notice_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- encode.c --------------------------------------------------------------------------- */

/* A text as the model gets it: one window, or several, each with the special tokens of a text
 * of its own. */
typedef struct qk__encoded {
    qk_tokens tokens; /* of the whole text, or of what a cut has left */
    size_t windows;   /* 0: nothing is run */
    bool cut, skipped;
} qk__encoded;

/* tokens are to be freed. */
QK_MUST_CHECK qk_status qk__encode(const qk__recording *r, const qk__input_text *text,
                                   qk__encoded *encoded, qk_error *err);
/* Where a window begins in its text, and how many tokens it has with special ones. */
size_t qk__window_start(const qk__recording *r, size_t window);
size_t qk__window_tokens(const qk__recording *r, const qk__encoded *encoded, size_t window);
/* Tokens of a window, to be freed; those of the whole text if it is the only one. */
QK_MUST_CHECK qk_status qk__take_window(const qk__recording *r, qk__encoded *encoded,
                                        size_t window, qk_tokens *tokens, qk_error *err);

/* ---- survey.c --------------------------------------------------------------------------- */

/* Reads all texts once, then sets num_texts, total_weight, texts_hash and the sampler. */
QK_MUST_CHECK qk_status qk__survey(qk__recording *r, qk_error *err);

/* About how much work a text is, in bytes. */
int64_t qk__text_weight(const qk__recording *r, const qk__input_text *text);

/* "file" or "file:line", in place of what is in `name`. */
QK_MUST_CHECK qk_status qk__name_source(const qk__input_text *text, qk__buffer *name,
                                        qk_error *err);

/* ---- identity.c ------------------------------------------------------------------------- */

/* Sets identity and fingerprint. */
QK_MUST_CHECK qk_status qk__identify(qk__recording *r, qk_error *err);

/* Name of the first thing in which two identities differ; NULL when none does. */
const char *qk__identity_difference(const json_t *a, json_t *b);

/* ---- output.c --------------------------------------------------------------------------- */

/* Refuses at once an output folder in which there is something else. */
QK_MUST_CHECK qk_status qk__output_glance(const qk_recorder_settings *settings, qk_error *err);

/* Settles what this run may do: *complete is true when its capture is there already, else the
 * folder is prepared, locked, and the journal read or begun. */
QK_MUST_CHECK qk_status qk__output_open(qk__recording *r, bool *complete, qk_error *err);

/* Removes what a killed process has left beside the files of a capture. */
void qk__output_sweep(const char *folder);

/* ---- publish.c -------------------------------------------------------------------------- */

/* Puts the finished captures in their place and removes the rest. */
QK_MUST_CHECK qk_status qk__output_publish(qk__recording *r, qk_error *err);

/* Whether there is something to be put in its place: false when it was removed by hand. */
bool qk__publish_ready(const qk__recording *r);

/* Removes what a run that was killed has left beside the output folder. */
void qk__publish_sweep(const char *output);

/* ---- journal.c -------------------------------------------------------------------------- */

QK_MUST_CHECK qk_status qk__journal_write(const qk__recording *r, qk_error *err);

/* *found is false where there is none. identity is to be released. */
QK_MUST_CHECK qk_status qk__journal_read(qk__recording *r, bool *found, json_t **identity,
                                         qk_error *err);

/* ---- spool.c ---------------------------------------------------------------------------- */

/* A row of a head: this, then its vector. */
typedef struct qk__spool_row {
    int64_t example_id;
    int32_t position;
    int32_t token;
} qk__spool_row;

size_t qk__spool_row_bytes(const qk__recording *r);

/* NULL when out of memory. */
char *qk__spool_path(const qk__recording *r, int stage, qk_head_id id);

/* An open descriptor, the file created if need be. */
QK_MUST_CHECK qk_status qk__spool_open(const qk__recording *r, int stage, qk_head_id id,
                                       int *fd, qk_error *err);
QK_MUST_CHECK qk_status qk__spool_write(int fd, const void *data, size_t size, int64_t offset,
                                        qk_error *err);

/* Appends lines of examples behind those that are valid. */
QK_MUST_CHECK qk_status qk__spool_examples(const qk__recording *r, const qk__buffer *lines,
                                           qk_error *err);

/* Makes sure that everything written so far is on the disk. */
QK_MUST_CHECK qk_status qk__spool_sync(const qk__recording *r, qk_error *err);

/* ---- group.c ---------------------------------------------------------------------------- */

/* Runs all texts that the journal does not have. */
QK_MUST_CHECK qk_status qk__run_texts(qk__recording *r, qk_error *err);

/* ---- write_captures.c, describe.c ------------------------------------------------------- */

/* Makes the captures in .partial/new of the spool. */
QK_MUST_CHECK qk_status qk__write_captures(qk__recording *r, qk_error *err);

/* For the card, while the spool has all rows. */
QK_MUST_CHECK qk_status qk__count_buckets(const qk__recording *r, qk_error *err);
QK_MUST_CHECK qk_status qk__write_card(const qk__recording *r, int stage, qk__buffer *out,
                                       qk_error *err);

/* Keys for capture.json and lines for the card of one stage, to be freed. */
QK_MUST_CHECK qk_status qk__describe(const qk__recording *r, int stage, char **json,
                                     char **card, qk_error *err);

/* Writes dir/examples.csv. */
QK_MUST_CHECK qk_status qk__write_examples(const qk__recording *r, const char *dir,
                                           qk_error *err);

#endif
