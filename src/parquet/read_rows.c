/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a column by rows: integers, byte strings, and vectors of one width. The levels must be those of
 * whole rows, and are compared with these a run at a time; values go straight to the caller. */
#include "parquet/reader.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "parquet/format.h"

enum { BATCH = 256 }; /* values converted at once */

/* The number of stored value i, of the column's type. */
static double number_at(const qk__cursor *c, const uint64_t *stored, size_t i)
{
    const uint8_t *at = (const uint8_t *)stored + i * c->type.element;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
    uint16_t f16;
    switch (c->type.type) {
    case QK_PARQUET_INT32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case QK_PARQUET_INT64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case QK_PARQUET_FLOAT:
        memcpy(&f32, at, sizeof f32);
        return f32;
    case QK_PARQUET_DOUBLE:
        memcpy(&f64, at, sizeof f64);
        return f64;
    default:
        memcpy(&f16, at, sizeof f16);
        return qk__half_to_float(f16);
    }
}

/* ---- integers --------------------------------------------------------------------------- */

static qk_status null_row(int64_t row, qk_error *err)
{
    return qk__fail(err, QK_ERR_INCONSISTENT, "row %lld is null", (long long)row);
}

/* The next n <= BATCH slots of the page: valid[i] says whether slot i has a value. */
static qk_status read_validity(qk__cursor *c, uint8_t *valid, size_t n, bool nulls_allowed,
                               size_t *present, qk_error *err)
{
    int max = c->leaf->info.max_definition;
    *present = n;
    if (max > 0 && !nulls_allowed) {
        size_t same = qk__rle_match(&c->definition, (uint32_t)max, n);
        if (same < n)
            return qk__rle_run(&c->definition) ? null_row(c->row + (int64_t)same, err)
                                               : qk__cursor_levels_end(c, err);
        max = 0;
    }
    if (max == 0) {
        memset(valid, 1, n);
        return QK_OK;
    }
    if (qk__rle_read_u8(&c->definition, valid, n) < n)
        return qk__cursor_levels_end(c, err);
    *present = 0;
    for (size_t i = 0; i < n; i++) {
        valid[i] = valid[i] == max;
        *present += valid[i];
    }
    return QK_OK;
}

static qk_status read_integers(qk__cursor *c, int64_t *out, size_t n, qk_error *err)
{
    if (c->type.type == QK_PARQUET_INT64)
        return qk__cursor_values(c, out, n, err);
    union {
        int32_t numbers[BATCH];
        uint8_t bits[BATCH]; /* of BOOLEAN */
    } read;
    QK_TRY(qk__cursor_values(c, &read, n, err));
    for (size_t i = 0; i < n; i++)
        out[i] = c->type.type == QK_PARQUET_INT32 ? read.numbers[i] : read.bits[i];
    return QK_OK;
}

static qk_status read_integer_slots(qk__cursor *c, int64_t *values, uint8_t *valid, size_t n,
                                    qk_error *err)
{
    uint8_t own[BATCH];
    uint8_t *flags = valid ? valid : own;
    int64_t packed[BATCH];
    size_t present;
    QK_TRY(read_validity(c, flags, n, valid != NULL, &present, err));
    if (present == n) {
        QK_TRY(read_integers(c, values, n, err));
    } else {
        QK_TRY(read_integers(c, packed, present, err));
        for (size_t i = 0, next = 0; i < n; i++)
            values[i] = flags[i] ? packed[next++] : 0;
    }
    qk__cursor_advance(c, n, (int64_t)n);
    return QK_OK;
}

/* Whole numbers kept as floating-point ones, in which other programs write integers that may
 * be missing: NaN is null, too. */
static qk_status read_whole_slots(qk__cursor *c, int64_t *values, uint8_t *valid, size_t n,
                                  qk_error *err)
{
    const double limit = 0x1p63;
    uint64_t stored[BATCH];
    size_t present;
    QK_TRY(read_validity(c, valid, n, true, &present, err));
    QK_TRY(qk__cursor_values(c, stored, present, err));
    for (size_t i = 0, next = 0; i < n; i++) {
        double number = valid[i] ? number_at(c, stored, next++) : 0;
        valid[i] = valid[i] && !isnan(number);
        values[i] = 0;
        if (!valid[i])
            continue;
        if (number != floor(number) || number < -limit || number >= limit)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "row %lld is %.17g, expected a whole number or null",
                            (long long)(c->row + (int64_t)i), number);
        values[i] = (int64_t)number;
    }
    qk__cursor_advance(c, n, (int64_t)n);
    return QK_OK;
}

static qk_status check_flat(const qk_parquet_column *info, qk_error *err)
{
    return info->max_repetition == 0 ? QK_OK
                                     : qk__fail(err, QK_ERR_INCONSISTENT,
                                                "is a list where one value a row is expected");
}

/* A column of Null type has no values to decode: its rows are counted from the footer. */
static qk_status read_null_type(qk__cursor *c, int64_t *values, uint8_t *valid, size_t max_rows,
                                size_t *rows, qk_error *err)
{
    int64_t left = c->end_row - c->row;
    size_t n = (uint64_t)left < max_rows ? (size_t)left : max_rows;
    if (n > 0 && !valid)
        return null_row(c->row, err);
    if (n > 0) {
        memset(values, 0, n * sizeof *values);
        memset(valid, 0, n);
    }
    c->row += (int64_t)n;
    *rows = n;
    return QK_OK;
}

static qk_status read_i64(qk__cursor *c, int64_t *values, uint8_t *valid, size_t max_rows,
                          size_t *rows, qk_error *err)
{
    const qk_parquet_column *info = &c->leaf->info;
    size_t done = 0;
    QK_TRY(check_flat(info, err));
    if (info->logical == QK_PARQUET_NULL)
        return read_null_type(c, values, valid, max_rows, rows, err);
    bool real = valid && (info->type == QK_PARQUET_FLOAT || info->type == QK_PARQUET_DOUBLE);
    if (!real && info->type != QK_PARQUET_INT32 && info->type != QK_PARQUET_INT64 &&
        info->type != QK_PARQUET_BOOLEAN)
        return qk__fail(err, QK_ERR_INCONSISTENT, "does not hold integers");
    while (done < max_rows) {
        QK_TRY(qk__cursor_fill(c, err));
        if (c->slots == 0)
            break;
        size_t n = max_rows - done < c->slots ? max_rows - done : c->slots;
        n = n < BATCH ? n : BATCH;
        if (real)
            QK_TRY(read_whole_slots(c, values + done, valid + done, n, err));
        else
            QK_TRY(read_integer_slots(c, values + done, valid ? valid + done : NULL, n, err));
        done += n;
    }
    *rows = done;
    return QK_OK;
}

qk_status qk__cursor_read_i64(qk__cursor *cursor, int64_t *values, uint8_t *valid,
                              size_t max_rows, size_t *rows, qk_error *err)
{
    *rows = 0;
    QK_TRY(qk__cursor_check(cursor, err));
    return qk__cursor_result(cursor, read_i64(cursor, values, valid, max_rows, rows, err), err);
}

/* ---- byte strings ----------------------------------------------------------------------- */

static qk_status read_string(qk__cursor *c, qk__bytes *string, bool *more, qk_error *err)
{
    uint8_t valid;
    size_t present;
    QK_TRY(check_flat(&c->leaf->info, err));
    if (c->type.type != QK_PARQUET_BYTE_ARRAY)
        return qk__fail(err, QK_ERR_INCONSISTENT, "does not hold strings");
    QK_TRY(qk__cursor_fill(c, err));
    *more = c->slots > 0;
    if (!*more)
        return QK_OK;
    QK_TRY(read_validity(c, &valid, 1, true, &present, err));
    QK_TRY(qk__cursor_values(c, string, present, err));
    if (present > 0 && !string->data)
        string->data = (const uint8_t *)"";
    qk__cursor_advance(c, 1, 1);
    return QK_OK;
}

qk_status qk__cursor_read_string(qk__cursor *cursor, qk__bytes *string, bool *more,
                                 qk_error *err)
{
    *string = (qk__bytes){0};
    *more = false;
    QK_TRY(qk__cursor_check(cursor, err));
    return qk__cursor_result(cursor, read_string(cursor, string, more, err), err);
}

/* ---- vectors ---------------------------------------------------------------------------- */

static qk_status check_numbers(const qk__cursor *c, qk_error *err)
{
    const qk_parquet_column *info = &c->leaf->info;
    if (info->max_repetition > 1)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "lists of lists are not supported");
    bool numbers = info->type == QK_PARQUET_FLOAT || info->type == QK_PARQUET_DOUBLE ||
                   info->type == QK_PARQUET_INT32 || info->type == QK_PARQUET_INT64 ||
                   info->logical == QK_PARQUET_FLOAT16;
    if (!numbers || info->logical == QK_PARQUET_NULL)
        return qk__fail(err, QK_ERR_INCONSISTENT, "does not hold numbers");
    return QK_OK;
}

/* The same as a float32, rounded once: a 64-bit integer must not pass through a double. */
static float float_at(const qk__cursor *c, const uint64_t *stored, size_t i)
{
    int64_t i64;
    if (c->type.type != QK_PARQUET_INT64)
        return (float)number_at(c, stored, i);
    memcpy(&i64, stored + i, sizeof i64);
    return (float)i64;
}

/* Where the numbers go: exactly one is set. */
typedef struct sink {
    float *f32;
    double *f64;
} sink;

static qk_status read_converted(qk__cursor *c, sink out, size_t at, size_t n, qk_error *err)
{
    uint64_t stored[BATCH];
    for (size_t done = 0; done < n; done += BATCH) {
        size_t take = n - done < BATCH ? n - done : BATCH;
        QK_TRY(qk__cursor_values(c, stored, take, err));
        for (size_t i = 0; i < take; i++) {
            if (out.f32)
                out.f32[at + done + i] = float_at(c, stored, i);
            else if (out.f64)
                out.f64[at + done + i] = number_at(c, stored, i);
        }
    }
    return QK_OK;
}

static qk_status read_values(qk__cursor *c, sink out, size_t at, size_t n, qk_error *err)
{
    if (out.f32 && c->type.type == QK_PARQUET_FLOAT)
        return qk__cursor_values(c, out.f32 + at, n, err);
    if (out.f64 && c->type.type == QK_PARQUET_DOUBLE)
        return qk__cursor_values(c, out.f64 + at, n, err);
    return read_converted(c, out, at, n, err);
}

static qk_status ragged(int64_t row, size_t found, size_t width, qk_error *err)
{
    return qk__fail(err, QK_ERR_INCONSISTENT, "row %lld has %zu values where %zu are expected",
                    (long long)row, found, width);
}

static qk_status too_long(int64_t row, size_t width, qk_error *err)
{
    return qk__fail(err, QK_ERR_INCONSISTENT, "row %lld has more than the %zu values expected",
                    (long long)row, width);
}

/* Takes the levels of the next n slots, of which the first is slot `at` of row `row` of this
 * call; they must spell whole rows without nulls. */
static qk_status match_levels(qk__cursor *c, size_t width, int64_t row, size_t at, size_t n,
                              qk_error *err)
{
    const qk_parquet_column *info = &c->leaf->info;
    size_t present = n, in_rows = n;
    size_t ones = at % width == 0 ? 0 : width - at % width;
    if (info->max_definition > 0)
        present = qk__rle_match(&c->definition, (uint32_t)info->max_definition, n);
    if (info->max_repetition > 0)
        in_rows = qk__rle_match_rows(&c->repetition, width, &ones, n);
    if (present == n && in_rows == n)
        return QK_OK;
    if ((present < n && !qk__rle_run(&c->definition)) ||
        (in_rows < n && !qk__rle_run(&c->repetition)))
        return qk__cursor_levels_end(c, err);
    size_t slot = at + (present < in_rows ? present : in_rows);
    row += (int64_t)(slot / width);
    if (in_rows <= present)
        return slot % width == 0 ? too_long(row - 1, width, err)
                                 : ragged(row, slot % width, width, err);
    return qk__fail(err, QK_ERR_INCONSISTENT, "row %lld is empty, null or holds a null",
                    (long long)row);
}

/* The row just read must end where the width says. */
static qk_status check_row_end(const qk__cursor *c, size_t width, qk_error *err)
{
    qk__rle next = c->repetition;
    if (c->leaf->info.max_repetition == 0 || c->slots == 0)
        return QK_OK;
    return qk__rle_match(&next, 1, 1) == 1 ? too_long(c->row - 1, width, err) : QK_OK;
}

static qk_status read_numbers(qk__cursor *c, sink out, size_t width, size_t max_rows,
                              size_t *rows, qk_error *err)
{
    if (width == 0 || max_rows > SIZE_MAX / sizeof(double) / width)
        return qk__fail(err, QK_ERR_ARGUMENT, "%zu rows of %zu values asked for", max_rows,
                        width);
    QK_TRY(check_numbers(c, err));
    if (c->leaf->info.max_repetition == 0 && width != 1)
        return qk__fail(err, QK_ERR_INCONSISTENT, "has 1 value a row where %zu are expected",
                        width);
    const size_t want = max_rows * width;
    const int64_t first_row = c->row;
    size_t done = 0;
    while (done < want) {
        if (c->slots == 0 && c->slots_beyond == 0 && done % width != 0)
            return ragged(c->row - 1, done % width, width, err);
        QK_TRY(qk__cursor_fill(c, err));
        if (c->slots == 0)
            break;
        size_t n = want - done < c->slots ? want - done : c->slots;
        QK_TRY(match_levels(c, width, first_row, done, n, err));
        QK_TRY(read_values(c, out, done, n, err));
        size_t begun = (done + width - 1) / width;
        done += n;
        qk__cursor_advance(c, n, (int64_t)((done + width - 1) / width - begun));
    }
    QK_TRY(check_row_end(c, width, err));
    *rows = done / width;
    return QK_OK;
}

qk_status qk__cursor_read_f32(qk__cursor *cursor, float *values, size_t width, size_t max_rows,
                              size_t *rows, qk_error *err)
{
    *rows = 0;
    QK_TRY(qk__cursor_check(cursor, err));
    sink out = {.f32 = values};
    return qk__cursor_result(cursor, read_numbers(cursor, out, width, max_rows, rows, err),
                             err);
}

qk_status qk__cursor_read_f64(qk__cursor *cursor, double *values, size_t width, size_t max_rows,
                              size_t *rows, qk_error *err)
{
    *rows = 0;
    QK_TRY(qk__cursor_check(cursor, err));
    sink out = {.f64 = values};
    return qk__cursor_result(cursor, read_numbers(cursor, out, width, max_rows, rows, err),
                             err);
}

static qk_status next_width(qk__cursor *c, size_t *width, qk_error *err)
{
    if (c->leaf->info.max_repetition > 1)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "lists of lists are not supported");
    QK_TRY(qk__cursor_fill(c, err));
    return c->slots > 0 ? qk__cursor_row_width(c, width, err) : QK_OK;
}

qk_status qk__cursor_next_width(qk__cursor *cursor, size_t *width, qk_error *err)
{
    *width = 0;
    QK_TRY(qk__cursor_check(cursor, err));
    return qk__cursor_result(cursor, next_width(cursor, width, err), err);
}
