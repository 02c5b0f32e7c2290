/* SPDX-License-Identifier: Apache-2.0 */
/* All rows of a CSV file: their texts one behind the other, and where each begins. */
#include "results/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "results/csv_reader.h"
#include "results/grow.h"

static const size_t MAX_BYTES = (size_t)1 << 28;

typedef struct frame_row {
    size_t number; /* in the file */
    size_t first;  /* index of its first field */
} frame_row;

struct qk__frame {
    qk__csv_reader *reader; /* open until the end, for its header */
    size_t num_columns;
    qk__buffer text;
    size_t *starts; /* of each field in text */
    size_t num_fields, field_capacity;
    frame_row *rows;
    size_t num_rows, row_capacity;
};

static qk_status add_field(qk__frame *f, const char *text, qk_error *err)
{
    size_t size = strlen(text) + 1;
    if (size > MAX_BYTES - f->text.size)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: more than %zu bytes",
                        qk__reader_path(f->reader), MAX_BYTES);
    if (f->num_fields == f->field_capacity) {
        size_t *starts = qk__grow(f->starts, &f->field_capacity, sizeof *starts);
        if (!starts)
            return qk__nomem(err);
        f->starts = starts;
    }
    f->starts[f->num_fields++] = f->text.size;
    return qk__buffer_append(&f->text, text, size, err);
}

static qk_status add_row(qk__frame *f, qk_error *err)
{
    if (f->num_rows == f->row_capacity) {
        frame_row *rows = qk__grow(f->rows, &f->row_capacity, sizeof *rows);
        if (!rows)
            return qk__nomem(err);
        f->rows = rows;
    }
    f->rows[f->num_rows++] = (frame_row){qk__reader_row(f->reader), f->num_fields};
    for (size_t i = 0; i < f->num_columns; i++)
        QK_TRY(add_field(f, qk__reader_text(f->reader, i), err));
    return QK_OK;
}

static qk_status read_all(qk__frame *f, const char *path, qk_error *err)
{
    bool more;
    QK_TRY(qk__reader_open(&f->reader, path, err));
    f->num_columns = qk__reader_num_columns(f->reader);
    for (;;) {
        QK_TRY(qk__reader_next(f->reader, &more, err));
        if (!more)
            return QK_OK;
        QK_TRY(add_row(f, err));
    }
}

qk_status qk__frame_read(qk__frame **frame, const char *path, qk_error *err)
{
    *frame = NULL;
    qk__frame *f = calloc(1, sizeof *f);
    if (!f)
        return qk__nomem(err);
    qk_status status = read_all(f, path, err);
    if (status == QK_OK)
        *frame = f;
    else
        qk__frame_free(&f);
    return status;
}

void qk__frame_free(qk__frame **frame)
{
    qk__frame *f = *frame;
    if (!f)
        return;
    qk__reader_close(&f->reader);
    qk__buffer_free(&f->text);
    free(f->starts);
    free(f->rows);
    free(f);
    *frame = NULL;
}

size_t qk__frame_num_rows(const qk__frame *frame)
{
    return frame->num_rows;
}

size_t qk__frame_num_columns(const qk__frame *frame)
{
    return frame->num_columns;
}

const char *qk__frame_column_name(const qk__frame *frame, size_t column)
{
    return qk__reader_column_name(frame->reader, column);
}

qk_status qk__frame_find(const qk__frame *frame, const char *name, bool required,
                         size_t *column, qk_error *err)
{
    return qk__reader_find(frame->reader, name, required, column, err);
}

const char *qk__frame_text(const qk__frame *frame, size_t row, size_t column)
{
    if (column == QK__NO_COLUMN)
        return "";
    return (const char *)frame->text.data + frame->starts[frame->rows[row].first + column];
}

size_t qk__frame_row_number(const qk__frame *frame, size_t row)
{
    return frame->rows[row].number;
}

bool qk__frame_is_numeric(const qk__frame *frame, size_t column)
{
    bool any = false;
    for (size_t i = 0; i < frame->num_rows; i++) {
        const char *text = qk__frame_text(frame, i, column);
        double value;
        if (*text != 0 && !qk__parse_number(text, &value))
            return false;
        any |= *text != 0;
    }
    return any;
}

double qk__frame_number(const qk__frame *frame, size_t row, size_t column)
{
    double value;
    return qk__parse_number(qk__frame_text(frame, row, column), &value) ? value : NAN;
}
