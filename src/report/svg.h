/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a drawn SVG into the page. */
#ifndef QK_REPORT_SVG_H
#define QK_REPORT_SVG_H

#include <stdbool.h>

#include "figure/theme.h"
#include "report/page.h"

/* The box that a picture of width x height pixels stands in; "</div></div>" ends it. Its text can be
 * read where it is `legible` pixels wide: on a narrow screen one scrolls it. */
void qk__page_plate(qk__page *page, double width, double height, double legible);

/* Appends the picture as an inline <svg> called label, on a plate. Only elements and attributes
 * that drawings need get through, whatever the file holds; ids get the prefix, so that two
 * pictures on a page do not take each other's markers; the theme's ink, grid and background
 * become variables of the page's style sheet, so that the picture follows its light or dark
 * mode. False (nothing is appended): it does not look like an SVG. */
bool qk__page_svg(qk__page *page, const char *svg, size_t size, const char *prefix,
                  const char *label, const qk__theme *theme);

#endif
