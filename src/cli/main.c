/* SPDX-License-Identifier: Apache-2.0 */
/* The qkscope command: finds the command asked for and runs it. */
#include "tell.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/common.h>

/* Every command, in the order of qkscope help --all. */
/* clang-format off */
#define COMMAND_LIST(X) \
    X(capture) \
    X(inspect) \
    X(analyze) \
    X(ablate) \
    X(compare) \
    X(compare_stages) \
    X(study) \
    X(heads) \
    X(sql) \
    X(report) \
    X(scatter) \
    X(explain) \
    X(pca) \
    X(rotate) \
    X(plasticity) \
    X(attention) \
    X(merge) \
    X(loss) \
    X(tokenize)
/* clang-format on */
#define DECLARE(name) extern const cli_command cmd_##name;
COMMAND_LIST(DECLARE)
#undef DECLARE

#define ADDRESS(name) &cmd_##name,
static const cli_command *const COMMANDS[] = {COMMAND_LIST(ADDRESS) NULL};
#undef ADDRESS

/* Names of the original tools, for published command lines, and a short name. */
static const struct {
    const char *alias, *command;
} ALIASES[] = {
    {"pca-analyze", "pca"},          {"rotate-analyze", "rotate"}, {"pca-visualize", "scatter"},
    {"rotate-visualize", "scatter"}, {"sniff-qk", "capture"},      {"stages", "compare-stages"},
};

enum { NUM_ALIASES = sizeof ALIASES / sizeof *ALIASES };

static const cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < NUM_ALIASES; i++)
        if (strcmp(name, ALIASES[i].alias) == 0)
            name = ALIASES[i].command;
    for (size_t i = 0; COMMANDS[i]; i++)
        if (strcmp(name, COMMANDS[i]->name) == 0)
            return COMMANDS[i];
    return NULL;
}

static const char EXAMPLES[] = "  qkscope capture -m MODEL -t texts.jsonl -o capture\n"
                               "  qkscope analyze capture -o results\n"
                               "  qkscope report results\n";

/* Whether qkscope help --all alone shows this heading. */
static bool is_of_all(const char *group)
{
    return strcmp(group, CLI_PARTS) == 0 || strcmp(group, CLI_MORE) == 0;
}

static void print_commands(FILE *out, bool all)
{
    const char *group = "";
    for (const cli_command *const *c = COMMANDS; *c; c++) {
        if (is_of_all((*c)->group) && !all)
            continue;
        if (strcmp(group, (*c)->group) != 0)
            fprintf(out, "\n%s:\n", group = (*c)->group);
        fprintf(out, "  %-15s %s\n", (*c)->name, (*c)->summary);
    }
    if (all)
        fprintf(out, "\nIn the Python package:\n  calibrate, export, hf, push\n");
}

static void print_help(FILE *out, bool all)
{
    fprintf(out,
            "qkscope %s: how much of each attention head's query-key space is position, "
            "how much content\n\nUsage: qkscope COMMAND [options]\n",
            qk_version());
    print_commands(out, all);
    fprintf(out,
            "\nExamples:\n%s"
            "\n'qkscope help COMMAND' explains a command, its options, and has examples.\n%s",
            EXAMPLES, all ? "" : "'qkscope help --all' lists all commands.\n");
    cli_print_externals(out);
}

/* With a handler, a write beyond the limit on file sizes (ulimit -f) fails and is reported like any other failure.
 * Programs that are started get the default action back. */
static void on_full_file(int number)
{
    (void)number;
}

static void catch_full_file(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_full_file;
    action.sa_flags = SA_RESTART;
    sigaction(SIGXFSZ, &action, NULL);
}

/* A name that is no command: a program on the path takes it, or it is an error. */
static int run_external(char **argv)
{
    const char *name = argv[0];
    const char *instead = cli_gone(name, NULL);
    static const char *const OF_PYTHON[] = {"calibrate", "export", "hf", "push"};
    int code = *name != '-' ? cli_run_external(argv) : -1;
    if (code >= 0)
        return code;
    const char *names[sizeof COMMANDS / sizeof *COMMANDS + NUM_ALIASES];
    size_t count = 0;
    if (instead) {
        cli_error("%s has left: use %s", name, instead);
        return EXIT_CODE_USAGE;
    }
    for (size_t i = 0; i < sizeof OF_PYTHON / sizeof *OF_PYTHON; i++)
        if (strcmp(name, OF_PYTHON[i]) == 0) {
            cli_error(
                "%s is a program of the Python package: in a checkout, pip install . numpy",
                name);
            return EXIT_CODE_USAGE;
        }
    if (*name == '-') {
        cli_error("%s: expected a command first, and options behind it", name);
    } else {
        for (size_t i = 0; COMMANDS[i]; i++)
            names[count++] = COMMANDS[i]->name;
        for (size_t i = 0; i < NUM_ALIASES; i++)
            names[count++] = ALIASES[i].alias;
        names[count] = NULL;
        const char *meant = qk_nearest_word(name, names);
        cli_error("there is no command '%s'%s%s%s", name, meant ? " (did you mean " : "",
                  meant ? meant : "", meant ? "?)" : "");
    }
    fprintf(stderr, "Try 'qkscope help'.\n");
    return EXIT_CODE_USAGE;
}

static int begin(const cli_command *command, const char *first, const char *name, int argc,
                 char **argv)
{
    cli_begin(first, name);
    return cli_run(command, argc, argv);
}

/* help, help --all or help COMMAND. */
static int help(int argc, char **argv)
{
    char option[] = "--help";
    if (argc == 0 || strcmp(argv[0], "help") == 0) {
        print_help(stdout, false);
        return cli_finish(EXIT_CODE_OK);
    }
    if (argc == 1 && strcmp(argv[0], "--all") == 0) {
        print_help(stdout, true);
        return cli_finish(EXIT_CODE_OK);
    }
    if (argc > 1) {
        cli_error("unexpected argument '%s': help is for one command", argv[1]);
        return EXIT_CODE_USAGE;
    }
    const cli_command *command = find_command(argv[0]);
    char *asked[] = {argv[0], option, NULL};
    return command ? begin(command, "qkscope", argv[0], 2, asked) : run_external(asked);
}

static bool is_one_of(const char *word, const char *a, const char *b, const char *c)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0 || strcmp(word, c) == 0;
}

int main(int argc, char **argv)
{
    catch_full_file();
    json_set_alloc_funcs(cli_json_take, free);
    const char *program = argc > 0 ? argv[0] : "qkscope";
    if (strrchr(program, '/'))
        program = strrchr(program, '/') + 1;
    const cli_command *alias = find_command(program);
    if (alias)
        return begin(alias, "", program, argc, argv);
    if (argc < 2) {
        print_help(stderr, false);
        return EXIT_CODE_USAGE;
    }
    if (is_one_of(argv[1], "help", "--help", "-h"))
        return help(argc - 2, argv + 2);
    if (is_one_of(argv[1], "version", "--version", "-V")) {
        printf("qkscope %s\n", qk_version());
        return cli_finish(EXIT_CODE_OK);
    }
    if (strcmp(argv[1], "describe") == 0 && argc == 2) /* for tools/generate.py */
        return cli_finish(cli_describe(COMMANDS));
    const cli_command *command = find_command(argv[1]);
    return command ? begin(command, "qkscope", argv[1], argc - 1, argv + 1)
                   : run_external(argv + 1);
}
