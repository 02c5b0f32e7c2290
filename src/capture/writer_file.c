/* SPDX-License-Identifier: Apache-2.0 */
/* The Parquet files of a new capture: names and columns. */
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "capture/capture_writer.h"

enum { MAX_FIELDS = 7 };

qk_status qk__capture_open_file(qk__parquet_writer **file, const qk_capture_writer *writer,
                                const char *folder, const qk__head_shape *shape, qk_error *err)
{
    qk__field fields[MAX_FIELDS];
    size_t count = 0;
    if (writer->layout == QK_LAYOUT_PACKED)
        fields[count++] = (qk__field){"head", QK__FIELD_INT32, 0};
    fields[count++] = (qk__field){"bucket", QK__FIELD_INT32, 0};
    fields[count++] = (qk__field){"example_id", QK__FIELD_INT64, 0};
    fields[count++] = (qk__field){"position", QK__FIELD_INT32, 0};
    fields[count++] = (qk__field){"vector", QK__FIELD_VECTOR, shape->dim};
    fields[count++] = (qk__field){"sliding_window", QK__FIELD_INT32, 0};
    if (shape->strings)
        fields[count++] = (qk__field){"token_str", QK__FIELD_STRING, 0};
    char *path = qk__path_join(folder, "data.parquet");
    if (!path)
        return qk__nomem(err);
    qk_status status =
        qk__parquet_writer_open(file, path, fields, count, shape->group_rows, err);
    free(path);
    return status;
}
