/* SPDX-License-Identifier: Apache-2.0 */
/* --help of a command: its options by section, wrapped, and examples. */
#include "cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELP_COLUMN = 30, LEAST_WIDTH = 50, MOST_WIDTH = 92, FEW_EXAMPLES = 3 };

/* The terminal's width; but a line holds at least a few words. */
static size_t line_width(int most)
{
    int columns = isatty(STDOUT_FILENO) ? cli_columns(STDOUT_FILENO) : most;
    return columns < LEAST_WIDTH ? LEAST_WIDTH
           : columns > most      ? (size_t)most
                                 : (size_t)columns;
}

void cli_print_wrapped(const char *text, int column, int most)
{
    const size_t from = (size_t)column, width = line_width(most);
    size_t at = from;
    while (*text) {
        const size_t length = strcspn(text, " \n");
        char *word = strndup(text, length);
        const size_t columns = cli_text_columns(word ? word : "", INT_MAX);
        if (at > from && at + 1 + columns > width) {
            cli_print("\n%*s", column, "");
            at = from;
        } else if (at > from) {
            cli_print(" ");
            at++;
        }
        cli_print("%s", word ? word : "");
        free(word);
        at += columns;
        text += length + (text[length] == ' ');
        for (; *text == '\n'; text++, at = from)
            cli_print("\n");
    }
}

/* Prints its default as well, unless settings is NULL. */
static void print_option(const qk_settings *settings, const cli_option *option)
{
    char left[100], missing[200] = "", help[500], letter[5] = "    ";
    if (option->setting->letter && !option->off)
        snprintf(letter, sizeof letter, "-%c, ", option->setting->letter);
    int length = snprintf(left, sizeof left, "  %s--%s%s%s", letter, option->name,
                          *option->value ? " " : "", option->value);
    if (settings)
        cli_default_text(settings, option, missing, sizeof missing);
    snprintf(help, sizeof help, "%s%s%s%s", option->help, *missing ? " (default: " : "",
             missing, *missing ? ")" : "");
    printf("%-*s", HELP_COLUMN, left);
    if (length >= HELP_COLUMN)
        printf("\n%*s", HELP_COLUMN, "");
    cli_print_wrapped(help, HELP_COLUMN, MOST_WIDTH);
    putchar('\n');
}

static void print_lines(const char *lines, int most)
{
    for (size_t length; *lines && most-- > 0; lines += length + (lines[length] == '\n')) {
        length = strcspn(lines, "\n");
        printf("  %.*s\n", (int)length, lines);
    }
}

/* Prints the options by section, in the order in which sections first appear. */
static void print_options(const qk_settings *settings)
{
    cli_option options[CLI_MAX_OPTIONS];
    size_t count = cli_list_options(settings, options);
    for (size_t i = 0; i < count; i++) {
        const char *section = options[i].setting->section;
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(options[k].setting->section, section) == 0;
        if (!seen)
            printf("\n%s:\n", section);
        for (size_t k = i; k < count && !seen; k++)
            if (strcmp(options[k].setting->section, section) == 0)
                print_option(settings, &options[k]);
    }
}

void cli_print_help(const cli_command *command, const qk_settings *settings)
{
    printf("Usage: %s %s\n\n", cli_called(), command->usage);
    cli_print_wrapped(command->description, 0, MOST_WIDTH);
    putchar('\n');
    print_options(settings);
    printf("\nLists read 0,2,5-9. Exit codes: 0 ok, 1 failure, 2 usage, 3 some heads failed,\n"
           "130 stopped by Ctrl-C (128 and the signal's number).\n"
           "\nExamples:\n");
    print_lines(command->examples, INT_MAX);
}

/* Whether a list of words has the name; NULL has all names. */
static bool is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; p; p = strchr(p, ' ') ? strchr(p, ' ') + 1 : NULL)
        if (strncmp(p, name, length) == 0 && (p[length] == ' ' || p[length] == 0))
            return true;
    return list == NULL;
}

void cli_print_usual(const cli_command *command, const qk_settings *settings)
{
    cli_option options[CLI_MAX_OPTIONS];
    const size_t count = cli_list_options(settings, options);
    char about[400];
    const char *end = strstr(command->description, "\n\n");
    snprintf(about, sizeof about, "%.*s",
             (int)(end ? (size_t)(end - command->description) : strlen(command->description)),
             command->description);
    printf("Usage: %s %s\n\n", cli_called(), command->usage);
    cli_print_wrapped(about, 0, MOST_WIDTH);
    printf("\n\n");
    for (size_t i = 0; i < count; i++)
        if (is_listed(command->usual, options[i].name))
            print_option(NULL, &options[i]);
    printf("\nExamples:\n");
    print_lines(command->examples, FEW_EXAMPLES);
    printf("\n%s --help has all %zu options, what they are when not given, and exit codes.\n",
           cli_called(), count);
}
