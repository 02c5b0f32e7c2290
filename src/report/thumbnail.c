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

bool qk__pixels_read(const qk__buffer *png, qk__pixels *pixels)
{
    static const png_color white = {255, 255, 255};
    png_image image;
    *pixels = (qk__pixels){0};
    if (!begin_png(&image, png))
        return false;
    image.format = PNG_FORMAT_RGB;
    uint8_t *rgb = qk__calloc(PNG_IMAGE_SIZE(image), 1);
    if (rgb && png_image_finish_read(&image, &white, rgb, 0, NULL))
        *pixels = (qk__pixels){rgb, image.width, image.height};
    else
        free(rgb);
    png_image_free(&image);
    return pixels->rgb != NULL;
}

bool qk__pixels_cut(const qk__pixels *from, size_t left, size_t top, size_t width,
                    size_t height, qk__pixels *cut)
{
    *cut = (qk__pixels){0};
    if (width > from->width || left > from->width - width || height > from->height ||
        top > from->height - height)
        return false;
    *cut = (qk__pixels){qk__calloc(width * height, 3), width, height};
    for (size_t y = 0; cut->rgb && y < height; y++)
        memcpy(cut->rgb + 3 * y * width, from->rgb + 3 * ((top + y) * from->width + left),
               3 * width);
    return cut->rgb != NULL;
}

void qk__pixels_free(qk__pixels *pixels)
{
    free(pixels->rgb);
    *pixels = (qk__pixels){0};
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

static void count_bins(bin *bins, const uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bin *b = &bins[bin_of(pixels + 3 * i)];
        b->count++;
        for (int c = 0; c < 3; c++)
            b->sum[c] += pixels[3 * i + (size_t)c];
    }
}

static void mean_of(const bin *b, uint8_t mean[3])
{
    for (int c = 0; c < 3; c++)
        mean[c] = (uint8_t)((b->sum[c] + b->count / 2) / b->count);
}

/* The most frequent colours, each the mean of its bin; other bins take the nearest. False: no memory. */
static bool make_palette(bin *bins, int most, qk__palette *palette)
{
    bin **order = qk__calloc(NUM_BINS, sizeof *order);
    size_t used = 0;
    if (!order)
        return false;
    for (size_t i = 0; i < NUM_BINS; i++)
        if (bins[i].count > 0)
            order[used++] = &bins[i];
    qsort(order, used, sizeof(bin *), compare_bins);
    palette->count = used < (size_t)most ? (int)used : most;
    for (int i = 0; i < palette->count; i++)
        mean_of(order[i], palette->colors[i]);
    free(order);
    return true;
}

static void find_nearest(bin *bins, qk__palette *palette)
{
    uint8_t mean[3];
    for (size_t i = 0; i < NUM_BINS; i++)
        if (bins[i].count > 0) {
            mean_of(&bins[i], mean);
            bins[i].index = nearest(palette->colors, palette->count, mean);
        }
}

static bool write_picture(qk__buffer *out, png_image *image, const uint8_t *indices,
                          const void *palette)
{
    png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(*image);
    bool ok = qk__buffer_reserve(out, size, NULL) == QK_OK &&
              png_image_write_to_memory(image, out->data, &size, 0, indices, 0, palette);
    png_image_free(image);
    out->size = ok ? size : 0;
    return ok;
}

/* With white, or nearly that, as nothing. */
static bool write_clear(qk__buffer *out, png_image *image, const uint8_t *indices,
                        uint8_t palette[QK__PALETTE][3])
{
    enum { NEARLY = 250 };
    uint8_t clear[QK__PALETTE][4];
    for (unsigned i = 0; i < image->colormap_entries; i++) {
        memcpy(clear[i], palette[i], 3);
        bool white = clear[i][0] >= NEARLY && clear[i][1] >= NEARLY && clear[i][2] >= NEARLY;
        clear[i][3] = white ? 0 : 255;
    }
    image->format = PNG_FORMAT_RGBA_COLORMAP;
    return write_picture(out, image, indices, clear);
}

/* Most of a figure is its background. */
static bool is_dark(const uint8_t rgb[3])
{
    return 2 * rgb[0] + 5 * rgb[1] + rgb[2] < 4 * 255;
}

/* Into the picture; pixels have their final size, and become indices. */
static bool write_indexed(qk__pixels *pixels, const bin *bins, qk__palette *palette, bool clear,
                          qk__buffer *out)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)pixels->width,
                       .height = (png_uint_32)pixels->height,
                       .format = PNG_FORMAT_RGB_COLORMAP,
                       .colormap_entries = (png_uint_32)palette->count};
    for (size_t i = 0; i < pixels->width * pixels->height; i++)
        pixels->rgb[i] = (uint8_t)bins[bin_of(pixels->rgb + 3 * i)].index;
    return clear ? write_clear(out, &image, pixels->rgb, palette->colors)
                 : write_picture(out, &image, pixels->rgb, palette->colors);
}

static void shrink_pixels(qk__pixels *pixels, size_t divisor)
{
    const size_t full = pixels->width;
    pixels->width /= divisor;
    pixels->height /= divisor;
    shrink(pixels->rgb, divisor, full, pixels->width, pixels->height);
}

bool qk__pixels_write(qk__pixels *pixels, size_t divisor, const qk__palette *colors,
                      qk__buffer *out)
{
    qk__palette palette = *colors;
    bin *bins = qk__calloc(NUM_BINS, sizeof *bins);
    shrink_pixels(pixels, divisor);
    bool ok = bins && pixels->width > 0 && pixels->height > 0;
    if (ok) {
        count_bins(bins, pixels->rgb, pixels->width * pixels->height);
        find_nearest(bins, &palette);
        ok = write_indexed(pixels, bins, &palette, true, out);
    }
    free(bins);
    if (!ok)
        qk__buffer_free(out);
    return ok;
}

bool qk__shrink_png(const qk__buffer *png, size_t divisor, int colors, qk__buffer *out,
                    bool *dark)
{
    qk__pixels pixels;
    qk__palette palette = {0};
    bin *bins = qk__calloc(NUM_BINS, sizeof *bins);
    *dark = false;
    bool ok = bins && qk__pixels_read(png, &pixels);
    if (ok) {
        shrink_pixels(&pixels, divisor);
        count_bins(bins, pixels.rgb, pixels.width * pixels.height);
        ok = pixels.width > 0 && pixels.height > 0 &&
             make_palette(bins, colors < QK__PALETTE ? colors : QK__PALETTE, &palette);
        if (ok) {
            find_nearest(bins, &palette);
            *dark = is_dark(palette.colors[0]);
            ok = write_indexed(&pixels, bins, &palette, false, out);
        }
        qk__pixels_free(&pixels);
    }
    free(bins);
    if (!ok)
        qk__buffer_free(out);
    return ok;
}
