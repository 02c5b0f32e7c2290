/* SPDX-License-Identifier: Apache-2.0 */
/* NAME.md beside a figure, as Markdown: what it shows, from which numbers, the command that draws it, and what these
 * data say in it; and README.md, which lists the figures of a folder (figure_note.c).
 *
 * A foreign file of such a name is neither replaced nor removed: ours begin with QK__NOTE_MARK. */
#ifndef QK_FIGURE_FIGURE_NOTE_H
#define QK_FIGURE_FIGURE_NOTE_H

#include <stdbool.h>

#include <qkscope/settings.h>

#include "base/buffer.h"
#include "base/file.h"

#define QK__NOTE_MARK "<!-- Written by qkscope beside its figures. -->\n"
#define QK__LIST_NAME "README.md"

typedef struct qk__figure_note {
    const char *name, *title;
    const char *caption, *tables, *rows, *numbers; /* as in the catalog: plain text of ours */
    size_t together;                               /* checkpoints in one picture; 0: none */
    const char *model;                             /* from outside; NULL: no single model */
    const char *command;                           /* quoted for a shell */
    const char *const *say; /* [num_say] sentences, which may have names from outside */
    size_t num_say;
} qk__figure_note;

/* Appends the note. */
QK_MUST_CHECK qk_status qk__note_write(const qk__figure_note *note, qk__buffer *out,
                                       qk_error *err);

/* Length of the name of a figure's file, without the ending; 0: it is no such file. */
size_t qk__figure_stem(const char *file);

/* Whether a foreign file is there. Fails where that cannot be found out. */
QK_MUST_CHECK qk_status qk__note_look(const char *path, bool *foreign, qk_error *err);

/* Writes README.md into a folder, a line for each note; without notes README.md is removed. */
QK_MUST_CHECK qk_status qk__note_list(const char *folder, qk_error *err);

/* The files of all figures in a folder that have a note of ours, and the list, sorted. Release with qk__names_free. */
QK_MUST_CHECK qk_status qk__note_files(const char *folder, qk__names *files, qk_error *err);

/* ---- commands --------------------------------------------------------------------------- */

/* Appends a word as a shell takes it: plain, or in quotes. */
QK_MUST_CHECK qk_status qk__put_word(qk__buffer *out, const char *word, qk_error *err);

/* The same for a path, as called from a folder: the command has no absolute path, and works where both have moved.
 * What is not there, such as a name on the Hub, stays as it is; FOLDER:MODEL has the path of its folder. */
QK_MUST_CHECK qk_status qk__put_path(qk__buffer *out, const char *folder, const char *path,
                                     qk_error *err);

/* That path, without quotes. NULL: no memory; free it. */
char *qk__seen_from(const char *folder, const char *path);

/* A command and its settings. */
typedef struct qk__command {
    const char *name;   /* "report", whose settings these are */
    const char *folder; /* from which paths are called */
    const qk_settings_table *table;
    const void *values;
    const char *const *but; /* settings that are left out; NULL ends the list */
} qk__command;

/* Appends " --NAME VALUE" for every setting that differs from its default. */
QK_MUST_CHECK qk_status qk__put_options(qk__buffer *out, const qk__command *command,
                                        qk_error *err);

#endif
