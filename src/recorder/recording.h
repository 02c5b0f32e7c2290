/* SPDX-License-Identifier: Apache-2.0 */
/* A run, as its parts see it.
 *
 *     recorder.c        the order of events; it leads the others
 *     select_heads.c    which heads
 *     encode.c          texts as tokens, in windows where they are too long
 *     survey.c          all texts, read through before anything is run; which rate of the
 *                       sampler keeps so many rows of them
 *     identity.c        what decides the bytes of the capture
 *     batch.c           some texts: tokens, forward pass, rows into the sink
 *     describe.c        keys for capture.json
 *     forecast.c        how long a capture will take
 *     card.c            lines for its card
 *     windows.c         texts, and windows of long ones, in order
 *     recording.c       failures of an engine
 *     loss.c            no capture, but how well texts are predicted
 *
 * The sink takes the rows: sink/sink.h. */
#ifndef QK_RECORDER_RECORDING_H
#define QK_RECORDER_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/model.h>
#include <qkscope/recorder.h>

#include "base/buffer.h"
#include "base/context.h"
#include "recorder/texts.h"

/* All texts, as the survey finds them. */
typedef struct qk__survey_counts {
    int64_t texts;
    /* sequences that are run, and empty texts: numbered, and in the table of examples */
    int64_t sequences;
    int64_t windows;             /* sequences that are run */
    int64_t tokens;              /* in the windows */
    int64_t empty;               /* texts without tokens */
    int64_t split, cut, skipped; /* texts that are too long */
    int64_t doubled; /* texts that already have what the tokenizer puts around them */
} qk__survey_counts;

typedef struct qk__recording {
    const qk_recorder_settings *settings;
    qk_recorder_outcome *outcome;
    qk_model *model;
    const qk_model_facts *facts;
    qk_tokenizer *tokenizer;
    char *model_name;
    int64_t max_length;
    qk_recorder_selection *selection;
    size_t specials_before, specials_after; /* tokens that the tokenizer puts around a text */
    qk__texts *texts;
    qk__buffer drawn; /* int32_t: the ids that made-up texts are drawn from */
    qk__survey_counts counts;
    qk__buffer sequences; /* int64_t of each text: its number of sequences */
    qk__buffer text_ids;  /* qk__text_print of each text */
    qk__buffer lengths;   /* int64_t of each window: its tokens */
    char texts_hash[33];
    qk_sampler sampler;
    bool chosen; /* its rate was chosen, from `rows` */
    double expected_rows;
    qk_keep keep;
    qk_sink *sink;
} qk__recording;

/* ---- recorder.c ------------------------------------------------------------------------- */

/* Opens model, tokenizer and texts of r->settings, and reads all texts once. To be closed even after a failure. */
QK_MUST_CHECK qk_status qk__recording_open(qk__recording *r, qk_error *err);
void qk__recording_close(qk__recording *r);

/* ---- recording.c ------------------------------------------------------------------------ */

/* The status after a function of the engine returned false. */
qk_status qk__engine_failed(const qk__recording *r, const char *what, qk_error *err);

/* ---- encode.c --------------------------------------------------------------------------- */

/* Texts of equal tokens are one text, with the id of the first. */
typedef struct qk__text_print {
    uint64_t tokens;           /* a checksum */
    int64_t id, number, first; /* first: number of the first text with this id */
    int64_t windows;
} qk__text_print;

/* A text as the model gets it: one window, or several, each with the special tokens of a whole text. */
typedef struct qk__encoded {
    qk_tokens tokens; /* of the whole text, or of the rest after a cut */
    size_t windows;   /* 0: nothing is run */
    bool cut, skipped;
} qk__encoded;

/* The tokens are to be freed. */
QK_MUST_CHECK qk_status qk__encode(const qk__recording *r, const qk__input_text *text,
                                   qk__encoded *encoded, qk_error *err);
/* Sets `drawn`: all tokens but special ones. */
QK_MUST_CHECK qk_status qk__list_drawn(qk__recording *r, qk_error *err);
/* Where a window begins in its text, and how many tokens it has with special tokens. */
size_t qk__window_start(const qk__recording *r, size_t window);
size_t qk__window_tokens(const qk__recording *r, const qk__encoded *encoded, size_t window);
/* The tokens of a window, to be freed; those of the whole text if it is the only window. */
QK_MUST_CHECK qk_status qk__take_window(const qk__recording *r, qk__encoded *encoded,
                                        size_t window, qk_tokens *tokens, qk_error *err);

/* ---- windows.c -------------------------------------------------------------------------- */

typedef struct qk__window {
    int64_t number;     /* among the windows of all texts */
    size_t window;      /* among the windows of its text */
    const char *source; /* of the text */
    qk_tokens tokens;   /* the visitor frees them */
} qk__window;

/* Calls visit for the windows first .. end - 1, in order. */
typedef qk_status qk__visit_window(void *user, qk__window *window, qk_error *err);
QK_MUST_CHECK qk_status qk__visit_windows(qk__recording *r, int64_t first, int64_t end,
                                          qk__visit_window *visit, void *user, qk_error *err);

/* ---- survey.c --------------------------------------------------------------------------- */

/* Reads all texts once, then sets counts, texts_hash and the sampler. */
QK_MUST_CHECK qk_status qk__survey(qk__recording *r, qk_error *err);

/* Tokens in a bucket where nothing else is asked for. */
int64_t qk__choose_bucket(qk_sampler_type type, int64_t longest);

/* "file" or "file:line", replaces what `name` has. */
QK_MUST_CHECK qk_status qk__name_source(const qk__input_text *text, qk__buffer *name,
                                        qk_error *err);

/* ---- identity.c ------------------------------------------------------------------------- */

/* What decides the bytes of the capture, as a JSON object to be freed. */
QK_MUST_CHECK qk_status qk__identify(const qk__recording *r, char **json, qk_error *err);

/* ---- batch.c ---------------------------------------------------------------------------- */

/* Runs all texts that the sink wants. */
QK_MUST_CHECK qk_status qk__run_texts(qk__recording *r, qk_error *err);

/* ---- describe.c, card.c ----------------------------------------------------------------- */

/* Keys for capture.json and lines for the card, to be freed. */
QK_MUST_CHECK qk_status qk__describe_capture(const qk__recording *r, char **json, char **card,
                                             qk_error *err);
QK_MUST_CHECK qk_status qk__write_card(const qk__recording *r, qk__buffer *out, qk_error *err);

#endif
