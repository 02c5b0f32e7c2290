/* SPDX-License-Identifier: Apache-2.0 */
/* All output of the command: printf whose texts a terminal cannot obey. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#include <inttypes.h>

/* Global, like the name of a program. */
static char called[48] = "qkscope";
static qk_shard shard = {0, 1, NULL};

/* A function gets no copy of a va_list that is an array: hence the struct. */
typedef struct arguments {
    va_list list;
} arguments;

typedef struct conversion {
    char flags[6];
    int width, precision; /* precision -1: none given */
    char length;          /* 'l', 'L' (ll), 'z' or 0 */
    char kind;
} conversion;

/* ---- text from outside ------------------------------------------------------------------ */

/* Decodes the first character of `text` and returns its bytes. A byte that is not UTF-8 has *code -1. */
static size_t decode(const unsigned char *text, long *code)
{
    static const long LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = *text < 0x80   ? 1
                  : *text < 0xC2 ? 0
                  : *text < 0xE0 ? 2
                  : *text < 0xF0 ? 3
                  : *text < 0xF5 ? 4
                                 : 0;
    *code = size == 1 ? *text : size > 1 ? *text & (0x7F >> size) : -1;
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            *code = -1;
            return 1;
        }
        *code = *code << 6 | (text[i] & 0x3F);
    }
    if (size > 1 && (*code < LEAST[size] || *code > 0x10FFFF || (*code >> 11) == 0x1B))
        *code = -1;
    return *code < 0 ? 1 : size;
}

/* Control characters, and characters that turn the direction of writing, break lines or hide: with them a name could
 * look like another name, or like lines of ours. */
static bool is_obeyed(long code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E ||
           code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF ||
           (code >= 0xFFF9 && code <= 0xFFFB) || (code >= 0xE0000 && code <= 0xE007F);
}

/* Letters of East Asia and pictures take two columns; combining marks none. */
static size_t columns_of(long code)
{
    static const long WIDE[][2] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                                   {0xA960, 0xA97C},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
                                   {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},
                                   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF},
                                   {0x20000, 0x3FFFD}};
    static const long MARKS[][2] = {
        {0x300, 0x36F}, {0x200B, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};
    for (size_t i = 0; i < sizeof WIDE / sizeof *WIDE; i++)
        if (code >= WIDE[i][0] && code <= WIDE[i][1])
            return 2;
    for (size_t i = 0; i < sizeof MARKS / sizeof *MARKS; i++)
        if (code >= MARKS[i][0] && code <= MARKS[i][1])
            return 0;
    return 1;
}

/* How a character is shown; returns the columns it takes. */
static size_t spell(const unsigned char *text, size_t size, long code, char shown[CLI_SPELT])
{
    if (code >= 0 && !is_obeyed(code)) {
        memcpy(shown, text, size);
        shown[size] = 0;
        return columns_of(code);
    }
    const char *letter = code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r";
    if (code == '\n' || code == '\t' || code == '\r')
        return (size_t)snprintf(shown, CLI_SPELT, "%s", letter);
    if (code < 0)
        return (size_t)snprintf(shown, CLI_SPELT, "\\x%02x", (unsigned)*text);
    return (size_t)snprintf(shown, CLI_SPELT, code < 0x10000 ? "\\u%04lx" : "\\U%08lx",
                            (unsigned long)code);
}

size_t cli_spell(const char *text, char shown[CLI_SPELT])
{
    long code;
    size_t size = decode((const unsigned char *)text, &code);
    spell((const unsigned char *)text, size, code, shown);
    return size;
}

/* Shows at most `most` columns of a text (-1 = all); out NULL only counts them. */
static size_t put_text(FILE *out, const char *text, int most)
{
    const unsigned char *next = (const unsigned char *)text;
    size_t columns = 0;
    while (*next) {
        size_t plain = 0; /* most of what is shown needs no look */
        while (next[plain] >= ' ' && next[plain] < 0x7F &&
               (most < 0 || columns + plain < (size_t)most))
            plain++;
        if (out)
            fwrite(next, 1, plain, out);
        columns += plain;
        next += plain;
        if (!*next)
            break;
        long code;
        char shown[CLI_SPELT];
        size_t size = decode(next, &code), wide = spell(next, size, code, shown);
        if (most >= 0 && columns + wide > (size_t)most)
            break;
        if (out)
            fputs(shown, out);
        columns += wide;
        next += size;
    }
    return columns;
}

size_t cli_text_columns(const char *text, int most)
{
    return put_text(NULL, text, most);
}

/* ---- formats ---------------------------------------------------------------------------- */

static const char *read_number(const char *p, arguments *args, int *number)
{
    *number = 0;
    if (*p == '*') {
        *number = va_arg(args->list, int);
        return p + 1;
    }
    for (; *p >= '0' && *p <= '9'; p++)
        *number = 10 * *number + (*p - '0');
    return p;
}

/* What follows a '%'. */
static const char *read_conversion(const char *p, arguments *args, conversion *c)
{
    *c = (conversion){.precision = -1};
    for (size_t n = 0; *p && strchr("-+ #0", *p) && n + 1 < sizeof c->flags; p++)
        c->flags[n++] = *p;
    p = read_number(p, args, &c->width);
    if (*p == '.')
        p = read_number(p + 1, args, &c->precision);
    for (; *p == 'l' || *p == 'z'; p++)
        c->length = c->length == 'l' ? 'L' : *p;
    c->kind = *p;
    return p + 1;
}

static void put_padded(FILE *out, const conversion *c, const char *text)
{
    size_t width = (size_t)abs(c->width),
           columns = width > 0 ? put_text(NULL, text, c->precision) : 0;
    int padding = width > columns ? (int)(width - columns) : 0;
    bool left = c->width < 0 || strchr(c->flags, '-');
    for (int i = 0; i < padding && !left; i++)
        fputc(' ', out);
    put_text(out, text, c->precision);
    for (int i = 0; i < padding && left; i++)
        fputc(' ', out);
}

static void put_number(FILE *out, const conversion *c, arguments *args)
{
    static const char *const LENGTHS[] = {"", "l", "ll", "z"};
    char format[24];
    int length = c->length == 'l' ? 1 : c->length == 'L' ? 2 : c->length == 'z' ? 3 : 0;
    snprintf(format, sizeof format, "%%%s*.*%s%c", c->flags, LENGTHS[length], c->kind);
    // NOLINTBEGIN(bugprone-branch-clone): the check does not see that the types differ
    if (strchr("feg", c->kind))
        fprintf(out, format, c->width, c->precision, va_arg(args->list, double));
    else if (length == 0)
        fprintf(out, format, c->width, c->precision, va_arg(args->list, int));
    else if (length == 1)
        fprintf(out, format, c->width, c->precision, va_arg(args->list, long));
    else if (length == 2)
        fprintf(out, format, c->width, c->precision, va_arg(args->list, long long));
    else
        fprintf(out, format, c->width, c->precision, va_arg(args->list, size_t));
    // NOLINTEND(bugprone-branch-clone)
}

void cli_vprint(FILE *out, const char *fmt, va_list list)
{
    arguments args;
    va_copy(args.list, list);
    for (const char *p = fmt; *p;) {
        conversion c;
        size_t literal = strcspn(p, "%");
        fwrite(p, 1, literal, out);
        p += literal;
        if (!*p)
            break;
        p = read_conversion(p + 1, &args, &c);
        if (c.kind == '%')
            fputc('%', out);
        else if (c.kind == 's')
            put_padded(out, &c, va_arg(args.list, const char *));
        else
            put_number(out, &c, &args);
    }
    va_end(args.list);
}

void cli_begin(const char *first, const char *name)
{
    snprintf(called, sizeof called, "%s%s%s", first, *first ? " " : "", name);
}

const char *cli_called(void)
{
    return called;
}

/* Lines of several processes often end up in one file, so each line is written at once. */
void cli_begin_shard(const qk_shard *of)
{
    shard = *of;
    if (shard.count > 1)
        setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
}

bool cli_is_first(void)
{
    return shard.index == 0;
}

const char *cli_s(int64_t count)
{
    return count == 1 ? "" : "s";
}

void cli_print(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    cli_vprint(stdout, fmt, args);
    va_end(args);
}

void cli_print_file(char *text)
{
    if (!isatty(STDOUT_FILENO)) {
        fputs(text, stdout);
        return;
    }
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        cli_print("%s\n", line);
    }
}

void cli_print_number(const char *format, double value)
{
    char text[64];
    int width = snprintf(text, sizeof text, format, value);
    cli_print("%*s", width, isfinite(value) ? text : "-");
}

void cli_draw(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    cli_vprint(stderr, fmt, args);
    va_end(args);
}

static void put_error(const char *fmt, va_list args)
{
    fputs(called, stderr);
    if (shard.count > 1)
        fprintf(stderr, " %" PRId64 "/%" PRId64, shard.index, shard.count);
    fputs(": ", stderr);
    cli_vprint(stderr, fmt, args);
    fputc('\n', stderr);
}

void cli_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_error(fmt, args);
    va_end(args);
}

int cli_usage(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_error(fmt, args);
    va_end(args);
    return EXIT_CODE_USAGE;
}
