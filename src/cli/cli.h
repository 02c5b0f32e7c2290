/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share. call.c leads: it parses a command line and runs the command. help.c prints a command's help
 * from the options that options.c lists, describe_options.c gives the same to other programs; tell.c tells an outcome
 * as text or as JSON, print.c writes text, messages.c notices, progress_line.c the line of progress; ending.c ends a
 * run. */
#ifndef QK_CLI_CLI_H
#define QK_CLI_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <qkscope/analysis.h>
#include <qkscope/settings.h>

enum cli_exit {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILURE = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_PARTIAL = 3, /* some heads failed, the others have their numbers */
};

/* ---- commands --------------------------------------------------------------------------- */

/* Options that every command has; the first member of each command's request. */
typedef struct cli_common {
    bool quiet, verbose, json, help, version;
    const char *config; /* see CLI_CONFIG */
    const char *shard;  /* see CLI_SHARD */
} cli_common;

extern const qk_settings_table cli_common_table;

/* The row of --config, for commands that have `load`. */
#define CLI_CONFIG(owner, text)                                                                \
    {                                                                                          \
        "config", QK_SETTING_PATH, QK_SETTING_AT(owner, common.config),                        \
            .value = "FILE", .help = text, .section = "Running"                                \
    }

/* The row of --shard, for commands that several processes may share; cli_find_shard takes it. */
#define CLI_SHARD(owner, of)                                                                   \
    {                                                                                          \
        "shard", QK_SETTING_TEXT, QK_SETTING_AT(owner, common.shard),                          \
            .value = "I/N",                                                                    \
            .help = "do part I of N, counted from 0; the last process to end puts the "        \
                    "parts together; none: this process does all",                             \
            .unset = "as srun, sbatch --array, mpirun or torchrun say, else none",             \
            .section = "Running", .commands = (of)                                             \
    }

/* For descriptions of commands. */
#define CLI_CAPTURE_IS                                                                         \
    "CAPTURE is the folder of a capture, or org/name of a dataset on the Hugging Face Hub."

struct cli_call;

/* A command and all that is said about it: parsing, help and completion read this. */
/* Groups of commands that the first help leaves out. */
#define CLI_PARTS "Parts of analyze"
#define CLI_MORE  "More"

typedef struct cli_command {
    const char *name;
    /* the heading in qkscope help; CLI_PARTS and CLI_MORE are in help --all alone */
    const char *group;
    const char *summary;
    const char *usage;       /* what follows the name, e.g. "CAPTURE -o DIR [options]" */
    const char *description; /* for --help: paragraphs, with an empty line between two */
    const char *examples;    /* command lines, each ends with a newline */
    const char *usual;       /* options that -h shows, separated by spaces; NULL: all */
    /* settings of the request, a struct that begins with cli_common */
    const qk_settings_table *table;
    int max_arguments; /* positional ones; -1 = any number */
    unsigned analyses; /* of a command that analyses a capture: its analyses */
    const char *(*word)(
        int number); /* what the first argument may be; NULL behind the last; for completion */
    /* Reads common.config into the request, before options are stored. NULL: no --config */
    qk_status (*load)(void *request, qk_error *err);
    int (*run)(struct cli_call *call); /* the exit code */
    void (*release)(void *request);    /* frees what load and run allocated; NULL = nothing */
} cli_command;

/* One call of a command. */
typedef struct cli_call {
    const cli_command *command;
    qk_settings *settings; /* the request's settings, as the command takes them */
    void *request;
    char **arguments; /* positional arguments */
    int count;
    const char *line; /* the whole command, quoted for a shell; NULL = out of memory */
    int argc;
    char **argv; /* argv[0] is the name it was called by */
} cli_call;

/* Parses, then runs or explains; returns the exit code (call.c). */
int cli_run(const cli_command *command, int argc, char **argv);

/* Finds out which of several processes this is, by --shard or the launcher's environment; messages then begin with its
 * number. Returns the exit code of a usage error, or -1. */
int cli_find_shard(const cli_call *call, qk_shard *shard);

/* Whether the option was given. */
bool cli_given(const cli_call *call, const char *option);

/* A command and more words joined by spaces, quoted for a shell where needed; NULL when out of memory. */
char *cli_words(const char *first, int count, char **words);

/* Says that these options (NULL at the end) have no effect, because there is no `what`. */
void cli_note_idle(const cli_call *call, const char *what, bool idle,
                   const char *const *options);

/* ---- what is said about commands -------------------------------------------------------- */

/* An option of a command: it sets a value, or clears a flag. */
typedef struct cli_option {
    const qk_setting *setting;
    const char *name;
    bool off;       /* clears it */
    char value[48]; /* the name of its value; "" = it takes none */
    const char *help;
} cli_option;

enum { CLI_MAX_OPTIONS = 80 };
size_t cli_list_options(const qk_settings *settings, cli_option options[CLI_MAX_OPTIONS]);

/* What happens without the option, as far as that can be said; "" = nothing. */
void cli_default_text(const qk_settings *settings, const cli_option *option, char *text,
                      size_t size);

/* Prints words up to the terminal's width, at most `most` columns; further lines begin at `column`. */
void cli_print_wrapped(const char *text, int column, int most);

void cli_print_help(const cli_command *command, const qk_settings *settings);
/* In short: the first paragraph, the usual options, three examples. */
void cli_print_usual(const cli_command *command, const qk_settings *settings);

/* Prints the commands (NULL at the end) and options as JSON: tools/generate.py makes man pages, completions and
 * docs/reference/options.md from it. Returns the exit code. */
int cli_describe(const cli_command *const *commands);

/* What replaced a command (option NULL) or its option; NULL = it has not left (gone.c). */
const char *cli_gone(const char *command, const char *option);

/* Runs qkscope-NAME from the path, where argv[0] is NAME: returns -1 where there is none, an exit code where it cannot
 * run. The second function lists such programs (external.c). */
int cli_run_external(char **argv);
void cli_print_externals(FILE *out);

/* ---- text (print.c) --------------------------------------------------------------------- */

/* printf on stdout and on stderr. Characters in the text of a %s that a terminal would obey are shown instead, as in
 * "\n", "\u001b" or "\x9b": names and messages come from files. Width and precision of %s count columns. No %c, no %n. */
void cli_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_draw(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_vprint(FILE *out, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

/* Prints "qkscope pca: message" on stderr. cli_usage returns the exit code of usage errors. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Names the running command, as it was called, for errors and help: until then they begin with "qkscope". first is ""
 * where the program itself has the name of a command. Where several processes share the work, messages have this one's
 * number, too. */
void cli_begin(const char *first, const char *name);
const char *cli_called(void);
void cli_begin_shard(const qk_shard *shard);
bool cli_is_first(void); /* the first of these processes, or the only one */

/* The text of a file: as it is, but on a terminal its lines as by cli_print, which replaces their ends. */
void cli_print_file(char *text);

/* Prints a number in its format, or a "-" of that width for NaN. */
void cli_print_number(const char *format, double value);

/* The ending of a counted word: "" for 1, else "s". */
const char *cli_s(int64_t count);

/* Columns that the first `most` columns of a text take when shown (-1 = all). */
size_t cli_text_columns(const char *text, int most);
/* How cli_print shows the first character of a text; returns the character's bytes in the text. */
enum { CLI_SPELT = 16 };
size_t cli_spell(const char *text, char shown[CLI_SPELT]);

/* ---- messages (messages.c, progress_line.c) --------------------------------------------- */

/* Prints the figures that failed, each reason once: a missing program is missing for all. */
void cli_print_failures(char *const *failures, size_t count);

/* What the line of progress counts. */
typedef struct cli_phase {
    char what[24];                    /* what is counted; "" = nothing yet */
    int64_t first, first_bytes, done; /* first: where the count began */
    double start;
} cli_phase;

typedef struct cli_messages {
    const cli_common *common;
    const char *of; /* the name of what the counted things belong to, or NULL */
    bool drawn;     /* a progress line is on the screen */
    double start, last;
    cli_phase phase;
} cli_messages;

/* Calls with this context tell their notices and progress on the terminal as long as messages lasts; interrupts are
 * caught, too. */
void cli_messages_init(cli_messages *messages, const cli_common *common, qk_context *context);

/* Removes the progress line. */
void cli_clear(cli_messages *messages);

/* Removes the progress line and prints the error of a run that failed. */
void cli_messages_end(cli_messages *messages, qk_status status, const qk_error *err);

/* For a context whose user is a cli_messages. */
void cli_notice(void *user, qk_notice_level level, const char *message);
bool cli_progress(void *user, const qk_progress *progress);

/* Counts from 0 again, for the next model (progress_line.c). */
void cli_restart(cli_messages *messages);

/* Columns of the terminal on this file; where that is not known COLUMNS, else 80. */
int cli_columns(int terminal);

/* ---- how a run ends (ending.c) ----------------------------------------------------------- */

/* The exit code of a run. cli_settings_code is for runs whose QK_ERR_ARGUMENT can only come from a wrong option or a
 * wrong file of settings: that is a usage error. */
int cli_exit_code(qk_status status);
int cli_settings_code(qk_status status);

/* Flushes stdout. Returns FAILURE, with a message, where text could not be written or JSON not be made. */
int cli_finish(int exit_code);

/* SIGINT and SIGTERM stop the call at the next head; a second signal, of either kind, ends the program at once. */
void cli_catch_interrupts(void);
bool cli_is_interrupted(void);

/* The exit code. Where a signal stopped the run, and nothing is left behind, the program ends by that signal instead: a
 * shell calls this 130 (Ctrl-C) and ends a loop over runs, too, which it would continue after any exit code. The first
 * process of a container does not die by the signal and ends with 130 itself. */
int cli_leave(int exit_code);

#endif
