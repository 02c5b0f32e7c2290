/* SPDX-License-Identifier: Apache-2.0 */
/* Formats of rows, for every command that prints rows. */
#ifndef QK_CLI_ROW_FORMATS_H
#define QK_CLI_ROW_FORMATS_H

#include <qkscope/results.h>

#include "tell.h"

enum {
    CLI_AS_TABLE,
    CLI_AS_CSV,
    CLI_AS_JSON,
    CLI_AS_MARKDOWN,
    CLI_AS_LATEX,
    CLI_AS_LONGTABLE,
    CLI_AS_LIST,
    CLI_TO_FIT /* a table of the columns for which a terminal has room; the other columns are named */
};
extern const qk_word cli_row_formats[]; /* all but the last two, which are for heads */

/* Prints rows and returns the exit code. comments: lines at the beginning of LaTeX: the command, the number of rows,
 * and another line or NULL. */
int cli_print_rows(const qk_columns *columns, int format, const char *const comments[3]);
/* A list of objects; NULL: no memory. */
json_t *cli_rows_json(const qk_columns *columns);

#endif
