/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands share: the command table's row, exit codes, options, messages. */
#ifndef QK_CLI_CLI_H
#define QK_CLI_CLI_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <qkscope/study.h>

enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_FAILURE = 1,
    EXIT_CODE_USAGE = 2,
    EXIT_CODE_PARTIAL = 3, /* some heads failed, the others have their numbers */
};

/* One row of the command table in main.c. argv[0] is the command's own name. */
typedef struct cli_command {
    const char *name;
    const char *group;
    const char *summary;
    int (*run)(int argc, char **argv);
} cli_command;

int cmd_analyze(int argc, char **argv);
int cmd_capture(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_heads(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_pca(int argc, char **argv);
int cmd_plasticity(int argc, char **argv);
int cmd_plot(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_rotate(int argc, char **argv);
int cmd_scatter(int argc, char **argv);
int cmd_study(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);

/* ---- options (options.c) ------------------------------------------------------------ */

typedef enum option_kind {
    OPTION_FLAG,  /* bool, set to true */
    OPTION_INT,   /* int in [min, max] */
    OPTION_INT64, /* int64_t in [min, max] */
    OPTION_REAL,  /* double in [min, max] */
    OPTION_TEXT,  /* const char *, points into argv */
    OPTION_TEXTS, /* cli_texts, one more each time it is given */
    OPTION_LIST,  /* qk_index_list, "0,2,5-9" */
    OPTION_KINDS, /* qk_kinds, "q", "k" or "q,k" */
} option_kind;

/* items has room for all of argv and belongs to the caller. */
typedef struct cli_texts {
    const char **items;
    size_t count;
} cli_texts;

typedef struct cli_option {
    char letter;       /* short form, 0 = none */
    const char *name;  /* long form without dashes */
    const char *value; /* what --help calls its value; NULL for flags; "[N]" (OPTION_TEXT, no
                          letter): may be left out, which is "" */
    const char *help;  /* one line; "\n" starts another */
    option_kind kind;
    void *target;
    double min, max; /* numbers only; both 0 = no bounds but the type's */
} cli_option;

/* Options every command has. */
typedef struct cli_common {
    bool quiet, verbose, json, help, version;
} cli_common;

typedef struct cli_syntax {
    const char *command;     /* as the user calls it, e.g. "qkscope pca" */
    const char *usage;       /* what follows it, e.g. "CAPTURE -o DIR [options]" */
    const char *description; /* paragraphs for --help */
    const cli_option *options;
    size_t num_options;
    cli_common *common;
    int max_arguments; /* positional ones */
} cli_syntax;

/* Parses argv by the table. Returns -1 to go on, with the positional arguments in
 * arguments[0 .. *count-1]; else the exit code (after --help, --version or a usage error,
 * which is printed). */
int cli_parse(const cli_syntax *syntax, int argc, char **argv, const char **arguments,
              int *count);

/* The value of --name VALUE or --name=VALUE in argv, without parsing the rest; NULL where there
 * is none, or one that cli_parse refuses for a path. */
const char *cli_find_value(int argc, char **argv, const char *name);

/* ---- text (print.c) ------------------------------------------------------------------- */

/* printf on stdout and stderr, and "command: message" on stderr. What a terminal would obey in
 * the text of a %s is shown instead, as in "\n", "\u001b" or "\x9b": names and messages come
 * from files. Width and precision of %s count columns. No %c, no %n. */
void cli_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_draw(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_error(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cli_vprint(FILE *out, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

/* The ending of a counted word: "" of one, else "s". */
const char *cli_s(int64_t count);

/* Columns that a text takes when it is shown, of the first `most` (-1 = all). */
size_t cli_text_columns(const char *text, int most);

/* ---- messages (messages.c) ------------------------------------------------------------ */

/* Figures that failed, each reason once: a gnuplot that is missing is missing for all. */
void cli_print_failures(const char *command, char *const *failures, size_t count);

/* For the exit code of a run. */
int cli_exit_code(qk_status status);

/* Flushes stdout; exit code FAILURE (and a message) when its text could not be written. */
int cli_finish(const char *command, int exit_code);

/* A qk_notice_fn and qk_progress_fn whose user is a cli_messages. Progress is drawn on a
 * terminal only. An interrupt (SIGINT, SIGTERM) stops the run cleanly at the next head; a
 * second one, of either kind, ends the program at once. */
typedef struct cli_messages {
    const char *command;
    const cli_common *common;
    const char *what; /* counted things, e.g. "heads" */
    const char *of;   /* the name of what they belong to, or NULL */
    bool drawn;       /* a progress line is on the screen */
    double start, last;
} cli_messages;

void cli_messages_init(cli_messages *messages, const char *command, const cli_common *common,
                       const char *what);
void cli_notice(void *user, qk_notice_level level, const char *message);
bool cli_progress(void *user, size_t done, size_t total, int64_t bytes);

/* Removes the progress line. */
void cli_clear(cli_messages *messages);

/* A text as JSON; file names need not be UTF-8, JSON must: "(not UTF-8)" then. */
json_t *cli_json_text(const char *text);

/* Prints root on standard output and releases it. Letters beyond ASCII are written as \u, since
 * among them are some that a terminal obeys; the values are exact. */
void cli_json_print(json_t *root);

/* The command and its arguments joined by spaces, words with special characters quoted; NULL
 * when out of memory. */
char *cli_command_line(const char *command, int argc, char **argv);

#endif
