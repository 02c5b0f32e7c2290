/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a command as a table: names, types, ranges, defaults and a line of help each.
 * Readers of settings by name (the command line, files, other languages) use it, so that a
 * setting is told once.
 *
 *     qk_settings *settings;
 *     qk_settings_new(&settings, &qk_analysis_settings_table, "pca", &err);
 *     qk_settings_set(settings, "components", "20", &err);
 *     qk_analysis_settings *values = qk_settings_values(settings);
 *     values->capture = "examples/kjv-tiny-capture";
 *     ...
 *     qk_settings_free(&settings);
 *
 * The struct is made by the library and has the library's size: a program that sets by name
 * runs with a later library whose structs have grown. */
#ifndef QKSCOPE_SETTINGS_H
#define QKSCOPE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

QK_BEGIN_DECLS

/* A set of non-negative numbers; count 0 means "all". items is sorted. */
typedef struct qk_index_list {
    int *items;
    size_t count;
} qk_index_list;

/* Parses "0,2,5-9" (what a command line takes) into a sorted list without repeats;
 * QK_ERR_ARGUMENT for anything else. Release with qk_index_list_free. */
QK_API QK_MUST_CHECK qk_status qk_index_list_parse(const char *text, qk_index_list *list,
                                                   qk_error *err);
QK_API bool qk_index_list_has(const qk_index_list *list, int value);
QK_API void qk_index_list_free(qk_index_list *list);

/* Heads first_head .. last_head of layers first_layer .. last_layer; 0 .. 65535 are all. */
typedef struct qk_head_range {
    int first_layer, last_layer, first_head, last_head;
} qk_head_range;

/* Heads in the order in which they were named; count 0 means "all". */
typedef struct qk_head_set {
    qk_head_range *items;
    size_t count;
} qk_head_set;

/* Parses heads as on a command line: "2:1,14-23:*", "5" (head 5 of every layer), or "@FILE", a file with one or
 * several of these on each line (docs/commands.md#naming-heads). QK_ERR_ARGUMENT names the wrong item. Release with
 * qk_head_set_free. */
QK_API QK_MUST_CHECK qk_status qk_head_set_parse(const char *text, qk_head_set *set,
                                                 qk_error *err);
QK_API bool qk_head_set_has(const qk_head_set *set, int layer, int head);
QK_API void qk_head_set_free(qk_head_set *set);

/* ---- a table ---------------------------------------------------------------------------- */

typedef enum qk_setting_type {
    QK_SETTING_FLAG,    /* bool */
    QK_SETTING_INTEGER, /* 4 or 8 bytes; one of `words` stands for its number, too */
    QK_SETTING_REAL,    /* double; NaN = not given */
    QK_SETTING_PERCENT, /* double; 0 = not given */
    QK_SETTING_TEXT,    /* const char *; NULL = not given */
    QK_SETTING_PATH,    /* the same, of a file or folder */
    QK_SETTING_PATHS,   /* const char *const *, then size_t: another one each time it is set */
    QK_SETTING_LIST,    /* qk_index_list */
    QK_SETTING_CHOICE,  /* an enum: one of `words` */
    QK_SETTING_SET,     /* unsigned, or an enum: a sum of `words` */
    QK_SETTING_NESTED,  /* a struct, or a part of this one, with its own table */
    QK_SETTING_HEADS,   /* qk_head_set */
} qk_setting_type;

typedef struct qk_word {
    const char *text; /* NULL ends a list */
    int value;
} qk_word;

typedef enum qk_setting_trait {
    QK_SETTING_PER_CAPTURE = 1 << 0,   /* of one capture: each model of a study has its own */
    QK_SETTING_OF_STUDIES = 1 << 1,    /* its key is for study files only */
    QK_SETTING_ZERO_IS_NULL = 1 << 2,  /* 0 is "not given", and null in manifests */
    QK_SETTING_ZERO_IN_FILES = 1 << 3, /* files may say 0, which is "not given" */
    QK_SETTING_ANY_CASE = 1 << 4,      /* words in upper or lower case */
    QK_SETTING_OPTIONAL = 1 << 5,      /* the option's value may be left out, and is then "" */
    QK_SETTING_UTF8 = 1 << 6,          /* a text that files hold as it is given */
} qk_setting_trait;

/* One setting. NULL and 0 are what a row leaves out. */
typedef struct qk_setting {
    const char *name; /* of the option, without dashes */
    qk_setting_type type;
    size_t offset, size; /* of the member */
    char letter;         /* short option */
    double number;       /* default */
    const char *text;    /* default of texts and paths */
    double min, max;     /* of numbers; both 0 = the type's own */
    const qk_word *words;
    const char *value; /* what help calls the value, "N" or "DIR" */
    const char *unit;  /* "tokens" */
    const char *help;  /* what it is, in a few words */
    const char *unset; /* what happens where it is not given; NULL = the default says it */
    const char *off;   /* of flags: the option that clears it, and its meaning */
    const char *off_help;
    const char *section; /* heading in help */
    /* The words of what takes it: commands, and formats of a command with several; NULL = all, "" = none: it is
     * set by name only. */
    const char *commands;
    const char *yaml; /* its key in files, "pca.n_components" */
    /* Its place in manifests. It decides results: where it differs, a study computes a model again, and a
     * capture is not resumed. */
    const char *manifest;
    unsigned traits;                       /* sum of qk_setting_trait */
    const struct qk_settings_table *table; /* NESTED: its table */
    /* of reals: a row of this table whose value this one may not exceed */
    const char *not_above;
} qk_setting;

/* A row hides rows of its name in the tables nested beside it. */
typedef struct qk_settings_table {
    size_t size; /* of the struct */
    size_t count;
    const qk_setting *rows;
} qk_settings_table;

/* For rows: where a member lies. */
#define QK_SETTING_AT(owner, member)                                                           \
    .offset = offsetof(owner, member), .size = sizeof(((owner *)NULL)->member)

/* A row for a member that is a struct with the table `of`. */
#define QK_SETTING_PART(owner, member, of)                                                     \
    {                                                                                          \
        .type = QK_SETTING_NESTED, QK_SETTING_AT(owner, member), .table = &(of)                \
    }

/* For tables: size, count, rows. */
#define QK_SETTINGS_ROWS(owner, list) sizeof(owner), sizeof(list) / sizeof *(list), list

/* Sets every member of a struct with this table to its row's default; a member without a row becomes 0. */
QK_API void qk_settings_default(const qk_settings_table *table, void *values);

/* ---- a struct with its table ------------------------------------------------------------ */

/* Owns the struct, and every text and list that was set by name. */
typedef struct qk_settings qk_settings;

/* Makes the struct with its defaults. command: the settings that this command, or format, takes; NULL = all of the
 * table. The table must outlive the settings. */
QK_API QK_MUST_CHECK qk_status qk_settings_new(qk_settings **settings,
                                               const qk_settings_table *table,
                                               const char *command, qk_error *err);
QK_API void qk_settings_free(qk_settings **settings);

/* The struct; the caller may change it. */
QK_API void *qk_settings_values(const qk_settings *settings);

/* The settings, in the order of the table. */
QK_API size_t qk_settings_count(const qk_settings *settings);
QK_API const qk_setting *qk_settings_row(const qk_settings *settings, size_t i);

/* Sets one from text as on a command line ("0,2,5-9", "1e6", "pairs"; flags: "true" or "false"). QK_ERR_ARGUMENT says
 * what would have been right; QK_ERR_NOT_FOUND: there is no such setting. */
QK_API QK_MUST_CHECK qk_status qk_settings_set(qk_settings *settings, const char *name,
                                               const char *text, qk_error *err);

/* Whether all values are allowed, and none contradicts another: QK_ERR_ARGUMENT names the setting. A
 * run checks its settings itself. */
QK_API QK_MUST_CHECK qk_status qk_settings_check(const qk_settings *settings, qk_error *err);

/* Whether it was set, by name or by a file. */
QK_API bool qk_settings_given(const qk_settings *settings, const char *name);

/* Its value as qk_settings_set would take it, "" where it is not given, cut off at `size` with the zero byte. Returns
 * the length of the whole; for an unknown name, 0. */
QK_API size_t qk_settings_get(const qk_settings *settings, const char *name, char *text,
                              size_t size);

QK_END_DECLS

#endif
