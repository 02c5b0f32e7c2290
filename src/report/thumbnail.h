/* SPDX-License-Identifier: Apache-2.0 */
/* A smaller copy of a picture, for the page. */
#ifndef QK_REPORT_THUMBNAIL_H
#define QK_REPORT_THUMBNAIL_H

#include <stdbool.h>

#include "base/buffer.h"

/* A copy that is `divisor` times less wide and high (figures are drawn at twice their nominal
 * size), in at most `colors` (256) colours: half the size in 256 is a tenth of the bytes of a scatter
 * collage. *dark: most of it is. False (out is empty): memory, or not a PNG, or one of more than
 * 32 million pixels. */
bool qk__shrink_png(const qk__buffer *png, size_t divisor, int colors, qk__buffer *out,
                    bool *dark);

/* Width and height of a PNG; false: it is none. */
bool qk__png_size(const qk__buffer *png, unsigned *width, unsigned *height);

#endif
