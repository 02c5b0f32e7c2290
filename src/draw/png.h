/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of few colours: points and cells drawn into one, and the picture as PNG. */
#ifndef QK_DRAW_PNG_H
#define QK_DRAW_PNG_H

#include <stdint.h>

#include "base/buffer.h"
#include "draw/canvas.h"

enum { QK__COLORS = 256 };

/* Each pixel is the number of a colour; 0 is transparent. Zero-initialise it. */
typedef struct qk__bitmap {
    size_t width, height;
    uint8_t *pixels; /* [height][width] */
    size_t count;    /* of colours, with the transparent one */
    uint8_t colors[QK__COLORS][3];
} qk__bitmap;

/* All transparent. QK_ERR_ARGUMENT: larger than 2^26 pixels. */
QK_MUST_CHECK qk_status qk__bitmap_make(qk__bitmap *bitmap, size_t width, size_t height,
                                        qk_error *err);
void qk__bitmap_free(qk__bitmap *bitmap);

/* A disc or a triangle (QK__UP) about a place in pixels; what is outside is left out. */
void qk__bitmap_sign(qk__bitmap *bitmap, qk__sign sign, double x, double y, double radius,
                     uint8_t color);

/* Appends the PNG, in as few bits a pixel as the colours need. */
QK_MUST_CHECK qk_status qk__png_write(const qk__bitmap *bitmap, qk__buffer *out, qk_error *err);

#endif
