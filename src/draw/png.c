/* SPDX-License-Identifier: Apache-2.0 */
/* Draws signs into a bitmap, and writes it as a PNG with a palette (zlib packs it). */
#include "draw/png.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"

enum { MOST_PIXELS = 1 << 26 };

qk_status qk__bitmap_make(qk__bitmap *bitmap, size_t width, size_t height, qk_error *err)
{
    *bitmap = (qk__bitmap){.count = 1};
    if (width == 0 || height == 0 || width > MOST_PIXELS / height)
        return qk__fail(err, QK_ERR_ARGUMENT, "a picture of %zu x %zu pixels", width, height);
    bitmap->pixels = qk__calloc(width, height);
    if (!bitmap->pixels)
        return qk__nomem(err);
    bitmap->width = width;
    bitmap->height = height;
    return QK_OK;
}

void qk__bitmap_free(qk__bitmap *bitmap)
{
    free(bitmap->pixels);
    *bitmap = (qk__bitmap){0};
}

/* Half the width of a sign at a height beside its middle; negative: none. */
static double half_width(qk__sign sign, double radius, double y)
{
    const double up = 1.15 * radius;
    if (sign == QK__UP)
        return y < -up || y > 0.675 * up ? -1 : 1.17 * up * (y + up) / (1.675 * up);
    return y * y > radius * radius ? -1 : sqrt(radius * radius - y * y);
}

void qk__bitmap_sign(qk__bitmap *bitmap, qk__sign sign, double x, double y, double radius,
                     uint8_t color)
{
    const double reach = 1.4 * radius + 1, width = (double)bitmap->width;
    const double height = (double)bitmap->height;
    if (!(x > -reach && x < width + reach && y > -reach && y < height + reach))
        return;
    const int first = (int)fmax(0, floor(y - reach)),
              last = (int)fmin(height - 1, ceil(y + reach));
    for (int row = first; row <= last; row++) {
        double half = half_width(sign, radius, row + 0.5 - y);
        if (half < 0)
            continue;
        int left = (int)fmax(0, ceil(x - half - 0.5));
        int right = (int)fmin(width - 1, floor(x + half - 0.5));
        if (left > right && radius < 1 && row == (int)floor(y)) /* smaller than a pixel */
            left = right = (int)fmin(width - 1, fmax(0, floor(x)));
        for (int column = left; column <= right; column++)
            bitmap->pixels[(size_t)row * bitmap->width + (size_t)column] = color;
    }
}

/* ---- PNG -------------------------------------------------------------------------------- */

static void put_word(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Length, name, contents, and a checksum of the last two. */
static qk_status put_chunk(qk__buffer *out, const char *name, const uint8_t *data, size_t size,
                           qk_error *err)
{
    uint8_t word[4];
    put_word(word, (uint32_t)size);
    QK_TRY(qk__buffer_append(out, word, 4, err));
    QK_TRY(qk__buffer_append(out, name, 4, err));
    QK_TRY(qk__buffer_append(out, data, size, err));
    uLong sum = crc32(0, (const Bytef *)name, 4);
    put_word(word, (uint32_t)(size > 0 ? crc32(sum, data, (uInt)size) : sum));
    return qk__buffer_append(out, word, 4, err);
}

/* Rows as PNG has them: a byte that says how they are told (as they are), then pixels of so many bits. */
static uint8_t *pack_rows(const qk__bitmap *bitmap, size_t bits, size_t *size)
{
    const size_t row = (bitmap->width * bits + 7) / 8 + 1;
    uint8_t *rows = qk__calloc(bitmap->height, row);
    *size = bitmap->height * row;
    for (size_t y = 0; rows && y < bitmap->height; y++)
        for (size_t x = 0; x < bitmap->width; x++)
            rows[y * row + 1 + x * bits / 8] |=
                (uint8_t)(bitmap->pixels[y * bitmap->width + x] << (8 - bits - x * bits % 8));
    return rows;
}

static qk_status put_pixels(const qk__bitmap *bitmap, size_t bits, qk__buffer *out,
                            qk_error *err)
{
    size_t size;
    uint8_t *rows = pack_rows(bitmap, bits, &size);
    uLongf packed_size = compressBound((uLong)size);
    uint8_t *packed = rows ? qk__calloc(packed_size, 1) : NULL;
    qk_status status = packed ? QK_OK : qk__nomem(err);
    if (status == QK_OK && compress2(packed, &packed_size, rows, (uLong)size, 6) != Z_OK)
        status = qk__nomem(err);
    if (status == QK_OK)
        status = put_chunk(out, "IDAT", packed, packed_size, err);
    free(packed);
    free(rows);
    return status;
}

qk_status qk__png_write(const qk__bitmap *bitmap, qk__buffer *out, qk_error *err)
{
    static const uint8_t CLEAR[1] = {0};
    const size_t bits = bitmap->count <= 2    ? 1
                        : bitmap->count <= 4  ? 2
                        : bitmap->count <= 16 ? 4
                                              : 8;
    uint8_t header[13] = {[8] = (uint8_t)bits, [9] = 3 /* of a palette */};
    put_word(header, (uint32_t)bitmap->width);
    put_word(header + 4, (uint32_t)bitmap->height);
    QK_TRY(qk__buffer_append(out, "\x89PNG\r\n\x1a\n", 8, err));
    QK_TRY(put_chunk(out, "IHDR", header, sizeof header, err));
    QK_TRY(put_chunk(out, "PLTE", bitmap->colors[0], 3 * bitmap->count, err));
    QK_TRY(put_chunk(out, "tRNS", CLEAR, 1, err));
    QK_TRY(put_pixels(bitmap, bits, out, err));
    return put_chunk(out, "IEND", NULL, 0, err);
}
