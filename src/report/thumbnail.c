/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a PNG row by row, averaging 2 x 2 pixels, and writing what comes out with a palette.
 */
#include "report/thumbnail.h"

#include <stdlib.h>
#include <string.h>

#define ZLIB_CONST /* what it reads is const */
#include <zlib.h>

enum {
    MAX_SIDE = 1 << 14,
    BIN_BITS = 4, /* of a channel: colours that share these are one */
    NUM_BINS = 1 << (3 * BIN_BITS),
    MAX_COLORS = 256,
    MOST_DEFLATED = 1040, /* bytes that one of deflate can stand for, and some */
};

static const uint8_t SIGNATURE[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

bool qk__png_size(const qk_buffer *png, unsigned *width, unsigned *height)
{
    const uint8_t *p = png->data;
    if (png->size < 33 || memcmp(p, SIGNATURE, 8) != 0 || memcmp(p + 12, "IHDR", 4) != 0)
        return false;
    *width = big_endian(p + 16);
    *height = big_endian(p + 20);
    return *width > 1 && *height > 1 && *width <= MAX_SIDE && *height <= MAX_SIDE;
}

/* ---- reading
 * ---------------------------------------------------------------------------------- */

typedef struct reader {
    const qk_buffer *png;
    size_t next; /* chunk */
    z_stream stream;
    size_t channels, row_bytes;
} reader;

/* Hands the next IDAT chunk to the stream. */
static bool next_data(reader *r)
{
    while (r->png->size - r->next >= 12) {
        const uint8_t *chunk = r->png->data + r->next;
        size_t length = big_endian(chunk);
        if (length > r->png->size - r->next - 12)
            return false;
        r->next += length + 12;
        if (memcmp(chunk + 4, "IDAT", 4) == 0 && length > 0) {
            r->stream.next_in = chunk + 8;
            r->stream.avail_in = (uInt)length;
            return true;
        }
    }
    return false;
}

/* A filter byte and a row. */
static bool read_row(reader *r, uint8_t *row)
{
    r->stream.next_out = row;
    r->stream.avail_out = (uInt)(r->row_bytes + 1);
    while (r->stream.avail_out > 0) {
        if (r->stream.avail_in == 0 && !next_data(r))
            return false;
        int code = inflate(&r->stream, Z_NO_FLUSH);
        if (code != Z_OK && !(code == Z_STREAM_END && r->stream.avail_out == 0))
            return false;
    }
    return true;
}

static uint8_t paeth(int a, int b, int c)
{
    int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Undoes the filter of row[0] from the row above; both begin with their filter byte. */
static bool unfilter(const reader *r, uint8_t *row, const uint8_t *above)
{
    size_t step = r->channels;
    for (size_t i = 1; i <= r->row_bytes; i++) {
        int a = i > step ? row[i - step] : 0, b = above[i], c = i > step ? above[i - step] : 0;
        int add = row[0] == 0   ? 0
                  : row[0] == 1 ? a
                  : row[0] == 2 ? b
                  : row[0] == 3 ? (a + b) / 2
                                : paeth(a, b, c);
        row[i] = (uint8_t)(row[i] + add);
    }
    return row[0] <= 4;
}

/* The mean of 2 x 2 pixels, on white where they are transparent. */
static void average(const reader *r, const uint8_t *upper, const uint8_t *lower, uint8_t *out,
                    size_t width)
{
    for (size_t x = 0; x < width; x++)
        for (size_t c = 0; c < 3; c++) {
            unsigned sum = 0;
            for (size_t k = 0; k < 4; k++) {
                const uint8_t *p = (k < 2 ? upper : lower) + 1 + (2 * x + k % 2) * r->channels;
                unsigned alpha = r->channels == 4 ? p[3] : 255;
                sum += (p[c] * alpha + 255 * (255 - alpha)) / 255;
            }
            out[3 * x + c] = (uint8_t)((sum + 2) / 4);
        }
}

static bool read_half(reader *r, uint8_t *pixels, size_t width, size_t height)
{
    uint8_t *rows = qk__calloc(3, r->row_bytes + 1);
    uint8_t *upper = rows, *lower = rows ? rows + r->row_bytes + 1 : NULL;
    uint8_t *above = rows ? lower + r->row_bytes + 1 : NULL; /* zeros above the first */
    bool ok = rows != NULL;
    for (size_t y = 0; ok && y < height; y++) {
        ok = read_row(r, upper) && unfilter(r, upper, above) && read_row(r, lower) &&
             unfilter(r, lower, upper);
        if (ok) {
            average(r, upper, lower, pixels + 3 * width * y, width);
            memcpy(above, lower, r->row_bytes + 1);
        }
    }
    free(rows);
    return ok;
}

/* ---- colours
 * ---------------------------------------------------------------------------------- */

typedef struct bin {
    uint32_t count, sum[3];
    int index; /* in the palette */
} bin;

static size_t bin_of(const uint8_t *rgb)
{
    enum { SHIFT = 8 - BIN_BITS };
    return (size_t)(rgb[0] >> SHIFT) << (2 * BIN_BITS) | (size_t)(rgb[1] >> SHIFT) << BIN_BITS |
           (size_t)(rgb[2] >> SHIFT);
}

static int compare_bins(const void *a, const void *b)
{
    const bin *x = *(const bin *const *)a, *y = *(const bin *const *)b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return (x > y) - (x < y);
}

static int nearest(uint8_t palette[][3], int count, const uint8_t rgb[3])
{
    int best = 0, least = 1 << 30;
    for (int i = 0; i < count; i++) {
        int r = palette[i][0] - rgb[0], g = palette[i][1] - rgb[1], b = palette[i][2] - rgb[2];
        int distance = 2 * r * r + 4 * g * g + 3 * b * b;
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

/* The most frequent colours, each the mean of its bin; other bins take the nearest. Returns how
 * many, 0 without memory. */
static int make_palette(bin *bins, const uint8_t *pixels, size_t count,
                        uint8_t palette[MAX_COLORS][3])
{
    bin **order = qk__calloc(NUM_BINS, sizeof *order);
    size_t used = 0;
    for (size_t i = 0; order && i < count; i++) {
        bin *b = &bins[bin_of(pixels + 3 * i)];
        b->count++;
        for (int c = 0; c < 3; c++)
            b->sum[c] += pixels[3 * i + (size_t)c];
    }
    for (size_t i = 0; order && i < NUM_BINS; i++)
        if (bins[i].count > 0)
            order[used++] = &bins[i];
    if (order)
        qsort(order, used, sizeof(bin *), compare_bins);
    int colors = used < MAX_COLORS ? (int)used : MAX_COLORS;
    for (size_t i = 0; i < used; i++) {
        uint8_t mean[3];
        for (int c = 0; c < 3; c++)
            mean[c] = (uint8_t)((order[i]->sum[c] + order[i]->count / 2) / order[i]->count);
        if (i < MAX_COLORS)
            memcpy(palette[i], mean, 3);
        order[i]->index = i < MAX_COLORS ? (int)i : nearest(palette, colors, mean);
    }
    free(order);
    return colors;
}

/* ---- writing
 * ---------------------------------------------------------------------------------- */

static bool put_chunk(qk_buffer *out, const char *kind, const uint8_t *data, size_t size)
{
    uint8_t head[8], tail[4];
    uLong crc = crc32(0, (const Bytef *)kind, 4);
    if (size > 0)
        crc = crc32(crc, data, (uInt)size);
    for (int i = 0; i < 4; i++) {
        head[i] = (uint8_t)(size >> (24 - 8 * i));
        tail[i] = (uint8_t)(crc >> (24 - 8 * i));
    }
    memcpy(head + 4, kind, 4);
    return qk__buffer_append(out, head, 8, NULL) == QK_OK &&
           (size == 0 || qk__buffer_append(out, data, size, NULL) == QK_OK) &&
           qk__buffer_append(out, tail, 4, NULL) == QK_OK;
}

static bool put_picture(qk_buffer *out, const bin *bins, const uint8_t *pixels, size_t width,
                        size_t height, uint8_t palette[MAX_COLORS][3], int colors)
{
    uint8_t header[13] = {0};
    for (int i = 0; i < 4; i++) {
        header[i] = (uint8_t)(width >> (24 - 8 * i));
        header[4 + i] = (uint8_t)(height >> (24 - 8 * i));
    }
    header[8] = 8; /* bits */
    header[9] = 3; /* palette */
    size_t raw_size = (width + 1) * height;
    uLongf packed_size = compressBound((uLong)raw_size);
    uint8_t *raw = qk__calloc(raw_size, 1), *packed = qk__calloc(packed_size, 1);
    bool ok = raw && packed;
    for (size_t y = 0; ok && y < height; y++)
        for (size_t x = 0; x < width; x++)
            raw[y * (width + 1) + 1 + x] =
                (uint8_t)bins[bin_of(pixels + 3 * (y * width + x))].index;
    ok = ok && compress2(packed, &packed_size, raw, (uLong)raw_size, 9) == Z_OK &&
         qk__buffer_append(out, SIGNATURE, sizeof SIGNATURE, NULL) == QK_OK &&
         put_chunk(out, "IHDR", header, sizeof header) &&
         put_chunk(out, "PLTE", palette[0], 3 * (size_t)colors) &&
         put_chunk(out, "IDAT", packed, packed_size) && put_chunk(out, "IEND", NULL, 0);
    free(raw);
    free(packed);
    return ok;
}

bool qk__halve_png(const qk_buffer *png, qk_buffer *out)
{
    unsigned full_width, full_height;
    reader r = {.png = png, .next = 8};
    if (!qk__png_size(png, &full_width, &full_height))
        return false;
    const uint8_t *p = png->data;
    if (p[24] != 8 || (p[25] != 2 && p[25] != 6) || p[28] != 0 ||
        inflateInit(&r.stream) != Z_OK)
        return false;
    size_t width = full_width / 2, height = full_height / 2;
    r.channels = p[25] == 2 ? 3 : 4;
    r.row_bytes = full_width * r.channels;
    if (r.row_bytes * full_height / MOST_DEFLATED > png->size) {
        inflateEnd(&r.stream);
        return false;
    }
    uint8_t palette[MAX_COLORS][3];
    uint8_t *pixels = qk__calloc(width * height, 3);
    bin *bins = qk__calloc(NUM_BINS, sizeof *bins);
    bool ok = pixels && bins && read_half(&r, pixels, width, height);
    int colors = ok ? make_palette(bins, pixels, width * height, palette) : 0;
    ok = colors > 0 && put_picture(out, bins, pixels, width, height, palette, colors);
    inflateEnd(&r.stream);
    free(pixels);
    free(bins);
    if (!ok)
        qk__buffer_free(out);
    return ok;
}
