/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Unicode properties: PCRE2 knows categories by their letters only, and takes a
 * script's bare name for its script extensions, where Oniguruma means the script alone. */
#include "tokenizer/regex.h"

#include <stdio.h>
#include <string.h>

/* Names that PCRE2 has as well: categories by their letters, and properties of characters. */
static const char ALIKE[] =
    " any c cc cf cn co cs l ll lm lo lt lu m mc me mn n nd nl no p pc pd pe pf pi po ps s sc"
    " sk sm so z zl zp zs alpha alphabetic space whitespace upper uppercase lower lowercase"
    " emoji emojipresentation emojimodifier emojimodifierbase emojicomponent"
    " extendedpictographic ideographic unifiedideograph ";

/* Categories by their long names. */
static const char CATEGORIES[] =
    " other:C control:Cc format:Cf unassigned:Cn privateuse:Co letter:L lowercaseletter:Ll"
    " modifierletter:Lm otherletter:Lo titlecaseletter:Lt uppercaseletter:Lu mark:M"
    " combiningmark:M spacingmark:Mc enclosingmark:Me nonspacingmark:Mn number:N digit:Nd"
    " decimalnumber:Nd letternumber:Nl othernumber:No punctuation:P connectorpunctuation:Pc"
    " dashpunctuation:Pd closepunctuation:Pe finalpunctuation:Pf initialpunctuation:Pi"
    " otherpunctuation:Po openpunctuation:Ps symbol:S currencysymbol:Sc modifiersymbol:Sk"
    " mathsymbol:Sm othersymbol:So separator:Z lineseparator:Zl paragraphseparator:Zp"
    " spaceseparator:Zs ";

bool qk__property_name(const char *name, char *out, size_t size)
{
    char word[66] = " "; /* a blank, the plain name, and what follows it in the lists */
    size_t length = 1;
    for (const char *p = name; *p; p++) {
        char c = *p;
        if (c == ' ' || c == '-' || c == '_')
            continue;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c < 'a' || c > 'z' || length == sizeof word - 2)
            return false;
        word[length++] = c;
    }
    word[length] = ' ';
    bool alike = strstr(ALIKE, word) != NULL;
    word[length] = ':';
    const char *category = strstr(CATEGORIES, word);
    word[length] = 0;
    if (category)
        snprintf(out, size, "%.*s", (int)strcspn(category + length + 1, " "),
                 category + length + 1);
    else
        snprintf(out, size, "%s%s", alike ? "" : "sc:", alike ? name : word + 1);
    return length > 1;
}
