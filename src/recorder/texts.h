/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of a run, one after another, from files of several formats.
 *
 *     read_texts.c     which files; texts numbered through all of them; a file that is a text
 *     text_jsonl.c     JSON: one text a line, or an item of a list
 *     text_csv.c       one text a row
 *     text_parquet.c   one text a row
 *     repeat_texts.c   no file: texts of random tokens */
#ifndef QK_RECORDER_TEXTS_H
#define QK_RECORDER_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/recorder.h>

#include "base/buffer.h"

/* COUNT texts of LENGTH random tokens, TIMES times. */
typedef struct qk__repeat {
    int64_t length, times, count;
    uint64_t seed;
} qk__repeat;

/* One text, as a format gives it. Its pointers are valid until the next call. */
typedef struct qk__input_text {
    const char *data;
    size_t size;
    bool has_id; /* id_column was given */
    int64_t id;
    const char *name; /* what id_column holds, as text; "" without */
    int64_t line;     /* or row, from 1; 0: the whole file is the text */
    const char *path; /* set by qk__texts_next */
    /* NULL: data is the text; else the text is number `number` of these */
    const qk__repeat *repeat;
    int64_t number;
} qk__input_text;

typedef struct qk__text_columns {
    const char *text;
    const char *id; /* NULL = none */
} qk__text_columns;

/* A format: opens a file, gives its texts (*more is false behind the last), closes, even what could not be opened.
 * Path and columns stay valid as long as the reader. Messages of `next` name line or row, and in CSV the file. */
typedef struct qk__text_format {
    size_t reader_size; /* of a reader, which is zeroed before it is opened */
    qk_status (*open)(void *reader, const char *path, const qk__text_columns *columns,
                      qk_error *err);
    qk_status (*next)(void *reader, qk__input_text *text, bool *more, qk_error *err);
    void (*close)(void *reader);
} qk__text_format;

extern const qk__text_format qk__text_json, qk__text_csv, qk__text_parquet, qk__text_repeat;

/* Whether a source names made-up texts, and which. */
bool qk__is_repeat(const char *source);
QK_MUST_CHECK qk_status qk__read_repeat(const char *source, qk__repeat *repeat, qk_error *err);
/* The first `wanted` tokens of a made-up text, drawn from `count` ids. */
void qk__draw_tokens(const qk__input_text *text, const int32_t *from, size_t count,
                     int32_t *tokens, size_t wanted);

/* Text and id of one line of JSON. `value` and `name` hold what text points to: a json_t for json_decref, and a buffer
 * to be freed. */
struct json_t;
QK_MUST_CHECK qk_status qk__jsonl_parse(const char *line, size_t size,
                                        const qk__text_columns *columns, struct json_t **value,
                                        qk__buffer *name, qk__input_text *text, qk_error *err);

typedef struct qk__texts qk__texts;

/* Finds the files. Errors: QK_ERR_NOT_FOUND, QK_ERR_DEGENERATE (no files). */
QK_MUST_CHECK qk_status qk__texts_open(qk__texts **texts, const qk_recorder_settings *settings,
                                       qk_error *err);
/* *more is false behind the last text. A text without an id gets its number. */
QK_MUST_CHECK qk_status qk__texts_next(qk__texts *texts, qk__input_text *text, bool *more,
                                       qk_error *err);
/* Back to the first text. */
void qk__texts_rewind(qk__texts *texts);
void qk__texts_close(qk__texts **texts);

#endif
