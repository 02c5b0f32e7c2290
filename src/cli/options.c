/* SPDX-License-Identifier: Apache-2.0 */
/* Options from a table: parsing with checks, and the --help text. */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/version.h>

enum { MAX_OPTIONS = 64, FIRST_LONG = 1000 };

static const size_t NUM_COMMON = 5;

/* The command's own options, then the common ones. */
static cli_option option_at(const cli_syntax *syntax, size_t i)
{
    if (i < syntax->num_options)
        return syntax->options[i];
    cli_common *common = syntax->common;
    const cli_option shared[] = {
        {'q', "quiet", NULL, "print errors only", OPTION_FLAG, &common->quiet, 0, 0},
        {'v', "verbose", NULL, "print what was decided along the way", OPTION_FLAG,
         &common->verbose, 0, 0},
        {0, "json", NULL, "print the outcome as JSON", OPTION_FLAG, &common->json, 0, 0},
        {'h', "help", NULL, "print this and stop", OPTION_FLAG, &common->help, 0, 0},
        {0, "version", NULL, "print the version and stop", OPTION_FLAG, &common->version, 0, 0},
    };
    return shared[i - syntax->num_options];
}

static void print_option(const cli_option *option)
{
    enum { HELP_COLUMN = 30 };
    char left[64];
    snprintf(left, sizeof left, "  %c%c%s --%s%s%s", option->letter ? '-' : ' ',
             option->letter ? option->letter : ' ', option->letter ? "," : " ", option->name,
             option->value ? " " : "", option->value ? option->value : "");
    printf("%-*s", HELP_COLUMN, left);
    if (strlen(left) >= HELP_COLUMN)
        printf("\n%*s", HELP_COLUMN, "");
    for (const char *p = option->help; *p; p++) {
        putchar(*p);
        if (*p == '\n')
            printf("%*s", HELP_COLUMN, "");
    }
    putchar('\n');
}

static void print_help(const cli_syntax *syntax)
{
    printf("Usage: %s %s\n\n%s\n\nOptions:\n", syntax->command, syntax->usage,
           syntax->description);
    for (size_t i = 0; i < syntax->num_options + NUM_COMMON; i++) {
        cli_option option = option_at(syntax, i);
        print_option(&option);
    }
    printf(
        "\nLists read 0,2,5-9. Exit codes: 0 ok, 1 failure, 2 usage, 3 some heads failed.\n");
}

/* A whole number ("1000000" or "1e6") with nothing behind it, within the option's bounds. */
static bool parse_integer(const cli_option *option, const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end != text && (*end == 'e' || *end == 'E') && end[1] >= '0' && end[1] <= '9') {
        long power = strtol(end + 1, &end, 10);
        for (; power > 0 && number != 0; power--)
            if (__builtin_mul_overflow(number, 10LL, &number))
                return false;
    }
    bool bounded = option->min != 0 || option->max != 0;
    *value = number;
    return end != text && *end == 0 && errno == 0 &&
           (!bounded || ((double)number >= option->min && (double)number <= option->max));
}

static bool parse_real(const cli_option *option, const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    bool bounded = option->min != 0 || option->max != 0;
    return end != text && *end == 0 && isfinite(*value) &&
           (!bounded || (*value >= option->min && *value <= option->max));
}

static bool parse_kinds(const char *text, qk_kinds *kinds)
{
    if (strcmp(text, "q") == 0)
        *kinds = QK_KINDS_Q;
    else if (strcmp(text, "k") == 0)
        *kinds = QK_KINDS_K;
    else if (strcmp(text, "q,k") == 0 || strcmp(text, "k,q") == 0)
        *kinds = QK_KINDS_BOTH;
    else
        return false;
    return true;
}

/* What a forgotten value or an unset variable of a shell leaves in its place. */
static bool is_misplaced(const char *value)
{
    return *value == 0 || strncmp(value, "--", 2) == 0;
}

/* Whether the option takes a file or a folder, for which the next option would do as well. */
static bool takes_path(const cli_option *option)
{
    return option->kind == OPTION_TEXTS ||
           (option->kind == OPTION_TEXT && option->value &&
            (strcmp(option->value, "DIR") == 0 || strcmp(option->value, "FILE") == 0 ||
             strcmp(option->value, "MODEL") == 0));
}

/* Stores the value; false leaves in `why` what would have been right. */
static bool store(const cli_option *option, const char *text, char *why, size_t why_size)
{
    int64_t integer;
    if (takes_path(option) && is_misplaced(text)) {
        snprintf(why, why_size,
                 *text ? "is an option; a path of such a name is given as ./%s"
                       : "expected a path, found nothing (for this folder: .)",
                 text);
        return false;
    }
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->target = true;
        return true;
    case OPTION_TEXT:
        *(const char **)option->target = text;
        return true;
    case OPTION_TEXTS: {
        cli_texts *texts = option->target;
        texts->items[texts->count++] = text;
        return true;
    }
    case OPTION_INT:
    case OPTION_INT64:
        if (!parse_integer(option, text, &integer))
            break;
        if (option->kind == OPTION_INT64)
            *(int64_t *)option->target = integer;
        else if (integer >= INT32_MIN && integer <= INT32_MAX)
            *(int *)option->target = (int)integer;
        else
            break;
        return true;
    case OPTION_REAL:
        if (parse_real(option, text, option->target))
            return true;
        break;
    case OPTION_LIST: {
        qk_error err;
        qk_index_list list;
        if (qk_index_list_parse(text, &list, &err) == QK_OK) {
            qk_index_list_free(option->target);
            *(qk_index_list *)option->target = list;
            return true;
        }
        snprintf(why, why_size, "%.*s", (int)why_size - 1, err.message);
        return false;
    }
    case OPTION_KINDS:
        if (parse_kinds(text, option->target))
            return true;
        snprintf(why, why_size, "expected q, k or q,k");
        return false;
    }
    const char *what = option->kind == OPTION_REAL ? "number" : "whole number";
    if (option->min != 0 || option->max != 0)
        snprintf(why, why_size, "expected a %s from %.15g to %.15g", what, option->min,
                 option->max);
    else
        snprintf(why, why_size, "expected a %s", what);
    return false;
}

static int usage_error(const cli_syntax *syntax)
{
    fprintf(stderr, "Try '%s --help'.\n", syntax->command);
    return EXIT_CODE_USAGE;
}

static bool has_optional_value(const cli_option *option)
{
    return option->value && option->value[0] == '[';
}

/* The word after an option whose value may be left out is the value if it reads like one: a
 * number or RxC. A folder of such a name is given as ./4. */
static const char *optional_value(int argc, char **argv)
{
    const char *next = optind < argc ? argv[optind] : "";
    if (*next < '0' || *next > '9' || next[strspn(next, "0123456789x")] != 0)
        return "";
    optind++;
    return next;
}

/* Tables for getopt_long; long options without a letter get numbers from FIRST_LONG on. */
static void build_tables(const cli_syntax *syntax, struct option *longs, char *shorts)
{
    size_t total = syntax->num_options + NUM_COMMON;
    *shorts++ = ':'; /* a missing value is reported as ':' rather than '?' */
    for (size_t i = 0; i < total; i++) {
        cli_option option = option_at(syntax, i);
        longs[i] = (struct option){option.name,
                                   has_optional_value(&option) ? optional_argument
                                   : option.value              ? required_argument
                                                               : no_argument,
                                   NULL, FIRST_LONG + (int)i};
        if (option.letter) {
            *shorts++ = option.letter;
            if (option.value)
                *shorts++ = ':';
        }
    }
    longs[total] = (struct option){0};
    *shorts = 0;
}

static size_t find_option(const cli_syntax *syntax, int code)
{
    if (code >= FIRST_LONG)
        return (size_t)(code - FIRST_LONG);
    size_t i = 0;
    while (option_at(syntax, i).letter != code)
        i++;
    return i;
}

int cli_parse(const cli_syntax *syntax, int argc, char **argv, const char **arguments,
              int *count)
{
    struct option longs[MAX_OPTIONS];
    char shorts[2 * MAX_OPTIONS + 2];
    build_tables(syntax, longs, shorts);
    *count = 0;
    opterr = 0;
    optind = 1;
    for (;;) {
        int code = getopt_long(argc, argv, shorts, longs, NULL);
        if (code == -1)
            break;
        if (code == '?' || code == ':') {
            cli_error(syntax->command,
                      code == ':' ? "option %s needs a value" : "there is no option %s",
                      argv[optind - 1]);
            return usage_error(syntax);
        }
        cli_option option = option_at(syntax, find_option(syntax, code));
        const char *value = optarg                        ? optarg
                            : has_optional_value(&option) ? optional_value(argc, argv)
                                                          : "";
        char why[256];
        if (!store(&option, value, why, sizeof why)) {
            cli_error(syntax->command, "--%s %s: %s", option.name, value, why);
            return usage_error(syntax);
        }
    }
    if (syntax->common->help) {
        print_help(syntax);
        return cli_finish(syntax->command, EXIT_CODE_OK);
    }
    if (syntax->common->version) {
        printf("qkscope %s\n", qk_version());
        return cli_finish(syntax->command, EXIT_CODE_OK);
    }
    for (; optind < argc; optind++) {
        if (*count == syntax->max_arguments) {
            cli_error(syntax->command, "unexpected argument '%s'", argv[optind]);
            return usage_error(syntax);
        }
        arguments[(*count)++] = argv[optind];
    }
    return -1;
}

const char *cli_find_value(int argc, char **argv, const char *name)
{
    size_t length = strlen(name);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, length) != 0)
            continue;
        const char *rest = argv[i] + 2 + length;
        const char *value = *rest == '=' ? rest + 1 : *rest == 0 ? argv[i + 1] : NULL;
        if (value)
            return is_misplaced(value) ? NULL : value;
    }
    return NULL;
}
