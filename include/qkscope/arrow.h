/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of results for programs that read the Arrow C data interface (pandas, polars, pyarrow, DuckDB, R's
 * arrow), which take them without a file and numbers without a copy:
 *
 *     struct ArrowArrayStream stream;
 *     status = qk_results_table(results, "heads.csv", &columns, &err);
 *     status = qk_columns_arrow(columns, &stream, &err);
 *     qk_columns_free(&columns);                       (the stream holds what it needs)
 *     ... hand &stream on, or stream.release(&stream) ...
 *
 * A real is a float64 ("g"), an integer an int64 ("l"), a text a string ("u"). A field that the file leaves
 * empty is null, but for texts, of which the empty one is a value. What qk_column_info says of a column goes
 * with its field as metadata, under the same names (unit, range, symbol, label, about, read, method,
 * option). */
#ifndef QKSCOPE_ARROW_H
#define QKSCOPE_ARROW_H

#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/results.h>

QK_BEGIN_DECLS

/* As Arrow's specification has them, so that a program that has them already may include this. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

/* The columns as a stream of one batch. The caller has the struct; what is in it before does not matter, and
 * after a failure its release is NULL. The stream and each batch that came out of it keep the memory of the
 * columns until all of them are released, in any order and on any thread; qk_columns_free may come first. */
QK_API QK_MUST_CHECK qk_status qk_columns_arrow(const qk_columns *columns,
                                                struct ArrowArrayStream *stream, qk_error *err);

/* The schema alone: of a struct with a child for each column. Release it with schema->release. */
QK_API QK_MUST_CHECK qk_status qk_columns_arrow_schema(const qk_columns *columns,
                                                       struct ArrowSchema *schema,
                                                       qk_error *err);

QK_END_DECLS

#endif
