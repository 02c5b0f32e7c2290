/* SPDX-License-Identifier: Apache-2.0 */
/* Puts drawn figures into the page. */
#ifndef QK_REPORT_PICTURE_H
#define QK_REPORT_PICTURE_H

#include "figure/catalog.h"
#include "report/page.h"

/* A figure that was drawn for the page, on a plate: its colours follow the page's light or dark mode. */
void qk__put_drawn(qk__page *page, const qk__drawn *drawn);

/* The file of a drawing, as an image: whatever is in it, it can do nothing. Its colours are fixed; where it is light
 * they are turned over on a dark page, and the other way round. */
void qk__put_svg_file(qk__page *page, const qk__buffer *svg, double width, double height,
                      bool dark, const char *label);

/* What it takes in the page. To free(); NULL: no memory. */
char *qk__svg_address(const qk__buffer *svg);

/* Width and height that an SVG says; false: it is none, or says none. */
bool qk__svg_size(const qk__buffer *svg, double *width, double *height);

#endif
