/* SPDX-License-Identifier: Apache-2.0 */
/* Asks fontconfig, as Pango does, which characters the fonts of this machine can draw. */
#include "figure/glyphs.h"

#include <stddef.h>

#include <fontconfig/fontconfig.h>

/* Latin, Greek and Cyrillic, and what our own texts use beyond them; so most figures never look
 * at the fonts. */
static bool is_common(uint32_t c)
{
    return c < 0x530 || (c >= 0x2010 && c <= 0x2027) || c == 0x2212 || c == 0x2192 ||
           c == 0xfffd;
}

/* Joiners, marks of direction, variation selectors: drawn as nothing. */
static bool is_invisible(uint32_t c)
{
    return (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff;
}

bool qk__glyphs_have(qk__glyphs *glyphs, uint32_t character)
{
    if (is_common(character) || is_invisible(character))
        return true;
    if (!glyphs->loaded) {
        glyphs->config = FcInitLoadConfigAndFonts();
        glyphs->loaded = true;
    }
    const FcFontSet *fonts =
        glyphs->config ? FcConfigGetFonts(glyphs->config, FcSetSystem) : NULL;
    for (int i = 0; fonts && i < fonts->nfont; i++) {
        FcCharSet *characters;
        if (FcPatternGetCharSet(fonts->fonts[i], FC_CHARSET, 0, &characters) == FcResultMatch &&
            FcCharSetHasChar(characters, character))
            return true;
    }
    return false;
}

void qk__glyphs_free(qk__glyphs *glyphs)
{
    if (glyphs->config)
        FcConfigDestroy(glyphs->config);
    *glyphs = (qk__glyphs){0};
}
