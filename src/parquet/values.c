/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the values of a page, and its dictionary: one row of a table for each encoding. */
#include "parquet/values.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "parquet/format.h"

enum { BATCH = 256 }; /* values that pass through a buffer on the stack */

static const struct {
    const char *name;
    size_t element;
} TYPES[] = {
    [QK_PARQUET_BOOLEAN] = {"BOOLEAN", 1},
    [QK_PARQUET_INT32] = {"INT32", 4},
    [QK_PARQUET_INT64] = {"INT64", 8},
    [QK_PARQUET_INT96] = {"INT96", 12},
    [QK_PARQUET_FLOAT] = {"FLOAT", 4},
    [QK_PARQUET_DOUBLE] = {"DOUBLE", 8},
    [QK_PARQUET_BYTE_ARRAY] = {"BYTE_ARRAY", sizeof(qk__bytes)},
    [QK_PARQUET_FIXED_LEN_BYTE_ARRAY] = {"FIXED_LEN_BYTE_ARRAY", 0},
};

const char *qk__parquet_type_name(qk_parquet_type type)
{
    return TYPES[type].name;
}

qk__value_type qk__value_type_of(const qk_parquet_column *column)
{
    bool fixed = column->type == QK_PARQUET_FIXED_LEN_BYTE_ARRAY;
    return (qk__value_type){column->type,
                            fixed ? (size_t)column->type_length : TYPES[column->type].element};
}

static qk_status too_short(const qk__values *values, qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, "%s values end too soon or are damaged",
                    qk_parquet_encoding_name(values->encoding));
}

/* One length-prefixed byte string. */
static bool take_bytes(const uint8_t **next, const uint8_t *end, qk__bytes *out)
{
    uint32_t size;
    if ((size_t)(end - *next) < sizeof size)
        return false;
    memcpy(&size, *next, sizeof size);
    if ((size_t)(end - *next) - sizeof size < size)
        return false;
    *out = (qk__bytes){*next + sizeof size, size};
    *next += sizeof size + size;
    return true;
}

/* ---- dictionaries ----------------------------------------------------------------------- */

static qk_status load_bytes(qk__value_dictionary *dictionary, const uint8_t *data, size_t size,
                            size_t num_values, qk_error *err)
{
    dictionary->bytes = malloc(size + 1);
    dictionary->elements = qk__alloc_aligned(num_values, sizeof(qk__bytes));
    if (!dictionary->bytes || (!dictionary->elements && num_values > 0))
        return qk__nomem(err);
    memcpy(dictionary->bytes, data, size);
    const uint8_t *next = dictionary->bytes, *end = next + size;
    for (size_t i = 0; i < num_values; i++) {
        qk__bytes bytes;
        if (!take_bytes(&next, end, &bytes))
            return qk__fail(err, QK_ERR_MALFORMED, "dictionary ends inside entry %zu", i);
        memcpy(dictionary->elements + i * sizeof bytes, &bytes, sizeof bytes);
    }
    return QK_OK;
}

qk_status qk__value_dictionary_load(qk__value_dictionary *dictionary, qk__value_type type,
                                    const uint8_t *data, size_t size, size_t num_values,
                                    qk_error *err)
{
    if (type.type == QK_PARQUET_BOOLEAN)
        return qk__fail(err, QK_ERR_MALFORMED, "dictionary of booleans");
    size_t least = type.type == QK_PARQUET_BYTE_ARRAY ? sizeof(uint32_t) : type.element;
    if (num_values > size / least)
        return qk__fail(err, QK_ERR_MALFORMED, "dictionary of %zu values in %zu bytes",
                        num_values, size);
    qk__value_dictionary_free(dictionary);
    dictionary->loaded = true;
    dictionary->count = (uint32_t)num_values;
    if (type.type == QK_PARQUET_BYTE_ARRAY)
        return load_bytes(dictionary, data, size, num_values, err);
    if (num_values == 0)
        return QK_OK;
    dictionary->elements = qk__alloc_aligned(num_values, type.element);
    if (!dictionary->elements)
        return qk__nomem(err);
    memcpy(dictionary->elements, data, num_values * type.element);
    return QK_OK;
}

void qk__value_dictionary_free(qk__value_dictionary *dictionary)
{
    free(dictionary->elements);
    free(dictionary->bytes);
    *dictionary = (qk__value_dictionary){0};
}

/* ---- dictionary indices ----------------------------------------------------------------- */

/* Copies dictionary entries; all indices are in range. */
static void gather_entries(const qk__values *v, const uint32_t *index, uint8_t *out, size_t n)
{
    const uint8_t *elements = v->dictionary->elements;
    size_t element = v->type.element;
    if (element == 4) {
        size_t i = 0;
        for (; i + 8 <= n; i += 8) {
            uint32_t some[8];
#pragma GCC unroll 8
            for (size_t j = 0; j < 8; j++)
                memcpy(&some[j], elements + 4 * (size_t)index[i + j], 4);
            memcpy(out + 4 * i, some, sizeof some);
        }
        for (; i < n; i++)
            memcpy(out + 4 * i, elements + 4 * (size_t)index[i], 4);
    } else if (element == 8)
        for (size_t i = 0; i < n; i++)
            memcpy(out + 8 * i, elements + 8 * (size_t)index[i], 8);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(out + element * i, elements + element * (size_t)index[i], element);
}

static bool lookup_repeated(const qk__values *v, uint8_t *out, size_t n)
{
    uint32_t index[BATCH];
    if (v->rle.value >= v->dictionary->count)
        return false;
    for (size_t i = 0; i < BATCH && i < n; i++)
        index[i] = v->rle.value;
    for (size_t done = 0; done < n; done += BATCH)
        gather_entries(v, index, out + done * v->type.element,
                       n - done < BATCH ? n - done : BATCH);
    return true;
}

/* Looks up the next `n` values of a packed run. The kernels start at a byte border, which is
 * where every eighth value starts: a batch that begins elsewhere takes the odd values first. */
static bool lookup_packed(const qk__values *v, uint8_t *out, size_t n)
{
    uint32_t index[BATCH];
    for (size_t done = 0, take; done < n; done += take) {
        size_t at = v->rle.index + done, odd = at % 8 == 0 ? 0 : 8 - at % 8;
        uint32_t largest = 0;
        take = n - done < BATCH ? n - done : BATCH;
        if (odd > 0) {
            take = odd < take ? odd : take;
            for (size_t i = 0; i < take; i++) {
                index[i] = qk__rle_packed_value(&v->rle, done + i);
                largest = index[i] > largest ? index[i] : largest;
            }
        } else {
            largest = v->kernel->unpack(v->rle.bits + at / 8 * v->rle.width, v->rle.width,
                                        index, take);
        }
        if (largest >= v->dictionary->count)
            return false;
        gather_entries(v, index, out + done * v->type.element, take);
    }
    return true;
}

static qk_status read_dictionary(qk__values *v, void *out, size_t n, qk_error *err)
{
    if (n > 0 && v->dictionary->count == 0)
        return qk__fail(err, QK_ERR_MALFORMED, "values refer to an empty dictionary");
    for (size_t done = 0; done < n;) {
        if (!qk__rle_run(&v->rle))
            return too_short(v, err);
        size_t take = v->rle.left < n - done ? v->rle.left : n - done;
        uint8_t *to = (uint8_t *)out + done * v->type.element;
        if (!(v->rle.packed ? lookup_packed(v, to, take) : lookup_repeated(v, to, take)))
            return qk__fail(err, QK_ERR_MALFORMED,
                            "dictionary index beyond the %u entries of the dictionary",
                            (unsigned)v->dictionary->count);
        qk__rle_advance(&v->rle, take);
        done += take;
    }
    return QK_OK;
}

/* ---- the other encodings ---------------------------------------------------------------- */

static qk_status read_plain_bytes(qk__values *v, qk__bytes *out, size_t n, qk_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!take_bytes(&v->next, v->end, &out[i]))
            return too_short(v, err);
    return QK_OK;
}

static qk_status read_plain_bits(qk__values *v, uint8_t *out, size_t n, qk_error *err)
{
    if (n > (size_t)(v->end - v->next) * 8 - v->index)
        return too_short(v, err);
    for (size_t i = 0; i < n; i++, v->index++)
        out[i] = v->next[v->index / 8] >> (v->index % 8) & 1;
    return QK_OK;
}

static qk_status read_plain(qk__values *v, void *out, size_t n, qk_error *err)
{
    if (v->type.type == QK_PARQUET_BYTE_ARRAY)
        return read_plain_bytes(v, out, n, err);
    if (v->type.type == QK_PARQUET_BOOLEAN)
        return read_plain_bits(v, out, n, err);
    if (n > (size_t)(v->end - v->next) / v->type.element)
        return too_short(v, err);
    if (n > 0)
        memcpy(out, v->next, n * v->type.element);
    v->next += n * v->type.element;
    return QK_OK;
}

static qk_status read_runs(qk__values *v, void *out, size_t n, qk_error *err)
{
    return qk__rle_read_u8(&v->rle, out, n) < n ? too_short(v, err) : QK_OK;
}

static qk_status read_delta(qk__values *v, void *out, size_t n, qk_error *err)
{
    uint64_t batch[BATCH];
    uint8_t *to = out;
    for (size_t done = 0; done < n;) {
        size_t take = n - done < BATCH ? n - done : BATCH;
        if (qk__delta_read(&v->delta, batch, take) < take)
            return too_short(v, err);
        if (v->type.element == 8)
            memcpy(to + 8 * done, batch, 8 * take);
        else
            for (size_t i = 0; i < take; i++)
                memcpy(to + 4 * (done + i), &batch[i], 4);
        done += take;
    }
    return QK_OK;
}

static qk_status read_delta_bytes(qk__values *v, void *out, size_t n, qk_error *err)
{
    qk__bytes *strings = out;
    for (size_t i = 0; i < n; i++) {
        uint64_t size;
        if (qk__delta_read(&v->delta, &size, 1) < 1 || size > (size_t)(v->end - v->next))
            return too_short(v, err);
        strings[i] = (qk__bytes){v->next, (size_t)size};
        v->next += size;
    }
    return QK_OK;
}

static qk_status read_split(qk__values *v, void *out, size_t n, qk_error *err)
{
    uint8_t *bytes = out;
    if (n > v->stride - v->index)
        return too_short(v, err);
    const uint8_t *src = v->next + v->index;
    size_t element = v->type.element;
    if (element == 4)
        v->kernel->join4(src, v->stride, out, n);
    else if (element == 8)
        v->kernel->join8(src, v->stride, out, n);
    else
        for (size_t i = 0; i < n; i++)
            for (size_t b = 0; b < element; b++)
                bytes[i * element + b] = src[b * v->stride + i];
    v->index += n;
    return QK_OK;
}

/* ---- starting a page -------------------------------------------------------------------- */

static qk_status begin_dictionary(qk__values *v, const uint8_t *data, size_t size,
                                  qk_error *err)
{
    if (!v->dictionary->loaded)
        return qk__fail(err, QK_ERR_MALFORMED, "dictionary-encoded page without a dictionary");
    unsigned width = size > 0 ? data[0] : 0;
    if (width > 32)
        return qk__fail(err, QK_ERR_MALFORMED, "dictionary indices of %u bits", width);
    qk__rle_init(&v->rle, data + (size > 0), size - (size > 0), width);
    return QK_OK;
}

static qk_status begin_delta(qk__values *v, const uint8_t *data, size_t size, qk_error *err)
{
    if (size > 0 && !qk__delta_init(&v->delta, data, size))
        return too_short(v, err);
    return QK_OK;
}

/* The lengths come first, the bytes follow them. */
static qk_status begin_delta_bytes(qk__values *v, const uint8_t *data, size_t size,
                                   qk_error *err)
{
    QK_TRY(begin_delta(v, data, size, err));
    v->next = size > 0 ? qk__delta_end(&v->delta) : data;
    return v->next ? QK_OK : too_short(v, err);
}

static qk_status begin_split(qk__values *v, const uint8_t *data, size_t size, qk_error *err)
{
    (void)data;
    if (size % v->type.element != 0)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%zu bytes of BYTE_STREAM_SPLIT are no whole number of values", size);
    v->stride = size / v->type.element;
    return QK_OK;
}

static qk_status begin_runs(qk__values *v, const uint8_t *data, size_t size, qk_error *err)
{
    uint32_t length = 0;
    if (size >= sizeof length)
        memcpy(&length, data, sizeof length);
    if (size > 0 && (size < sizeof length || length > size - sizeof length))
        return too_short(v, err);
    qk__rle_init(&v->rle, size > 0 ? data + sizeof length : data, length, 1);
    return QK_OK;
}

/* ---- the encodings ---------------------------------------------------------------------- */

enum {
    BITS = 1 << QK_PARQUET_BOOLEAN,
    INTS = 1 << QK_PARQUET_INT32 | 1 << QK_PARQUET_INT64,
    NUMBERS = INTS | 1 << QK_PARQUET_FLOAT | 1 << QK_PARQUET_DOUBLE,
    BYTES = 1 << QK_PARQUET_BYTE_ARRAY,
    FIXED = 1 << QK_PARQUET_FIXED_LEN_BYTE_ARRAY,
};

static const struct {
    int types; /* that it may hold, a bit each */
    qk_status (*begin)(qk__values *v, const uint8_t *data, size_t size, qk_error *err);
    qk_status (*read)(qk__values *v, void *out, size_t n, qk_error *err);
} ENCODINGS[] = {
    [ENC_PLAIN] = {BITS | NUMBERS | BYTES | FIXED, NULL, read_plain},
    [ENC_RLE] = {BITS, begin_runs, read_runs},
    [ENC_RLE_DICTIONARY] = {NUMBERS | BYTES | FIXED, begin_dictionary, read_dictionary},
    [ENC_DELTA_BINARY_PACKED] = {INTS, begin_delta, read_delta},
    [ENC_DELTA_LENGTH_BYTE_ARRAY] = {BYTES, begin_delta_bytes, read_delta_bytes},
    [ENC_BYTE_STREAM_SPLIT] = {NUMBERS | FIXED, begin_split, read_split},
};

qk_status qk__values_begin(qk__values *values, qk__value_type type, int encoding,
                           const qk__parquet_kernel *kernel,
                           const qk__value_dictionary *dictionary, const uint8_t *data,
                           size_t size, qk_error *err)
{
    if (encoding == ENC_PLAIN_DICTIONARY) /* its old name */
        encoding = ENC_RLE_DICTIONARY;
    bool known = encoding >= 0 && (size_t)encoding < sizeof ENCODINGS / sizeof *ENCODINGS;
    if (!known || !(ENCODINGS[encoding].types >> type.type & 1))
        return qk__fail(err, QK_ERR_UNSUPPORTED, "encoding %s (%d) of type %s is not supported",
                        qk_parquet_encoding_name(encoding), encoding,
                        qk__parquet_type_name(type.type));
    values->type = type;
    values->encoding = encoding;
    values->kernel = kernel;
    values->dictionary = dictionary;
    values->next = data;
    values->end = data + size;
    values->index = values->stride = 0;
    values->delta.left = values->delta.total = 0;
    return ENCODINGS[encoding].begin ? ENCODINGS[encoding].begin(values, data, size, err)
                                     : QK_OK;
}

qk_status qk__values_read(qk__values *values, void *out, size_t n, qk_error *err)
{
    return ENCODINGS[values->encoding].read(values, out, n, err);
}
