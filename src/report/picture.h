/* SPDX-License-Identifier: Apache-2.0 */
/* Puts drawn figures into the page. */
#ifndef QK_REPORT_PICTURE_H
#define QK_REPORT_PICTURE_H

#include <stdbool.h>

#include "draw/theme.h"
#include "report/page.h"

/* Appends a picture as an inline <svg> called label, on a plate. It is copied as it is, without elements that
 * are not those of drawings, handlers, and addresses outside of it. Names in the file get one of the
 * picture's before them, so that two pictures on a page do not take each other's markers; the theme's ink,
 * grid and background become variables of the page's style sheet, so that the picture follows its light or
 * dark mode. False (nothing is appended): it does not look like an SVG, or is not whole. */
bool qk__put_svg(qk__page *page, const char *svg, const char *label, const qk__theme *theme);

/* A PNG whose nominal size is width x height. What is dark in it is made light on a dark page, and
 * the other way round. */
void qk__put_png(qk__page *page, const qk__buffer *png, double width, double height, bool dark,
                 const char *label);

/* FOLDER/NAME.svg; where that is not there, or has more bytes than `most`, NAME.png; else a note. */
void qk__put_picture(qk__page *page, const char *folder, const char *name, size_t most,
                     const char *label, const qk__theme *theme);

#endif
