/* SPDX-License-Identifier: Apache-2.0 */
/* A call of a command: options by its table, a file of settings, then the command itself. */
#include "cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/common.h>

enum { FIRST_LONG = 1000 };

/* ---- options ---------------------------------------------------------------------------- */

/* An option that was given, and its value. */
typedef struct given {
    const cli_option *option;
    const char *value;
    bool by_letter; /* -h, not --help */
} given;

typedef struct parser {
    cli_call *call;
    cli_option options[CLI_MAX_OPTIONS];
    size_t num_options;
    struct option longs[CLI_MAX_OPTIONS + 1];
    char shorts[2 * CLI_MAX_OPTIONS + 2];
    given *given;
    size_t num_given;
} parser;

static int fail_usage(void)
{
    fprintf(stderr, "Try '%s --help'.\n", cli_called());
    return EXIT_CODE_USAGE;
}

static int no_option(const parser *p, const char *name)
{
    const char *names[CLI_MAX_OPTIONS + 1] = {NULL};
    for (size_t i = 0; i < p->num_options; i++)
        names[i] = p->options[i].name;
    const char *meant = qk_nearest_word(name, names);
    cli_error("there is no option --%s%s%s%s", name, meant ? " (did you mean --" : "",
              meant ? meant : "", meant ? "?)" : "");
    return fail_usage();
}

/* "--max" may begin several names. */
static int several_options(const char *name, const char *first, const char *second)
{
    cli_error("--%s may be --%s or --%s", name, first, second);
    return fail_usage();
}

/* Says what getopt refuses: of letters in one word getopt tells which, of a long option only that it is in the last
 * word it looked at. */
static int refuse_option(const parser *p, int code)
{
    const char *word = p->call->argv[optind - 1];
    char name[80];
    const char *first = NULL, *second = NULL;
    if (optopt != 0 && optopt < FIRST_LONG) {
        cli_error(code == ':' ? "option -%s needs a value" : "there is no option -%s",
                  (char[]){(char)optopt, 0});
        return fail_usage();
    }
    if (code == ':') {
        cli_error("option %s needs a value", word);
        return fail_usage();
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    if (optopt >= FIRST_LONG) {
        cli_error("option --%s takes no value", name);
        return fail_usage();
    }
    for (size_t i = 0; i < p->num_options; i++)
        if (strncmp(p->options[i].name, name, strlen(name)) == 0)
            *(first ? &second : &first) = p->options[i].name;
    return second ? several_options(name, first, second) : no_option(p, name);
}

static bool is_optional(const cli_option *option)
{
    return option->setting->traits & QK_SETTING_OPTIONAL;
}

/* Tables for getopt_long. */
static void build_tables(parser *p)
{
    char *letter = p->shorts;
    *letter++ = ':'; /* a missing value is reported as ':' rather than '?' */
    for (size_t i = 0; i < p->num_options; i++) {
        const cli_option *option = &p->options[i];
        p->longs[i] = (struct option){option->name,
                                      is_optional(option) ? optional_argument
                                      : *option->value    ? required_argument
                                                          : no_argument,
                                      NULL, FIRST_LONG + (int)i};
        if (option->setting->letter && !option->off) {
            *letter++ = option->setting->letter;
            if (*option->value)
                *letter++ = ':';
        }
    }
    p->longs[p->num_options] = (struct option){0};
    *letter = 0;
}

static const cli_option *find_option(const parser *p, int code)
{
    if (code >= FIRST_LONG)
        return &p->options[code - FIRST_LONG];
    size_t i = 0;
    while (p->options[i].setting->letter != code || p->options[i].off)
        i++;
    return &p->options[i];
}

/* The word after an option whose value may be left out is its value if it looks like one: a number or RxC. A folder
 * with such a name is given as ./4. */
static const char *optional_value(int argc, char **argv)
{
    const char *next = optind < argc ? argv[optind] : "";
    if (*next < '0' || *next > '9' || next[strspn(next, "0123456789x")] != 0)
        return "";
    optind++;
    return next;
}

/* Looked for before getopt, which may take a name that has left for the beginning of another name. */
static int refuse_gone(const cli_call *call)
{
    for (int i = 1; i < call->argc && strcmp(call->argv[i], "--") != 0; i++) {
        const char *word = call->argv[i];
        const char *instead =
            strncmp(word, "--", 2) == 0 ? cli_gone(call->command->name, word + 2) : NULL;
        if (instead) {
            cli_error("%.*s has left: use %s", (int)strcspn(word, "="), word, instead);
            return fail_usage();
        }
    }
    return -1;
}

/* Collects options and their values; stores nothing yet. */
static int collect(parser *p)
{
    cli_call *call = p->call;
    int refused = refuse_gone(call);
    if (refused >= 0)
        return refused;
    opterr = 0;
    optind = 1;
    for (;;) {
        int code = getopt_long(call->argc, call->argv, p->shorts, p->longs, NULL);
        if (code == -1)
            break;
        if (code == '?' || code == ':')
            return refuse_option(p, code);
        const cli_option *option = find_option(p, code);
        const char *value = optarg                ? optarg
                            : is_optional(option) ? optional_value(call->argc, call->argv)
                                                  : "";
        p->given[p->num_given++] = (given){option, value, code < FIRST_LONG};
    }
    call->arguments = call->argv + optind;
    call->count = call->argc - optind;
    return -1;
}

static int store(const parser *p, const given *one)
{
    qk_error err;
    const cli_option *option = one->option;
    const char *value = *option->value ? one->value : option->off ? "false" : "true";
    if (qk_settings_set(p->call->settings, option->setting->name, value, &err) == QK_OK)
        return -1;
    cli_error("--%s %s: %s", option->name, one->value, err.message);
    return err.status == QK_ERR_ARGUMENT ? fail_usage() : EXIT_CODE_FAILURE;
}

/* Stores the options with these names, or all others. */
static int store_all(const parser *p, const char *const *names, bool others)
{
    for (size_t i = 0; i < p->num_given; i++) {
        bool named = false;
        for (const char *const *name = names; *name; name++)
            named |= strcmp(p->given[i].option->setting->name, *name) == 0;
        int code = named != others ? store(p, &p->given[i]) : -1;
        if (code >= 0)
            return code;
    }
    return -1;
}

int cli_find_shard(const cli_call *call, qk_shard *shard)
{
    qk_error err;
    const cli_common *common = call->request;
    if (qk_shard_find(common->shard, shard, &err) != QK_OK)
        return cli_usage("%s", err.message);
    cli_begin_shard(shard);
    return -1;
}

/* The file's settings come first, so that options override them. */
static int load_config_file(const parser *p)
{
    cli_call *call = p->call;
    const cli_common *common = call->request;
    size_t files = 0;
    for (size_t i = 0; i < p->num_given; i++)
        files += strcmp(p->given[i].option->setting->name, "config") == 0;
    if (files > 1)
        return cli_usage("give --config once");
    qk_error err;
    qk_status status = common->config ? call->command->load(call->request, &err) : QK_OK;
    if (status == QK_OK)
        return -1;
    cli_error("%s", err.message);
    return cli_settings_code(status);
}

static int check_arguments(const cli_call *call)
{
    int most = call->command->max_arguments;
    if (most < 0 || call->count <= most)
        return -1;
    cli_error("unexpected argument '%s': %s takes %s", call->arguments[most],
              call->command->name, call->command->usage);
    return fail_usage();
}

/* Checks what no single option shows. */
static int check_settings(const cli_call *call)
{
    qk_error err;
    if (qk_settings_check(call->settings, &err) == QK_OK)
        return -1;
    cli_error("%s", err.message);
    return fail_usage();
}

/* Whether help was asked for by -h alone. */
static bool asks_by_letter(const parser *p)
{
    for (size_t i = 0; i < p->num_given; i++)
        if (strcmp(p->given[i].option->name, "help") == 0 && !p->given[i].by_letter)
            return false;
    return true;
}

static int run_command(parser *p)
{
    static const char *const FIRST[] = {"help", "version", "config", NULL};
    cli_call *call = p->call;
    const cli_common *common = call->request;
    build_tables(p);
    int code = collect(p);
    if (code < 0)
        code = store_all(p, FIRST, false);
    if (code >= 0)
        return code;
    if (common->help && asks_by_letter(p))
        cli_print_usual(call->command, call->settings);
    else if (common->help)
        cli_print_help(call->command, call->settings);
    else if (common->version)
        printf("qkscope %s\n", qk_version());
    if (common->help || common->version)
        return EXIT_CODE_OK;
    code = load_config_file(p);
    if (code < 0)
        code = store_all(p, FIRST, true);
    if (code < 0)
        code = check_arguments(call);
    if (code < 0)
        code = check_settings(call);
    return code < 0 ? call->command->run(call) : code;
}

/* No fewer than there can be: letters may stand together in one word. */
static size_t count_options(int argc, char **argv)
{
    size_t count = 1;
    for (int i = 1; i < argc; i++)
        count += *argv[i] == '-' ? strlen(argv[i]) : 0;
    return count;
}

int cli_run(const cli_command *command, int argc, char **argv)
{
    cli_call call = {.command = command, .argc = argc, .argv = argv};
    parser *p = calloc(1, sizeof *p);
    char title[40];
    snprintf(title, sizeof title, "qkscope %s", command->name);
    char *line = cli_words(title, argc - 1, argv + 1); /* getopt moves words */
    qk_error err;
    int code = EXIT_CODE_FAILURE;
    if (p)
        p->given = calloc(count_options(argc, argv), sizeof *p->given);
    if (p && p->given &&
        qk_settings_new(&call.settings, command->table, command->name, &err) == QK_OK) {
        p->call = &call;
        call.line = line;
        p->num_options = cli_list_options(call.settings, p->options);
        call.request = qk_settings_values(call.settings);
        code = cli_finish(run_command(p));
        if (command->release)
            command->release(call.request);
    } else {
        cli_error("out of memory");
    }
    qk_settings_free(&call.settings);
    free(line);
    if (p)
        free(p->given);
    free(p);
    return cli_leave(code);
}

void cli_note_idle(const cli_call *call, const char *what, bool idle,
                   const char *const *options)
{
    const cli_common *common = call->request;
    for (; idle && !common->quiet && cli_is_first() && *options; options++)
        if (cli_given(call, *options))
            cli_error("note: --%s does nothing without %s", *options, what);
}

bool cli_given(const cli_call *call, const char *option)
{
    return qk_settings_given(call->settings, option);
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 127;
}

/* A control character would not be shown as it is, so what is shown could not be pasted: $'...' spells it. */
static void append_word(char **out, const char *word)
{
    bool plain = *word && !strpbrk(word, " \"'\\$`!*?[]{}()<>|&;#~"), spelt = false;
    char *p = *out;
    for (const char *c = word; *c; c++)
        spelt |= is_control(*c);
    plain &= !spelt;
    if (spelt)
        *p++ = '$';
    if (!plain)
        *p++ = '\'';
    for (; *word; word++) {
        if (is_control(*word))
            p += sprintf(p, "\\%03o", (unsigned)*word);
        else if (spelt && (*word == '\'' || *word == '\\'))
            p += sprintf(p, "\\%c", *word);
        else if (*word == '\'' && !plain)
            p += sprintf(p, "'\\''");
        else
            *p++ = *word;
    }
    if (!plain)
        *p++ = '\'';
    *out = p;
}

char *cli_words(const char *first, int count, char **words)
{
    size_t size = strlen(first) + 1;
    for (int i = 0; i < count; i++)
        size += 4 * strlen(words[i]) + 4;
    char *line = malloc(size);
    if (!line)
        return NULL;
    char *p = line + snprintf(line, size, "%s", first);
    for (int i = 0; i < count; i++) {
        *p++ = ' ';
        append_word(&p, words[i]);
    }
    *p = 0;
    return line;
}
