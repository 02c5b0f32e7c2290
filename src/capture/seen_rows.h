/* SPDX-License-Identifier: Apache-2.0 */
/* Which texts and positions were there already, in 8 bytes a row. As long as the positions of each text come in their
 * order, whatever lies between, the last one of each text tells. Else it takes a set: of 32 bits of a hash of each row,
 * two places a row. */
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
    size_t texts, known; /* room for them, and how many there are */
    qk__seen_text *text; /* of the last row that followed */
} qk__seen_rows;

/* Forgets all; room for so many rows. */
QK_MUST_CHECK qk_status qk__seen_rows_start(qk__seen_rows *seen, int64_t rows, qk_error *err);

/* Whether the row is behind those of its text, and there is room for the text. From the first that is not on, rows
 * are added, those before it too, after a new start. */
bool qk__seen_rows_follow(qk__seen_rows *seen, int64_t example, int64_t position);

/* Whether the row seems to be there already; then it is. By chance one in a thousand million seems to be: who is told
 * so looks. */
bool qk__seen_rows_add(qk__seen_rows *seen, int64_t example, int64_t position);

#endif
