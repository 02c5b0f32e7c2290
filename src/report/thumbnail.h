/* SPDX-License-Identifier: Apache-2.0 */
/* A smaller copy of a picture, for the page. */
#ifndef QK_REPORT_THUMBNAIL_H
#define QK_REPORT_THUMBNAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

/* A copy that is `divisor` times less wide and high (figures are drawn at twice their nominal
 * size), in at most `colors` (256) colours: half the size in 256 is a tenth of the bytes of a scatter
 * collage. *dark: most of it is. False (out is empty): memory, or not a PNG, or one of more than
 * 32 million pixels. */
bool qk__shrink_png(const qk__buffer *png, size_t divisor, int colors, qk__buffer *out,
                    bool *dark);

/* The same in steps, for parts of a picture. Pixels are red, green, blue, row by row, on white where the
 * picture is transparent. False: nothing is there to release. */
typedef struct qk__pixels {
    uint8_t *rgb;
    size_t width, height;
} qk__pixels;
bool qk__pixels_read(const qk__buffer *png, qk__pixels *pixels);
bool qk__pixels_cut(const qk__pixels *from, size_t left, size_t top, size_t width,
                    size_t height, qk__pixels *cut);
/* In these colours alone, of which each pixel takes the nearest; what is white is transparent. Uses the
 * pixels up. */
enum { QK__PALETTE = 256 };
typedef struct qk__palette {
    int count;
    uint8_t colors[QK__PALETTE][3];
} qk__palette;
bool qk__pixels_write(qk__pixels *pixels, size_t divisor, const qk__palette *colors,
                      qk__buffer *out);
void qk__pixels_free(qk__pixels *pixels);

/* Width and height of a PNG; false: it is none. */
bool qk__png_size(const qk__buffer *png, unsigned *width, unsigned *height);

#endif
