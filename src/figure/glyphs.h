/* SPDX-License-Identifier: Apache-2.0 */
/* Which characters the fonts of this machine can draw. For one they cannot, Pango draws a box
 * with the character's number, in a picture of twice the size so large that it covers
 * everything. */
#ifndef QK_FIGURE_GLYPHS_H
#define QK_FIGURE_GLYPHS_H

#include <stdbool.h>
#include <stdint.h>

/* The fonts, looked up when a character first asks for them. Zero-initialise. */
typedef struct qk__glyphs {
    bool loaded;
    struct qk__fontconfig *library; /* NULL: not there */
    void *config;                   /* its own; NULL: could not be read */
} qk__glyphs;

/* True where some font has the character, or when it is one that every text font has. */
bool qk__glyphs_have(qk__glyphs *glyphs, uint32_t character);
void qk__glyphs_free(qk__glyphs *glyphs);

#endif
