/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions and literal strings in text, with bounds on time and memory.
 *
 *     regex.c              matches; it leads the other
 *     newer_characters.c   characters that Oniguruma may not know */
#ifndef QK_TOKENIZER_REGEX_H
#define QK_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

typedef struct qk__regex qk__regex;

/* A pattern in Oniguruma's dialect, or (literal) a text that stands for itself. */
QK_MUST_CHECK qk_status qk__regex_compile(qk__regex **regex, const char *pattern, size_t size,
                                          bool literal, qk_error *err);
void qk__regex_free(qk__regex *regex); /* takes NULL */

/* What matching needs besides the pattern; one per thread and text. All matching in it together
 * may take a time that follows the size of that text. */
typedef struct qk__regex_run qk__regex_run;
/* On failure, too, released by qk__regex_run_free, which takes NULL. */
QK_MUST_CHECK qk_status qk__regex_run_new(qk__regex_run **run, size_t size, qk_error *err);
void qk__regex_run_free(qk__regex_run *run);

/* The matches in a valid UTF-8 text, one after the other. An empty match where the last one
 * ended does not count. Zero-initialise it, then set regex, run, text and size. */
typedef struct qk__matches {
    const qk__regex *regex;
    qk__regex_run *run;
    const uint8_t *text;
    size_t size;
    size_t next;         /* where to look */
    size_t end;          /* of the last match */
    bool any;            /* there was one */
    const uint8_t *seen; /* the text as the pattern sees it */
} qk__matches;

/* *found: whether there was another, in [*start, *end). Fails (QK_ERR_UNSUPPORTED) when the
 * pattern takes out of all proportion long or deep on this text. */
QK_MUST_CHECK qk_status qk__matches_next(qk__matches *matches, bool *found, size_t *start,
                                         size_t *end, qk_error *err);

/* What patterns see in the place of c: c, but for characters that Oniguruma may not know. */
uint32_t qk__older_character(uint32_t c);

/* For bsearch: a character, and an entry of a table that begins with its first and its last one. */
int qk__compare_characters(const void *character, const void *range);

#endif
