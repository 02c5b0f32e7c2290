/* SPDX-License-Identifier: Apache-2.0 */
/* The page being written: elements that open and close in turn, and text in them. What is not markup of
 * ours gets in as an argument of a format only, and is escaped there.
 *
 *     qk__open(page, "p.note#why[data-of=%s]", name);     <p class="note" id="why" data-of="...">
 *     qk__say(page, "*%zu* heads of {%s}: ", 7, label);   <strong>7</strong> heads of <bdi>...</bdi>:
 *     qk__say(page, "[#finding-%s|see there].", id);      <a href="#finding-...">see there</a>.
 *     qk__close(page, "p");                               </p>
 *
 * As with figures nothing fails at once: the page keeps the first failure (memory, an element that does not
 * close), and later calls do nothing. */
#ifndef QK_REPORT_PAGE_H
#define QK_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/buffer.h"
#include "base/file.h"
#include "report/assets.h"
#include "report/words.h"

enum { QK__MOST_OPEN = 40, QK__ELEMENT_NAME = 16 };

typedef struct qk__page {
    qk__buffer out;
    qk_status status;
    qk_error err;
    int depth; /* of open elements */
    char open[QK__MOST_OPEN][QK__ELEMENT_NAME];
} qk__page;

/* QK_ERR_EXISTS: another program's file is there; a page of this one says in its head what made it. */
QK_MUST_CHECK qk_status qk__page_check_place(const char *folder, const char *name,
                                             qk_error *err);

/* Writes a file that is finished but not committed. An element that is still open is an error. */
QK_MUST_CHECK qk_status qk__page_write(qk__page *page, const char *path, qk__outfile **file,
                                       qk_error *err);
void qk__page_free(qk__page *page);

/* Notes that memory ran out while something for the page was made. */
void qk__page_nomem(qk__page *page);

/* ---- elements --------------------------------------------------------------------------- */

/* An element by its name, classes, id and attributes, written like a selector of CSS; arguments are values or parts of
 * values. An element without content (img) is closed at once. */
void qk__open(qk__page *page, const char *selector, ...) __attribute__((format(printf, 2, 3)));
/* Closes elements, the innermost first: "tbody table div". Other names than those of the open elements are an error. */
void qk__close(qk__page *page, const char *names);
/* Text, by a format of qk__words. In the format, not in its arguments: *strong*, `code`, ^small^,
 * ~sub~, {name} is isolated from the writing direction around it and cut at QK__NAME_POINTS,
 * [href|link]. */
void qk__say(qk__page *page, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A whole element with such a text; its selector takes no arguments. */
void qk__put(qk__page *page, const char *selector, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Markup of our own. */
void qk__page_markup(qk__page *page, const char *markup);
void qk__page_bytes(qk__page *page, const void *data, size_t size);
void qk__page_asset(qk__page *page, const qk__asset *asset);
/* An element that is written byte by byte: its beginning up to its attributes; then, after them, whether it has
 * content. */
void qk__begin_tag(qk__page *page, const char *name, size_t size);
void qk__end_tag(qk__page *page, bool holds);
/* A block of JSON, which is released; numbers have `digits` digits. root NULL: memory ran out. */
void qk__page_json(qk__page *page, const char *id, json_t *root, int digits);
/* A string for such a block: what is not UTF-8 becomes U+FFFD, control characters spaces. */
json_t *qk__clean_text(const char *text);
/* The same with its control characters, which the page's scripts show as such. */
json_t *qk__whole_text(const char *text);
/* The text as a part of a link: all but letters, digits and -._ as %XX. To free(); NULL: memory ran out. */
char *qk__percent(const char *text);

/* ---- parts of a page -------------------------------------------------------------------- */

/* The page up to the style sheet. `scripts`, the hashes of the scripts that may run, says what the page may do; "" for
 * none. <head> stays open. */
void qk__page_begin(qk__page *page);
/* The scripts, at the end of the page. */
void qk__page_scripts(qk__page *page);
/* The contents at the side: a list of links, which the caller puts between the two calls. */
void qk__page_contents_begin(qk__page *page);
void qk__page_contents_end(qk__page *page);
/* A section, folded under its heading, which unfolds it; a part of a section, under a smaller heading, unfolded. */
void qk__page_section(qk__page *page, const char *id, const char *title);
void qk__page_section_end(qk__page *page);
void qk__page_part(qk__page *page, const char *id, const char *title);
void qk__page_part_end(qk__page *page);
/* A table of numbers that scrolls by itself: before its first row of headers, and behind the table. */
void qk__table_begin(qk__page *page, const char *caption);
void qk__table_head(qk__page *page, const char *column);
void qk__table_body(qk__page *page);
void qk__table_end(qk__page *page);

#endif
