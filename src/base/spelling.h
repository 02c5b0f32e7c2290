/* SPDX-License-Identifier: Apache-2.0 */
/* How far one word is from another, to guess what was meant. */
#ifndef QK_BASE_SPELLING_H
#define QK_BASE_SPELLING_H

enum { QK_MAX_WORD = 64 };

/* Number of edits (a letter put in, left out or changed) from a to b, both shorter than
 * QK_MAX_WORD. */
int qk__edit_distance(const char *a, const char *b);

#endif
