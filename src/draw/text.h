/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a drawing. They are markup: plain characters, the entities of XML, and HTML's <i>, <sub> and <sup>.
 * Text from outside becomes such by qk__escape alone. */
#ifndef QK_DRAW_TEXT_H
#define QK_DRAW_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Width of markup in type of that size. What a reader's fonts have is not known: those of DejaVu Sans, which is
 * wider than others, and more than enough for what is not in the table. */
double qk__measure(const char *markup, double size);
#define QK__SMALLER 0.7 /* <sub> and <sup> beside their line */
/* What stands at a place of markup: a tag, an entity, or a character of so many bytes; whether it is that tag; the
 * character of an entity. */
size_t qk__markup_length(const char *at);
bool qk__is_tag(const char *at, const char *tag);
const char *qk__entity(const char *at);
/* Of a character that is not markup, in parts of the size. */
double qk__width_of(const char *character);

/* Plain text as markup: nothing in it is an element; control characters are spaces, what is no UTF-8 is U+FFFD.
 * NULL: no memory. */
char *qk__escape(const char *text);
/* Markup as plain text. NULL: no memory. */
char *qk__unmarked(const char *markup);

/* Plain text cut in the middle, with an ellipsis there, until it is at most so wide in type of size 1; ends that
 * tell names apart stay. head: the part of the room that the beginning has. out has `size` bytes. */
void qk__cut_in_middle(const char *text, double width, double head, char *out, size_t size);

/* Cuts all of them likewise, so that no two that differ look alike where that can be had; NULL: no memory. The
 * texts stand behind the array and go with it (free). */
char **qk__cut_alike(const char *const *texts, size_t count, double width);

#endif
