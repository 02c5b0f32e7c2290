/* SPDX-License-Identifier: Apache-2.0 */
/* How well a model predicts texts: the loss of each next token. docs/behaviour.md#loss */
#ifndef QKSCOPE_LOSS_H
#define QKSCOPE_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/recorder.h>

QK_BEGIN_DECLS

/* The loss of a token is -ln of the probability that the model gives it behind the tokens before it, in nats, 0 .. . A
 * text's first token has none. Losses below are means over tokens; NaN without tokens. */

/* A text, or a window of a long one, which is run as a text of its own. */
typedef struct qk_text_loss {
    const char *source; /* "file", or "file:line" */
    int64_t window;     /* 0, 1, .. */
    int64_t tokens;     /* that have a loss: all but the first */
    double loss;
} qk_text_loss;

/* Tokens at positions first .. last of their texts. */
typedef struct qk_position_loss {
    int64_t first, last; /* 1-1, 2-3, 4-7, .. */
    int64_t tokens;
    double loss;
} qk_position_loss;

typedef struct qk_losses {
    const char *model;
    int64_t tokens;
    double loss, perplexity; /* exp(loss) */
    size_t num_texts;        /* that were run, and windows of long texts, in their order */
    const qk_text_loss *texts;
    size_t num_positions; /* ranges that have tokens */
    const qk_position_loss *positions;
    int64_t cut, skipped, empty; /* texts */
    double seconds;
} qk_losses;

/* Runs the model of settings (model, tokenizer, arithmetic) over its texts; settings of rows, heads and output have no
 * effect, and an engine is refused. The numbers depend neither on threads nor on how many texts are run together.
 * Release with qk_losses_free, which sets NULL and takes NULL. progress: "texts" that are read through, then "tokens".
 * Errors: those of qk_recorder_run about model and texts, of qk_prefill where the weights have no output layer,
 * QK_ERR_DEGENERATE (no text of two tokens). */
QK_API QK_MUST_CHECK qk_status qk_loss_run(const qk_recorder_settings *settings,
                                           qk_losses **losses, qk_error *err);
QK_API void qk_losses_free(qk_losses **losses);

QK_END_DECLS

#endif
