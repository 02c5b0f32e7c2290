/* SPDX-License-Identifier: Apache-2.0 */
/* From Oniguruma's dialect of regular expressions to PCRE2's. They differ in what \s, \w, \h,
 * \v and \p{Script} mean, in the letter of the option that lets a dot match newlines, in
 * intervals followed by '+', and in classes within classes. */
#include "tokenizer/regex.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

enum { MAX_DEPTH = 100, NO_ATOM = -1 };

#define WORD_SET                                                                               \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
/* Outside of classes Oniguruma counts Latin-1's superscripts and fractions, too. */
#define WORD    WORD_SET "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define HEX_SET "0-9A-Fa-f"

typedef struct translator {
    const uint8_t *text, *p, *end;
    qk__buffer *out;
    ptrdiff_t atom; /* where in out the last repeatable thing begins, or NO_ATOM */
    bool repeated;  /* it has its quantifier */
    size_t groups[MAX_DEPTH];
    size_t depth;
} translator;

static qk_status refuse(translator *t, qk_error *err, const char *what)
{
    return qk__fail(err, QK_ERR_UNSUPPORTED, "the pattern has %s at byte %td", what,
                    t->p - t->text);
}

static qk_status emit(translator *t, const char *text, qk_error *err)
{
    return qk__buffer_append(t->out, text, strlen(text), err);
}

static bool at(const translator *t, const char *text)
{
    size_t length = strlen(text);
    return (size_t)(t->end - t->p) >= length && memcmp(t->p, text, length) == 0;
}

/* Takes the character if it is the next. */
static bool take_character(translator *t, char c)
{
    bool next = t->p < t->end && *t->p == c;
    t->p += next;
    return next;
}

/* Copies the next byte. */
static qk_status copy_byte(translator *t, qk_error *err)
{
    return qk__buffer_append(t->out, t->p++, 1, err);
}

static qk_status copy_character(translator *t, qk_error *err)
{
    size_t length = qk__utf8_length(t->p);
    QK_TRY(qk__buffer_append(t->out, t->p, length, err));
    t->p += length;
    return QK_OK;
}

static int hex_value(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* ---- escapes ---------------------------------------------------------------------------- */

/* \xHH, \x{H...}, \uHHHH, t->p behind the letter. */
static qk_status code_point(translator *t, char letter, qk_error *err)
{
    bool braces = letter == 'x' && take_character(t, '{');
    size_t digits = 0, most = braces ? 6 : letter == 'x' ? 2 : 4;
    uint32_t value = 0;
    char text[16];
    for (; digits < most && t->p < t->end && hex_value(*t->p) >= 0; digits++)
        value = value << 4 | (uint32_t)hex_value(*t->p++);
    if (digits == 0 || (letter == 'u' && digits != 4) || (braces && !take_character(t, '}')))
        return refuse(t, err, "a malformed code point");
    /* Without braces they are bytes, parts of a character's UTF-8. */
    if (letter == 'x' && !braces && value >= 0x80)
        return refuse(t, err, "a byte above \\x7F");
    snprintf(text, sizeof text, "\\x{%x}", (unsigned)value);
    return emit(t, text, err);
}

/* \p{Name}, \p{^Name}, \P{Name}, t->p behind the letter. */
static qk_status property(translator *t, bool negated, qk_error *err)
{
    char name[64], text[96];
    size_t length = 0;
    if (!take_character(t, '{'))
        return refuse(t, err, "a property without braces");
    negated ^= take_character(t, '^');
    while (t->p < t->end && *t->p != '}' && length < sizeof name - 1)
        name[length++] = (char)*t->p++;
    name[length] = 0;
    if (t->p == t->end || *t->p != '}' || !qk__property_name(name, text, sizeof text))
        return refuse(t, err, "an unknown property");
    t->p++;
    QK_TRY(emit(t, negated ? "\\P{" : "\\p{", err));
    QK_TRY(emit(t, text, err));
    return emit(t, "}", err);
}

/* An escape that means the same in a class and outside; *known is false for the others, and
 * nothing is consumed. *set: more than one character. */
static qk_status common_escape(translator *t, bool *known, bool *set, qk_error *err)
{
    static const struct {
        char letter;
        bool set;
        const char *text;
    } ESCAPES[] = {
        {'d', true, "\\d"},         {'D', true, "\\D"},    {'s', true, "\\p{wspace}"},
        {'S', true, "\\P{wspace}"}, {'t', false, "\\t"},   {'n', false, "\\n"},
        {'r', false, "\\r"},        {'f', false, "\\f"},   {'a', false, "\\a"},
        {'e', false, "\\e"},        {'v', false, "\\x0b"},
    };
    char letter = (char)t->p[1];
    *known = true;
    *set = false;
    for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++) {
        if (ESCAPES[i].letter == letter) {
            t->p += 2;
            *set = ESCAPES[i].set;
            return emit(t, ESCAPES[i].text, err);
        }
    }
    if (letter == 'p' || letter == 'P') {
        t->p += 2;
        *set = true;
        return property(t, letter == 'P', err);
    }
    if (letter == 'x' || letter == 'u') {
        t->p += 2;
        return code_point(t, letter, err);
    }
    bool alphanumeric = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                        (letter >= 'A' && letter <= 'Z');
    *known = !alphanumeric;
    if (alphanumeric)
        return QK_OK;
    t->p++;
    if (*t->p < 0x80)
        QK_TRY(emit(t, "\\", err));
    return copy_character(t, err);
}

static qk_status escape(translator *t, qk_error *err)
{
    static const struct {
        char letter;
        bool repeatable;
        const char *text;
    } ESCAPES[] = {
        {'w', true, "[" WORD "]"},
        {'W', true, "[^" WORD "]"},
        {'h', true, "[" HEX_SET "]"},
        {'H', true, "[^" HEX_SET "]"},
        {'R', true, "\\R"},
        {'N', true, "\\N"},
        {'A', false, "\\A"},
        {'z', false, "\\z"},
        {'Z', false, "\\Z"},
        {'b', false, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))"},
        {'B', false, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))"},
    };
    ptrdiff_t start = (ptrdiff_t)t->out->size;
    bool known, set;
    if (t->end - t->p < 2)
        return refuse(t, err, "a backslash at its end");
    t->atom = start;
    t->repeated = false;
    QK_TRY(common_escape(t, &known, &set, err));
    if (known)
        return QK_OK;
    for (size_t i = 0; i < sizeof ESCAPES / sizeof *ESCAPES; i++) {
        if (ESCAPES[i].letter == (char)t->p[1]) {
            t->p += 2;
            t->atom = ESCAPES[i].repeatable ? start : NO_ATOM;
            return emit(t, ESCAPES[i].text, err);
        }
    }
    if (t->p[1] >= '1' && t->p[1] <= '9' && (t->end - t->p < 3 || hex_value(t->p[2]) < 0)) {
        t->p += 2;
        return qk__buffer_append(t->out, t->p - 2, 2, err);
    }
    return refuse(t, err, "an unknown escape");
}

/* ---- classes ---------------------------------------------------------------------------- */

static qk_status class_escape(translator *t, bool *set, qk_error *err)
{
    bool known;
    if (t->end - t->p < 2)
        return refuse(t, err, "a backslash at its end");
    QK_TRY(common_escape(t, &known, set, err));
    if (known)
        return QK_OK;
    *set = t->p[1] != 'b';
    const char *text = t->p[1] == 'w'   ? WORD_SET
                       : t->p[1] == 'h' ? HEX_SET
                       : t->p[1] == 'b' ? "\\x08"
                                        : NULL;
    if (!text)
        return refuse(t, err, "an unknown escape in a class");
    t->p += 2;
    return emit(t, text, err);
}

/* [:alpha:] and its like within a class, t->p at the bracket. */
static qk_status posix_class(translator *t, qk_error *err)
{
    static const struct {
        const char *name, *text;
    } NAMES[] = {
        {"[:alpha:]", "\\p{Alphabetic}"}, {"[:digit:]", "\\d"},
        {"[:space:]", "\\p{wspace}"},     {"[:upper:]", "\\p{Uppercase}"},
        {"[:lower:]", "\\p{Lowercase}"},  {"[:word:]", WORD_SET},
        {"[:xdigit:]", HEX_SET},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (at(t, NAMES[i].name)) {
            t->p += strlen(NAMES[i].name);
            return emit(t, NAMES[i].text, err);
        }
    }
    return refuse(t, err, "an unknown class name");
}

/* One [...] with those inside it, which add to it. */
static qk_status character_class(translator *t, qk_error *err)
{
    size_t depth = 1;
    bool set = false, first = true, hyphen = false; /* of the item before */
    t->atom = (ptrdiff_t)t->out->size;
    t->repeated = false;
    QK_TRY(emit(t, at(t, "[^") ? "[^" : "[", err));
    t->p += at(t, "[^") ? 2 : 1;
    while (t->p < t->end && depth > 0) {
        bool was_set = set, was_hyphen = hyphen;
        set = hyphen = false;
        if (*t->p == ']' && !first) {
            depth--;
            t->p++;
            set = true;
        } else if (*t->p == '\\') {
            QK_TRY(class_escape(t, &set, err));
        } else if (at(t, "[:")) {
            QK_TRY(posix_class(t, err));
            set = true;
        } else if (*t->p == '[') {
            if (at(t, "[^") || at(t, "[]") || was_hyphen || ++depth > MAX_DEPTH)
                return refuse(t, err, "a class in a class");
            t->p++;
            set = true;
        } else if (at(t, "&&")) {
            return refuse(t, err, "an intersection of classes");
        } else if (*t->p == '-' && (first || was_set || at(t, "-]"))) {
            t->p++;
            QK_TRY(emit(t, "\\-", err));
        } else {
            hyphen = *t->p == '-';
            if (*t->p == ']')
                QK_TRY(emit(t, "\\", err));
            QK_TRY(copy_character(t, err));
        }
        first = false;
    }
    return depth > 0 ? refuse(t, err, "a class without end") : emit(t, "]", err);
}

/* ---- groups and quantifiers ------------------------------------------------------------- */

/* (?i) (?i-m: ...: the letters; m, "dot matches newline", is s in PCRE2. */
static qk_status options(translator *t, bool *opens, qk_error *err)
{
    QK_TRY(emit(t, "(?", err));
    for (t->p += 2; t->p < t->end; t->p++) {
        if (*t->p == ':' || *t->p == ')') {
            *opens = *t->p == ':';
            return copy_byte(t, err);
        }
        const char *letter = *t->p == 'i'   ? "i"
                             : *t->p == 'm' ? "s"
                             : *t->p == '-' ? "-"
                                            : NULL;
        if (!letter)
            break;
        QK_TRY(emit(t, letter, err));
    }
    return refuse(t, err, "an unknown group");
}

static qk_status open_group(translator *t, qk_error *err)
{
    static const char *const STARTS[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    size_t start = t->out->size;
    bool opens = true, found = false;
    if (!at(t, "(?")) {
        QK_TRY(emit(t, "(", err));
        t->p++;
        found = true;
    }
    for (size_t i = 0; !found && i < sizeof STARTS / sizeof *STARTS; i++) {
        if (at(t, STARTS[i])) {
            QK_TRY(emit(t, STARTS[i], err));
            t->p += strlen(STARTS[i]);
            found = true;
        }
    }
    if (!found)
        QK_TRY(options(t, &opens, err));
    t->atom = NO_ATOM;
    if (opens && t->depth == MAX_DEPTH)
        return refuse(t, err, "too many groups in groups");
    if (opens)
        t->groups[t->depth++] = start;
    return QK_OK;
}

static qk_status close_group(translator *t, qk_error *err)
{
    if (t->depth == 0)
        return refuse(t, err, "an unmatched parenthesis");
    t->atom = (ptrdiff_t)t->groups[--t->depth];
    t->repeated = false;
    t->p++;
    return emit(t, ")", err);
}

/* {n}, {n,}, {n,m}, {,m} at p: its length, else 0. *fixed: the first form. */
static size_t interval(const uint8_t *p, const uint8_t *end, bool *fixed)
{
    const uint8_t *q = p + 1;
    size_t low = 0, high = 0;
    bool comma = false;
    while (q < end && *q >= '0' && *q <= '9')
        q++, low++;
    if (q < end && *q == ',') {
        comma = true;
        q++;
        while (q < end && *q >= '0' && *q <= '9')
            q++, high++;
    }
    *fixed = !comma;
    return q < end && *q == '}' && low + high > 0 ? (size_t)(q - p) + 1 : 0;
}

/* Puts what is repeated already into a group, so that it can be repeated once more. */
static qk_status enclose(translator *t, qk_error *err)
{
    size_t start = (size_t)t->atom;
    QK_TRY(emit(t, "(?:)", err));
    memmove(t->out->data + start + 3, t->out->data + start, t->out->size - 4 - start);
    memcpy(t->out->data + start, "(?:", 3);
    t->out->data[t->out->size - 1] = ')';
    return QK_OK;
}

static qk_status quantifier(translator *t, size_t braces, bool fixed, qk_error *err)
{
    if (t->atom == NO_ATOM)
        return refuse(t, err, "nothing to repeat");
    if (t->repeated)
        QK_TRY(enclose(t, err));
    t->repeated = true;
    if (braces == 0) {
        QK_TRY(copy_byte(t, err));
        return t->p < t->end && (*t->p == '?' || *t->p == '+') ? copy_byte(t, err) : QK_OK;
    }
    if (t->p[1] == ',')
        QK_TRY(emit(t, "{0", err));
    QK_TRY(qk__buffer_append(t->out, t->p + (t->p[1] == ','), braces - (t->p[1] == ','), err));
    t->p += braces;
    if (t->p < t->end && *t->p == '?') {
        if (fixed)
            return refuse(t, err, "'?' after {n}");
        QK_TRY(copy_byte(t, err));
    }
    return QK_OK; /* a '+' that follows repeats the whole once more */
}

static qk_status next(translator *t, qk_error *err)
{
    bool fixed;
    size_t braces;
    switch (*t->p) {
    case '\\':
        return escape(t, err);
    case '[':
        return character_class(t, err);
    case '(':
        return open_group(t, err);
    case ')':
        return close_group(t, err);
    case '|':
    case '^':
    case '$':
        t->atom = NO_ATOM;
        return copy_byte(t, err);
    case '*':
    case '+':
    case '?':
        return quantifier(t, 0, false, err);
    case '{':
        braces = interval(t->p, t->end, &fixed);
        if (braces > 0)
            return quantifier(t, braces, fixed, err);
        QK_TRY(emit(t, "\\", err)); /* a brace like any other character */
        t->atom = (ptrdiff_t)t->out->size - 1;
        break;
    default:
        t->atom = (ptrdiff_t)t->out->size;
    }
    t->repeated = false;
    return copy_character(t, err);
}

qk_status qk__pattern_translate(const char *pattern, size_t size, qk__buffer *out,
                                qk_error *err)
{
    const uint8_t *text = (const uint8_t *)pattern;
    translator t = {.text = text, .p = text, .end = text + size, .out = out, .atom = NO_ATOM};
    while (t.p < t.end)
        QK_TRY(next(&t, err));
    return t.depth > 0 ? refuse(&t, err, "a group without end") : QK_OK;
}
