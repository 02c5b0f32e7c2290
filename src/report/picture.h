/* SPDX-License-Identifier: Apache-2.0 */
/* Puts drawn figures into the page. */
#ifndef QK_REPORT_PICTURE_H
#define QK_REPORT_PICTURE_H

#include "figure/catalog.h"
#include "report/page.h"

/* A figure that was drawn for the page, on a plate: its colours follow the page's light or dark mode. */
void qk__put_drawn(qk__page *page, const qk__drawn *drawn);

/* The file of a drawing, as an image, which can do nothing. Its colours are fixed: a light drawing is inverted on a
 * dark page, a dark one on a light page. */
void qk__put_svg_file(qk__page *page, const qk__buffer *svg, double width, double height,
                      bool dark, const char *label);

/* What the file takes in the page. To free(); NULL: no memory. */
char *qk__svg_address(const qk__buffer *svg);

/* Width and height of an SVG; false: it is no SVG, or does not say. */
bool qk__svg_size(const qk__buffer *svg, double *width, double *height);

#endif
