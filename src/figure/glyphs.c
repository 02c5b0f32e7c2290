/* SPDX-License-Identifier: Apache-2.0 */
/* Asks fontconfig, as Pango does, which characters the fonts of this machine can draw. */
#include "figure/glyphs.h"

#include <stddef.h>
#include <stdlib.h>

#include <fontconfig/fontconfig.h>

#include "base/library.h"

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

struct qk__fontconfig {
    __typeof__(&FcInitLoadConfigAndFonts) load;
    __typeof__(&FcConfigGetFonts) fonts;
    __typeof__(&FcPatternGetCharSet) characters;
    __typeof__(&FcCharSetHasChar) has;
    __typeof__(&FcConfigDestroy) destroy;
};

/* Whoever has gnuplot has fontconfig; who has neither needs it not. */
static bool find_fontconfig(struct qk__fontconfig *f)
{
    void *library = qk__library_load("fontconfig", "1");
    return library &&
           qk__library_find(library, "FcInitLoadConfigAndFonts", &f->load, sizeof f->load) &&
           qk__library_find(library, "FcConfigGetFonts", &f->fonts, sizeof f->fonts) &&
           qk__library_find(library, "FcPatternGetCharSet", &f->characters,
                            sizeof f->characters) &&
           qk__library_find(library, "FcCharSetHasChar", &f->has, sizeof f->has) &&
           qk__library_find(library, "FcConfigDestroy", &f->destroy, sizeof f->destroy);
}

static void load_fonts(qk__glyphs *glyphs)
{
    glyphs->loaded = true;
    glyphs->library = calloc(1, sizeof *glyphs->library);
    if (glyphs->library && find_fontconfig(glyphs->library))
        glyphs->config = glyphs->library->load();
}

bool qk__glyphs_have(qk__glyphs *glyphs, uint32_t character)
{
    if (is_common(character) || is_invisible(character))
        return true;
    if (!glyphs->loaded)
        load_fonts(glyphs);
    const struct qk__fontconfig *library = glyphs->config ? glyphs->library : NULL;
    const FcFontSet *fonts =
        library && library->fonts ? library->fonts(glyphs->config, FcSetSystem) : NULL;
    for (int i = 0; fonts && i < fonts->nfont; i++) {
        FcCharSet *characters;
        if (library->characters(fonts->fonts[i], FC_CHARSET, 0, &characters) == FcResultMatch &&
            library->has(characters, character))
            return true;
    }
    return false;
}

void qk__glyphs_free(qk__glyphs *glyphs)
{
    if (glyphs->config)
        glyphs->library->destroy(glyphs->config);
    free(glyphs->library);
    *glyphs = (qk__glyphs){0};
}
