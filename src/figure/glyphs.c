/* SPDX-License-Identifier: Apache-2.0 */
/* Asks fontconfig, as Pango does, which characters the fonts of this machine can draw. */
#include "figure/glyphs.h"

#include <stdlib.h>

#include <fontconfig/fontconfig.h>

#include "base/buffer.h"
#include "base/library.h"

/* FUNCTION(name): of fontconfig, and what it is called there after "Fc". */
#define FUNCTIONS(FUNCTION)                                                                    \
    FUNCTION(InitLoadConfigAndFonts)                                                           \
    FUNCTION(ConfigGetFonts)                                                                   \
    FUNCTION(ConfigDestroy)                                                                    \
    FUNCTION(PatternGetCharSet)                                                                \
    FUNCTION(CharSetHasChar)

struct qk__fontconfig {
    FcConfig *config; /* NULL: could not be read */
#define MEMBER(name) __typeof__(&Fc##name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

/* What draws figures brings it. Where it is not, nothing is known of fonts, and there are none to draw with. */
static bool load(struct qk__fontconfig *fc)
{
    static const char *const NAMES[] = {"libfontconfig.so.1", NULL};
    void *library;
    bool all = qk__library_load(NAMES, "fonts", "", &library, NULL) == QK_OK;
#define FIND(name)                                                                             \
    all = all && qk__library_find(library, "Fc" #name, &fc->name, sizeof fc->name);
    FUNCTIONS(FIND)
#undef FIND
    return all;
}

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
        glyphs->loaded = true;
        glyphs->fc = qk__calloc(1, sizeof *glyphs->fc);
        if (glyphs->fc && load(glyphs->fc))
            glyphs->fc->config = glyphs->fc->InitLoadConfigAndFonts();
    }
    const struct qk__fontconfig *fc = glyphs->fc;
    const FcFontSet *fonts =
        fc && fc->config ? fc->ConfigGetFonts(fc->config, FcSetSystem) : NULL;
    for (int i = 0; fonts && i < fonts->nfont; i++) {
        FcCharSet *characters;
        if (fc->PatternGetCharSet(fonts->fonts[i], FC_CHARSET, 0, &characters) ==
                FcResultMatch &&
            fc->CharSetHasChar(characters, character))
            return true;
    }
    return false;
}

void qk__glyphs_free(qk__glyphs *glyphs)
{
    if (glyphs->fc && glyphs->fc->config)
        glyphs->fc->ConfigDestroy(glyphs->fc->config);
    free(glyphs->fc);
    *glyphs = (qk__glyphs){0};
}
