/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/text_ids.h"

#include <stdlib.h>

#include "base/csv_reader.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"

void qk__text_ids_free(qk__text_ids *ids)
{
    free(ids->of);
    *ids = (qk__text_ids){0};
}

/* *ours is false where the file does not tell texts: it is a foreign or an older file. */
static qk_status read_rows(qk__csv_reader *reader, bool *ours, qk__buffer *rows, qk_error *err)
{
    static const char *const NAMES[] = {"example_id", "text_id", "tokens", "tokens_xxh3"};
    enum { EXAMPLE, TEXT, TOKENS, PRINT };
    size_t column[4];
    bool more = true;
    for (int i = 0; i < 4; i++)
        QK_TRY(qk__reader_find(reader, NAMES[i], false, &column[i], err));
    *ours = column[EXAMPLE] != QK__NO_COLUMN && column[TEXT] != QK__NO_COLUMN;
    for (;;) {
        qk__text_id id = {0};
        QK_TRY(qk__reader_next(reader, &more, err));
        if (!more)
            return QK_OK;
        if (*ours)
            QK_TRY(qk__reader_integer(reader, column[EXAMPLE], INT64_MIN, INT64_MAX,
                                      &id.example, err));
        if (*ours)
            QK_TRY(
                qk__reader_integer(reader, column[TEXT], INT64_MIN, INT64_MAX, &id.text, err));
        QK_TRY(qk__reader_number(reader, column[TOKENS], &id.tokens, err));
        id.print = strtoull(qk__reader_text(reader, column[PRINT]), NULL, 16);
        QK_TRY(qk__buffer_append(rows, &id, sizeof id, err));
    }
}

static int compare_examples(const void *a, const void *b)
{
    int64_t x = ((const qk__text_id *)a)->example, y = ((const qk__text_id *)b)->example;
    return (x > y) - (x < y);
}

static int compare_texts(const void *a, const void *b)
{
    int64_t x = ((const qk__text_id *)a)->text, y = ((const qk__text_id *)b)->text;
    return (x > y) - (x < y);
}

static void count_texts(qk__text_ids *ids)
{
    qsort(ids->of, ids->count, sizeof *ids->of, compare_texts);
    for (size_t i = 0; i < ids->count; i++) {
        ids->texts += i == 0 || ids->of[i].text != ids->of[i - 1].text;
        ids->joined = ids->joined || ids->of[i].text != ids->of[i].example;
    }
    qsort(ids->of, ids->count, sizeof *ids->of, compare_examples);
}

qk_status qk__text_ids_read(qk__text_ids *ids, const qk_capture *capture, qk_error *err)
{
    const qk_capture_info *info = qk_capture_get_info(capture);
    qk__csv_reader *reader = NULL;
    qk__buffer rows = {0};
    qk__path path;
    bool ours = true;
    *ids = (qk__text_ids){0};
    QK_TRY(qk__path_in(&path, qk_capture_path(capture), "examples.csv", err));
    if (qk__is_file(path.text)) {
        qk_status status = qk__reader_open(&reader, path.text, err);
        if (status == QK_OK)
            status = read_rows(reader, &ours, &rows, err);
        qk__reader_close(&reader);
        if (status != QK_OK)
            qk__buffer_free(&rows);
        if (status != QK_OK && (ours || status == QK_ERR_NOMEM))
            return status;
    }
    ids->of = (qk__text_id *)(void *)rows.data;
    ids->count = rows.size / sizeof *ids->of;
    if (ids->count > 0 && ours)
        count_texts(ids);
    ids->unknown =
        ids->texts == 0 && info->num_texts > 0 && info->num_windows > info->num_texts;
    return QK_OK;
}

qk_status qk__text_ids_see(const qk__text_ids *ids, const qk_block *rows, qk__buffer *room,
                           qk_block *seen, qk_error *err)
{
    int64_t text = 0;
    *seen = *rows;
    if (!ids->joined || !rows->example)
        return QK_OK;
    room->size = 0;
    for (size_t i = 0; i < rows->rows; i++) {
        if (i == 0 || rows->example[i] != rows->example[i - 1]) {
            const qk__text_id wanted = {.example = rows->example[i]},
                              *found = bsearch(&wanted, ids->of, ids->count, sizeof *found,
                                               compare_examples);
            text = found ? found->text : rows->example[i];
        }
        QK_TRY(qk__buffer_append(room, &text, sizeof text, err));
    }
    seen->example = (const int64_t *)(const void *)room->data;
    return QK_OK;
}

qk_status qk__text_ids_parts(const qk__text_ids *ids, const qk_block *rows,
                             qk__text_parts *parts, qk_error *err)
{
    qk__buffer room = {0};
    qk_block seen;
    qk_status status = qk__text_ids_see(ids, rows, &room, &seen, err);
    if (status == QK_OK && !ids->unknown)
        status = qk__text_parts_of_rows(parts, &seen, QK_INTERVAL_GROUPS, err);
    qk__buffer_free(&room);
    return status;
}
