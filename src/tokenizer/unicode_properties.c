/* SPDX-License-Identifier: Apache-2.0 */
/* Names of Unicode properties: PCRE2 knows categories by their letters only, and takes a
 * script's bare name for its script extensions, where Oniguruma means the script alone. */
#include "tokenizer/unicode_properties.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *pcre;
} PROPERTIES[] = {
    {"any", "Any"},
    {"c", "C"},
    {"cc", "Cc"},
    {"cf", "Cf"},
    {"cn", "Cn"},
    {"co", "Co"},
    {"cs", "Cs"},
    {"l", "L"},
    {"ll", "Ll"},
    {"lm", "Lm"},
    {"lo", "Lo"},
    {"lt", "Lt"},
    {"lu", "Lu"},
    {"m", "M"},
    {"mc", "Mc"},
    {"me", "Me"},
    {"mn", "Mn"},
    {"n", "N"},
    {"nd", "Nd"},
    {"nl", "Nl"},
    {"no", "No"},
    {"p", "P"},
    {"pc", "Pc"},
    {"pd", "Pd"},
    {"pe", "Pe"},
    {"pf", "Pf"},
    {"pi", "Pi"},
    {"po", "Po"},
    {"ps", "Ps"},
    {"s", "S"},
    {"sc", "Sc"},
    {"sk", "Sk"},
    {"sm", "Sm"},
    {"so", "So"},
    {"z", "Z"},
    {"zl", "Zl"},
    {"zp", "Zp"},
    {"zs", "Zs"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"letter", "L"},
    {"lowercaseletter", "Ll"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"titlecaseletter", "Lt"},
    {"uppercaseletter", "Lu"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"closepunctuation", "Pe"},
    {"finalpunctuation", "Pf"},
    {"initialpunctuation", "Pi"},
    {"otherpunctuation", "Po"},
    {"openpunctuation", "Ps"},
    {"symbol", "S"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"mathsymbol", "Sm"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"spaceseparator", "Zs"},
    {"digit", "Nd"},
    {"alpha", "Alphabetic"},
    {"alphabetic", "Alphabetic"},
    {"space", "White_Space"},
    {"whitespace", "White_Space"},
    {"upper", "Uppercase"},
    {"uppercase", "Uppercase"},
    {"lower", "Lowercase"},
    {"lowercase", "Lowercase"},
    {"emoji", "Emoji"},
    {"emojipresentation", "Emoji_Presentation"},
    {"emojimodifier", "Emoji_Modifier"},
    {"emojimodifierbase", "Emoji_Modifier_Base"},
    {"emojicomponent", "Emoji_Component"},
    {"extendedpictographic", "Extended_Pictographic"},
    {"ideographic", "Ideographic"},
    {"unifiedideograph", "Unified_Ideograph"},
};

bool qk__property_name(const char *name, char *out, size_t size)
{
    char plain[64];
    size_t length = 0;
    for (; *name; name++) {
        char c = *name;
        if (c == ' ' || c == '-' || c == '_')
            continue;
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (c < 'a' || c > 'z' || length == sizeof plain - 1)
            return false;
        plain[length++] = c;
    }
    plain[length] = 0;
    for (size_t i = 0; i < sizeof PROPERTIES / sizeof *PROPERTIES; i++) {
        if (strcmp(plain, PROPERTIES[i].name) == 0) {
            snprintf(out, size, "%s", PROPERTIES[i].pcre);
            return true;
        }
    }
    snprintf(out, size, "sc:%s", plain);
    return length > 0;
}
