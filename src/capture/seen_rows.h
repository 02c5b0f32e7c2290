/* SPDX-License-Identifier: Apache-2.0 */
/* Notices a row that comes twice, in 8 bytes a row. While the positions of each text ascend (rows of other texts may
 * lie between), the last position of each text is enough. Otherwise a set holds 32 bits of a hash of each row, in
 * twice as many places. */
#ifndef QK_CAPTURE_SEEN_ROWS_H
#define QK_CAPTURE_SEEN_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include <qkscope/capture.h>

typedef struct qk__seen_text {
    int64_t example, last; /* position */
    bool known;
} qk__seen_text;

/* Zeros at first. */
typedef struct qk__seen_rows {
    void *memory;
    size_t bytes;
    uint64_t places;     /* of the set */
    size_t texts, known; /* room for texts, and their number */
    qk__seen_text *text; /* of the last row that followed */
} qk__seen_rows;

/* Forgets all; makes room for so many rows. */
QK_MUST_CHECK qk_status qk__seen_rows_start(qk__seen_rows *seen, int64_t rows, qk_error *err);

/* Whether the row comes behind the earlier rows of its text, and there was room for the text. After the first row for
 * which this is false the caller starts again, and adds all rows, also the earlier ones, to the set. */
bool qk__seen_rows_follow(qk__seen_rows *seen, int64_t example, int64_t position);

/* Adds a row to the set; true where it seems to be there already. That happens by chance to one row in a thousand
 * million, so the caller looks for the row. */
bool qk__seen_rows_add(qk__seen_rows *seen, int64_t example, int64_t position);

#endif
