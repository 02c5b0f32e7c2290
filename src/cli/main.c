/* SPDX-License-Identifier: Apache-2.0 */
/* The qkscope command: finds the command asked for and runs it. */
#include "cli.h"

#include <signal.h>
#include <string.h>

#include <qkscope/common.h>

/* Every command, in the order of qkscope --help. */
/* clang-format off */
#define COMMAND_LIST(X) \
    X(pca) \
    X(rotate) \
    X(plasticity) \
    X(analyze) \
    X(compare_stages) \
    X(merge) \
    X(study) \
    X(report) \
    X(scatter) \
    X(explain) \
    X(inspect) \
    X(tokenize) \
    X(get) \
    X(put) \
    X(capture) \
    X(synth) \
    X(repack) \
    X(heads) \
    X(plot)
/* clang-format on */
#define DECLARE(name) extern const cli_command cmd_##name;
COMMAND_LIST(DECLARE)
#undef DECLARE

#define ADDRESS(name) &cmd_##name,
static const cli_command *const COMMANDS[] = {COMMAND_LIST(ADDRESS) NULL};
#undef ADDRESS

/* Names of the original tools, for published command lines. */
static const struct {
    const char *alias, *command;
} ALIASES[] = {
    {"pca-analyze", "pca"},          {"rotate-analyze", "rotate"}, {"pca-visualize", "scatter"},
    {"rotate-visualize", "scatter"}, {"sniff-qk", "capture"},
};

static const size_t NUM_ALIASES = sizeof ALIASES / sizeof *ALIASES;

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

static void print_help(FILE *out)
{
    fprintf(out,
            "qkscope %s: how much of each attention head's query-key space is position, "
            "how much content\n\nUsage: qkscope COMMAND [options]\n",
            qk_version());
    const char *group = "";
    for (size_t i = 0; COMMANDS[i]; i++) {
        if (strcmp(group, COMMANDS[i]->group) != 0)
            fprintf(out, "\n%s:\n", group = COMMANDS[i]->group);
        fprintf(out, "  %-15s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    }
    fprintf(out, "\n'qkscope COMMAND --help' explains a command.\n");
}

/* With a handler, a write beyond the limit on file sizes (ulimit -f) fails and is reported as
 * any other. Programs that are started get the signal's default action back. */
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

int main(int argc, char **argv)
{
    catch_full_file();
    const char *program = argc > 0 ? argv[0] : "qkscope";
    if (strrchr(program, '/'))
        program = strrchr(program, '/') + 1;
    const cli_command *alias = find_command(program);
    if (alias)
        return cli_run(alias, argc, argv);
    if (argc < 2) {
        print_help(stderr);
        return EXIT_CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return cli_finish(EXIT_CODE_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("qkscope %s\n", qk_version());
        return cli_finish(EXIT_CODE_OK);
    }
    if (strcmp(argv[1], "describe") == 0 && argc == 2) /* for tools/generate.py */
        return cli_finish(cli_describe(COMMANDS));
    const cli_command *command = find_command(argv[1]);
    if (!command) {
        cli_error("there is no command '%s'", argv[1]);
        print_help(stderr);
        return EXIT_CODE_USAGE;
    }
    return cli_run(command, argc - 1, argv + 1);
}
