/* SPDX-License-Identifier: Apache-2.0 */
/* Makes smaller copies of PNG pictures, with a palette: libpng reads and writes, the
 * colours are chosen here. */
#include "report/thumbnail.h"

#include <stdlib.h>
#include <string.h>

#include <png.h>

enum {
    MAX_PIXELS = 1 << 25,
    BIN_BITS = 4, /* of a channel: colours that share these are one */
    NUM_BINS = 1 << (3 * BIN_BITS),
    MAX_COLORS = 256,
};

/* Opens a picture of a size worth working on; png_image_free when true. */
static bool begin_png(png_image *image, const qk__buffer *png)
{
    *image = (png_image){.version = PNG_IMAGE_VERSION};
    if (png->size == 0 || !png_image_begin_read_from_memory(image, png->data, png->size))
        return false;
    if (image->width > 1 && image->height > 1 && image->width <= MAX_PIXELS / image->height)
        return true;
    png_image_free(image);
    return false;
}

bool qk__png_size(const qk__buffer *png, unsigned *width, unsigned *height)
{
    png_image image;
    if (!begin_png(&image, png))
        return false;
    *width = image.width;
    *height = image.height;
    png_image_free(&image);
    return true;
}

/* Red, green, blue of every pixel, on white where it is transparent; to free(). */
static uint8_t *read_pixels(png_image *image)
{
    static const png_color white = {255, 255, 255};
    image->format = PNG_FORMAT_RGB;
    uint8_t *pixels = qk__calloc(PNG_IMAGE_SIZE(*image), 1);
    if (pixels && png_image_finish_read(image, &white, pixels, 0, NULL))
        return pixels;
    free(pixels);
    return NULL;
}

/* Means of n x n pixels, in place. */
static void shrink(uint8_t *pixels, size_t n, size_t full_width, size_t width, size_t height)
{
    const size_t row = 3 * full_width;
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t c = 0; c < 3; c++) {
                const uint8_t *p = pixels + n * y * row + 3 * n * x + c;
                size_t sum = n * n / 2;
                for (size_t i = 0; i < n; i++)
                    for (size_t j = 0; j < n; j++)
                        sum += p[i * row + 3 * j];
                pixels[3 * (y * width + x) + c] = (uint8_t)(sum / (n * n));
            }
}

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
static int make_palette(bin *bins, const uint8_t *pixels, size_t count, int most,
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
    int colors = used < (size_t)most ? (int)used : most;
    for (size_t i = 0; i < used; i++) {
        uint8_t mean[3];
        for (int c = 0; c < 3; c++)
            mean[c] = (uint8_t)((order[i]->sum[c] + order[i]->count / 2) / order[i]->count);
        if (i < (size_t)colors)
            memcpy(palette[i], mean, 3);
        order[i]->index = i < (size_t)colors ? (int)i : nearest(palette, colors, mean);
    }
    free(order);
    return colors;
}

static bool write_picture(qk__buffer *out, const uint8_t *indices, size_t width, size_t height,
                          uint8_t palette[MAX_COLORS][3], int colors)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = PNG_FORMAT_RGB_COLORMAP,
                       .colormap_entries = (png_uint_32)colors};
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    bool ok = qk__buffer_reserve(out, size, NULL) == QK_OK &&
              png_image_write_to_memory(&image, out->data, &size, 0, indices, 0, palette);
    png_image_free(&image);
    out->size = ok ? size : 0;
    return ok;
}

/* Most of a figure is its background. */
static bool is_dark(const uint8_t rgb[3])
{
    return 2 * rgb[0] + 5 * rgb[1] + rgb[2] < 4 * 255;
}

bool qk__shrink_png(const qk__buffer *png, size_t divisor, int colors, qk__buffer *out,
                    bool *dark)
{
    png_image image;
    *dark = false;
    if (!begin_png(&image, png))
        return false;
    size_t full_width = image.width, width = full_width / divisor;
    size_t height = image.height / divisor;
    uint8_t palette[MAX_COLORS][3];
    uint8_t *pixels = read_pixels(&image);
    bin *bins = qk__calloc(NUM_BINS, sizeof *bins);
    int used = 0;
    if (pixels && bins && width > 0 && height > 0) {
        shrink(pixels, divisor, full_width, width, height);
        used = make_palette(bins, pixels, width * height,
                            colors < MAX_COLORS ? colors : MAX_COLORS, palette);
    }
    bool ok = used > 0;
    if (ok) {
        for (size_t i = 0; i < width * height; i++) /* in place */
            pixels[i] = (uint8_t)bins[bin_of(pixels + 3 * i)].index;
        ok = write_picture(out, pixels, width, height, palette, used);
        *dark = is_dark(palette[0]);
    }
    png_image_free(&image);
    free(pixels);
    free(bins);
    if (!ok)
        qk__buffer_free(out);
    return ok;
}
