/* SPDX-License-Identifier: Apache-2.0 */
/* Words that the program says, by docs/glossary.md, and typical values of its numbers, by docs/typical.md. */
#ifndef QK_CLI_WORD_MEANINGS_H
#define QK_CLI_WORD_MEANINGS_H

/* A NULL name ends a list. whole: the text with names explained together; for typical values, what they are of. more:
 * the page that says more, or NULL; for typical values, a line for each model. */
typedef struct cli_word {
    const char *name, *whole, *about, *more;
} cli_word;

extern const cli_word cli_words_of_glossary[];
extern const cli_word cli_typical_values[];

#endif
