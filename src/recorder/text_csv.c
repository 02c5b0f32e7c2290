/* SPDX-License-Identifier: Apache-2.0 */
/* CSV and TSV: one text a row, in a column that the header names. */
#include <string.h>

#include "base/csv_reader.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "recorder/texts.h"

typedef struct csv_texts {
    qk__csv_reader *csv;
    size_t text, id;
} csv_texts;

static void close_reader(void *reader)
{
    qk__reader_close(&((csv_texts *)reader)->csv);
}

static qk_status open_reader(void *reader, const char *path, const qk__text_columns *columns,
                             qk_error *err)
{
    csv_texts *r = reader;
    QK_TRY(qk__reader_open(&r->csv, path, err));
    QK_TRY(qk__context(err, qk__reader_find(r->csv, columns->text, true, &r->text, err),
                       "--text-column"));
    r->id = QK__NO_COLUMN;
    return columns->id
               ? qk__context(err, qk__reader_find(r->csv, columns->id, true, &r->id, err),
                             "--id-column")
               : QK_OK;
}

static qk_status next_text(void *reader, qk__input_text *text, bool *more, qk_error *err)
{
    csv_texts *r = reader;
    QK_TRY(qk__reader_next(r->csv, more, err));
    if (!*more)
        return QK_OK;
    text->line = (int64_t)qk__reader_row(r->csv);
    text->data = qk__reader_text(r->csv, r->text);
    text->size = strlen(text->data);
    text->name = qk__reader_text(r->csv, r->id);
    text->has_id = r->id != QK__NO_COLUMN;
    if (text->has_id && !qk__parse_integer(text->name, &text->id))
        text->id = qk_example_id_of_text(text->name, strlen(text->name));
    return QK_OK;
}

const qk__text_format qk__text_csv = {sizeof(csv_texts), open_reader, next_text, close_reader};
