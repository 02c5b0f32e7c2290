/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rows of a CSV file: it is parsed a block at a time, and the rows of a block wait here. */
#include "base/csv_reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "base/utf8.h"

enum {
    BLOCK_BYTES = 1 << 16,
    MAX_FIELD = 1 << 20,
    MAX_ROW = 1 << 22,
    MAX_COLUMNS = 4096,
    MAX_LOADED = 1 << 28,
    MAX_SHOWN = 60 /* bytes of a field in a message */
};

/* A complete row that waits: its fields are field_start[first .. first + columns - 1]. */
typedef struct waiting_row {
    size_t first, number;
} waiting_row;

/* Where in a row the parser is. A quotation mark in a quoted field is its end, or the first of two
 * that stand for one. */
typedef enum place { ROW_BEGINS, FIELD_BEGINS, IN_PLAIN, IN_QUOTED, BEHIND_QUOTE } place;

struct qk__csv_reader {
    int fd;
    char *path;
    bool begun, ended; /* the file */
    char separator;

    /* Fields one behind the other, each with a zero byte behind it. The last ones may belong to an incomplete
     * row, and the very last may be a part of a field. */
    qk__buffer text;
    size_t *field_start;
    size_t num_fields, field_capacity;
    waiting_row *rows;
    size_t num_rows, row_capacity;
    size_t next_row; /* the first that was not given out */

    place place;
    size_t row_first;  /* first field of the row being parsed */
    size_t row_number; /* its number */
    size_t field_at;   /* where the field that is parsed begins in the text */
    bool after_cr;     /* a LF now belongs to the CR before it */

    qk__buffer header; /* names, each with a zero byte behind it */
    size_t num_columns;
    size_t *name_start;

    const waiting_row *row; /* the current row */
    char block[BLOCK_BYTES];
};

/* ---- the parser ------------------------------------------------------------------------- */

/* parse_block has made room for the zero byte. */
static qk_status end_field(qk__csv_reader *r, qk_error *err)
{
    size_t limit = r->num_columns > 0 ? r->num_columns : MAX_COLUMNS;
    size_t before = r->num_fields - r->row_first;
    if (before == limit)
        return r->num_columns > 0 ? qk__fail(err, QK_ERR_MALFORMED,
                                             "%s: row %zu: more than the %zu fields of "
                                             "the header",
                                             r->path, r->row_number, limit)
                                  : qk__fail(err, QK_ERR_MALFORMED, "%s: more than %d columns",
                                             r->path, MAX_COLUMNS);
    size_t row_bytes = before > 0 ? r->field_at - r->field_start[r->row_first] : 0;
    size_t size = r->text.size - r->field_at;
    if (size > MAX_FIELD || row_bytes > MAX_ROW - size)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s: row %zu: too long (fields of up to %d, rows "
                        "of up to %d bytes)",
                        r->path, r->row_number, MAX_FIELD, MAX_ROW);
    if (r->num_fields == r->field_capacity) {
        size_t *grown = qk__grow(r->field_start, &r->field_capacity, sizeof *grown);
        if (!grown)
            return qk__nomem(err);
        r->field_start = grown;
    }
    r->field_start[r->num_fields++] = r->field_at;
    r->text.data[r->text.size++] = 0;
    r->field_at = r->text.size;
    r->place = FIELD_BEGINS;
    return QK_OK;
}

static qk_status end_row(qk__csv_reader *r, qk_error *err)
{
    QK_TRY(end_field(r, err));
    size_t fields = r->num_fields - r->row_first;
    if (r->num_columns == 0)
        r->num_columns = fields; /* the header */
    if (fields != r->num_columns)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s: row %zu: %zu fields, but the header has %zu", r->path,
                        r->row_number, fields, r->num_columns);
    if (r->num_rows == r->row_capacity) {
        waiting_row *grown = qk__grow(r->rows, &r->row_capacity, sizeof *grown);
        if (!grown)
            return qk__nomem(err);
        r->rows = grown;
    }
    r->rows[r->num_rows++] = (waiting_row){r->row_first, r->row_number};
    r->row_first = r->num_fields;
    r->place = ROW_BEGINS;
    return QK_OK;
}

/* At a LF or CR outside quotes. */
static qk_status end_line(qk__csv_reader *r, char c, qk_error *err)
{
    bool blank = r->place == ROW_BEGINS;
    bool second_half = blank && c == '\n' && r->after_cr;
    r->after_cr = c == '\r';
    if (!blank)
        QK_TRY(end_row(r, err));
    r->row_number += second_half ? 0 : 1;
    return QK_OK;
}

static qk_status parse_character(qk__csv_reader *r, char c, qk_error *err)
{
    bool quote = c == '"';
    if (c == 0)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: row %zu: a zero byte; this is not text",
                        r->path, r->row_number);
    if (quote && r->place <= FIELD_BEGINS) {
        r->place = IN_QUOTED;
        return QK_OK;
    }
    if (quote && r->place == IN_QUOTED) {
        r->place = BEHIND_QUOTE;
        return QK_OK;
    }
    if (quote && r->place == BEHIND_QUOTE) {
        r->place = IN_QUOTED;
    } else if (r->place != IN_QUOTED) {
        if (c == r->separator)
            return end_field(r, err);
        if (c == '\n' || c == '\r')
            return end_line(r, c, err);
        if (quote || r->place == BEHIND_QUOTE)
            return qk__fail(err, QK_ERR_MALFORMED,
                            "%s: row %zu: a quotation mark in a field that is not quoted, or "
                            "text behind a quoted one",
                            r->path, r->row_number);
        r->place = IN_PLAIN;
    }
    r->text.data[r->text.size++] = (unsigned char)c;
    return QK_OK;
}

/* The last row may lack its line end. */
static qk_status end_file(qk__csv_reader *r, qk_error *err)
{
    if (r->place == IN_QUOTED)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: row %zu: a quoted field does not end",
                        r->path, r->row_number);
    return r->place == ROW_BEGINS ? QK_OK : end_row(r, err);
}

/* ---- blocks ----------------------------------------------------------------------------- */

static qk_status read_block(qk__csv_reader *r, size_t *size, qk_error *err)
{
    for (*size = 0; *size < BLOCK_BYTES;) {
        ssize_t got = read(r->fd, r->block + *size, BLOCK_BYTES - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return qk__fail(err, QK_ERR_IO, "%s: cannot read: %s", r->path, strerror(errno));
        if (got == 0)
            break;
        *size += (size_t)got;
    }
    return QK_OK;
}

/* Drops the rows that were given out; the fields of the incomplete row move to the front. */
static void compact(qk__csv_reader *r)
{
    size_t kept = r->num_fields - r->row_first;
    size_t start = kept > 0 ? r->field_start[r->row_first] : r->field_at;
    if (r->text.size > start)
        memmove(r->text.data, r->text.data + start, r->text.size - start);
    r->text.size -= start;
    r->field_at -= start;
    for (size_t i = 0; i < kept; i++)
        r->field_start[i] = r->field_start[r->row_first + i] - start;
    r->num_fields = kept;
    r->row_first = r->num_rows = r->next_row = 0;
}

/* Copies bytes without a meaning, most of a table; returns where the next byte with a meaning is. */
static size_t copy_plain(qk__csv_reader *r, size_t first, size_t size)
{
    static const bool MEANS_MORE[256] = {
        [0] = true, ['"'] = true, [','] = true, ['\t'] = true, ['\n'] = true, ['\r'] = true};
    /* All of these are below '-', as few others are: eight bytes at a time, as long as none is. */
    const uint64_t each = UINT64_C(0x0101010101010101);
    unsigned char *text = r->text.data + r->text.size;
    size_t end = first;
    for (uint64_t word; end + sizeof word <= size; end += sizeof word) {
        memcpy(&word, r->block + end, sizeof word);
        memcpy(text + (end - first), &word, sizeof word);
        if ((word - '-' * each) & ~word & 0x80 * each)
            break;
    }
    for (; end < size && !MEANS_MORE[(unsigned char)r->block[end]]; end++)
        text[end - first] = (unsigned char)r->block[end];
    if (end > first) {
        r->text.size += end - first;
        r->place = IN_PLAIN;
    }
    return end;
}

/* The next block; its rows join those that wait. */
static qk_status parse_block(qk__csv_reader *r, qk_error *err)
{
    size_t size;
    QK_TRY(read_block(r, &size, err));
    size_t mark = r->begun ? 0 : qk__utf8_mark(r->block, size);
    r->begun = true;
    /* Every field has a zero byte in the place of what ends it; the file may end the last, and a word is copied whole. */
    QK_TRY(qk__buffer_reserve(&r->text, r->text.size + size + 1 + sizeof(uint64_t), err));
    for (size_t i = mark; i < size; i++) {
        if (r->place <= IN_PLAIN)
            i = copy_plain(r, i, size);
        if (i < size)
            QK_TRY(parse_character(r, r->block[i], err));
    }
    if (r->text.size - r->field_at > MAX_FIELD)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: row %zu: a field of more than %d bytes",
                        r->path, r->row_number, MAX_FIELD);
    r->ended = size < BLOCK_BYTES;
    return r->ended ? end_file(r, err) : QK_OK;
}

/* Parses blocks until a row is complete or the file ends. */
static qk_status fill_row(qk__csv_reader *r, qk_error *err)
{
    compact(r);
    while (r->num_rows == 0 && !r->ended)
        QK_TRY(parse_block(r, err));
    return QK_OK;
}

/* ---- opening ---------------------------------------------------------------------------- */

/* The first row becomes the header. */
static qk_status take_header(qk__csv_reader *r, qk_error *err)
{
    QK_TRY(fill_row(r, err));
    if (r->num_rows == 0)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: empty: there is no header", r->path);
    r->next_row = 1;
    r->name_start = qk__calloc(r->num_columns, sizeof *r->name_start);
    if (!r->name_start)
        return qk__nomem(err);
    size_t end = r->num_fields > r->num_columns ? r->field_start[r->num_columns] : r->field_at;
    memcpy(r->name_start, r->field_start, r->num_columns * sizeof *r->name_start);
    return qk__buffer_append(&r->header, r->text.data, end, err);
}

qk_status qk__reader_open(qk__csv_reader **reader, const char *path, qk_error *err)
{
    *reader = NULL;
    qk__csv_reader *r = calloc(1, sizeof *r);
    if (!r)
        return qk__nomem(err);
    r->fd = -1;
    r->row_number = 1;
    r->separator = qk__ends_with_any_case(path, ".tsv") ? '\t' : ',';
    r->path = qk__strdup(path);
    int64_t bytes;
    qk_status status = r->path ? qk__open_file(path, &r->fd, &bytes, err) : qk__nomem(err);
    if (status == QK_OK)
        status = take_header(r, err);
    if (status == QK_OK)
        *reader = r;
    else
        qk__reader_close(&r);
    return status;
}

void qk__reader_close(qk__csv_reader **reader)
{
    qk__csv_reader *r = *reader;
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    qk__buffer_free(&r->text);
    qk__buffer_free(&r->header);
    free(r->field_start);
    free(r->rows);
    free(r->name_start);
    free(r->path);
    free(r);
    *reader = NULL;
}

/* ---- columns and fields ----------------------------------------------------------------- */

const char *qk__reader_path(const qk__csv_reader *reader)
{
    return reader->path;
}

size_t qk__reader_num_columns(const qk__csv_reader *reader)
{
    return reader->num_columns;
}

const char *qk__reader_column_name(const qk__csv_reader *reader, size_t column)
{
    return (const char *)reader->header.data + reader->name_start[column];
}

qk_status qk__reader_find(const qk__csv_reader *reader, const char *name, bool required,
                          size_t *column, qk_error *err)
{
    *column = QK__NO_COLUMN;
    for (size_t i = 0; i < reader->num_columns; i++) {
        if (strcmp(qk__reader_column_name(reader, i), name) != 0)
            continue;
        if (*column != QK__NO_COLUMN)
            return qk__fail(err, QK_ERR_MALFORMED, "%s: columns %zu and %zu are both '%s'",
                            reader->path, *column + 1, i + 1, name);
        *column = i;
    }
    if (*column == QK__NO_COLUMN && required)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: there is no column '%s'", reader->path,
                        name);
    return QK_OK;
}

qk_status qk__reader_next(qk__csv_reader *reader, bool *more, qk_error *err)
{
    *more = false;
    reader->row = NULL;
    if (reader->next_row == reader->num_rows)
        QK_TRY(fill_row(reader, err));
    if (reader->next_row < reader->num_rows) {
        reader->row = &reader->rows[reader->next_row++];
        *more = true;
    }
    return QK_OK;
}

qk_status qk__reader_load(qk__csv_reader *reader, size_t *rows, qk_error *err)
{
    *rows = 0;
    while (!reader->ended) {
        QK_TRY(parse_block(reader, err));
        if (reader->text.size > MAX_LOADED)
            return qk__fail(err, QK_ERR_MALFORMED, "%s: more than %d bytes", reader->path,
                            MAX_LOADED);
    }
    *rows = reader->num_rows - reader->next_row;
    return QK_OK;
}

void qk__reader_go(qk__csv_reader *reader, size_t row)
{
    reader->row = &reader->rows[reader->next_row + row];
}

size_t qk__reader_row(const qk__csv_reader *reader)
{
    return reader->row->number;
}

const char *qk__reader_text(const qk__csv_reader *reader, size_t column)
{
    if (column == QK__NO_COLUMN)
        return "";
    return (const char *)reader->text.data + reader->field_start[reader->row->first + column];
}

qk_status qk__reader_fail(const qk__csv_reader *reader, size_t column, qk_status status,
                          const char *what, qk_error *err)
{
    return qk__fail(err, status, "%s: row %zu, column '%.*s': '%.*s' %s", reader->path,
                    reader->row->number, MAX_SHOWN, qk__reader_column_name(reader, column),
                    MAX_SHOWN, qk__reader_text(reader, column), what);
}

qk_status qk__reader_number(const qk__csv_reader *reader, size_t column, double *value,
                            qk_error *err)
{
    const char *text = qk__reader_text(reader, column);
    *value = NAN;
    if (*text == 0 || qk__parse_number(text, value))
        return QK_OK;
    return qk__reader_fail(reader, column, QK_ERR_MALFORMED, "is not a number", err);
}

qk_status qk__reader_integer(const qk__csv_reader *reader, size_t column, int64_t least,
                             int64_t most, int64_t *value, qk_error *err)
{
    if (qk__parse_integer(qk__reader_text(reader, column), value) && *value >= least &&
        *value <= most)
        return QK_OK;
    *value = 0;
    return qk__reader_fail(reader, column, QK_ERR_MALFORMED,
                           "is not a whole number, or out of range", err);
}
