/* SPDX-License-Identifier: Apache-2.0 */
/* The page being written: markup of our own, and text from outside, which gets in through
 * qk__page_text, qk__page_name and qk__page_json_text only.
 *
 * As with figures nothing fails at once: the first failure (memory) is kept in the page and
 * what follows does nothing. */
#ifndef QK_REPORT_PAGE_H
#define QK_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

typedef struct qk__page {
    qk__buffer out;
    qk_status status;
    qk_error err;
} qk__page;

void qk__page_free(qk__page *page);

/* Keeps that memory ran out elsewhere, while something for the page was made. */
void qk__page_nomem(qk__page *page);

/* Markup; %s only for what is markup or a name of our own (columns, figure files). */
void qk__page_raw(qk__page *page, const char *markup);
void qk__page_print(qk__page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void qk__page_bytes(qk__page *page, const void *data, size_t size);

/* Any text, shown as it is in an element or a quoted attribute: what is not UTF-8 becomes
 * U+FFFD, control characters spaces. */
void qk__page_text(qk__page *page, const char *text);
/* The same, between markup. */
void qk__page_text_in(qk__page *page, const char *before, const char *text, const char *after);
/* The same of each line of a text. */
void qk__page_lines(qk__page *page, const char *text, const char *before, const char *after);
/* A name: as text, isolated from the writing direction around it, cut at QK__NAME_POINTS. */
void qk__page_name(qk__page *page, const char *name);
/* A string of a JSON block inside <script>. */
void qk__page_json_text(qk__page *page, const char *text);
/* A number of a JSON block, with that many digits; null for NaN and infinities. */
void qk__page_json_number(qk__page *page, double value, int digits);
/* The part of a link after the folder: what is not a letter, a digit or one of -._ as %XX. */
void qk__page_link(qk__page *page, const char *name);
void qk__page_base64(qk__page *page, const void *data, size_t size);

/* A section with its heading, which folds it; a part of one, under a smaller heading. Titles are
 * text. */
void qk__page_section(qk__page *page, const char *id, const char *title, bool open);
void qk__page_section_end(qk__page *page);
void qk__page_part(qk__page *page, const char *id, const char *title);
void qk__page_part_end(qk__page *page);

/* ---- text for sentences and cells ------------------------------------------------------- */

enum { QK__NAME_POINTS = 48 };

/* A name inside a sentence: valid UTF-8, cut, between U+2068 and U+2069. */
typedef struct qk__short_name {
    char text[4 * QK__NAME_POINTS + 16];
} qk__short_name;
qk__short_name qk__short_name_of(const char *name);

/* A number for reading: that many significant digits, no exponent between 1e-4 and 1e5, a real
 * minus sign; "1.2×10⁻⁵" beyond; "–" for NaN. */
typedef struct qk__shown {
    char text[64];
} qk__shown;
qk__shown qk__show(double value, int digits);
/* A share as "12.3 %" (below 10 %: two digits after the point). */
qk__shown qk__show_percent(double share);
/* A count with thousands set apart: 3,239. */
qk__shown qk__show_count(size_t count);

#endif
