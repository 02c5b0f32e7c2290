/* SPDX-License-Identifier: Apache-2.0 */
/* The Parquet files of a capture that is written: names and columns. */
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "capture/capture_writer.h"

enum { MAX_FIELDS = 7 };

qk_status qk__capture_open_file(qk_parquet_writer **file, const qk_capture_writer *writer,
                                const char *folder, const qk__head_shape *shape,
                                const qk_parquet_writer_settings *settings, qk_error *err)
{
    qk_parquet_field fields[MAX_FIELDS];
    size_t count = 0;
    if (writer->layout == QK_LAYOUT_PACKED)
        fields[count++] = (qk_parquet_field){"head", QK_FIELD_INT32, 0};
    fields[count++] = (qk_parquet_field){"bucket", QK_FIELD_INT32, 0};
    fields[count++] = (qk_parquet_field){"example_id", QK_FIELD_INT64, 0};
    fields[count++] = (qk_parquet_field){"position", QK_FIELD_INT32, 0};
    fields[count++] = (qk_parquet_field){"vector", QK_FIELD_VECTOR, shape->dim};
    fields[count++] = (qk_parquet_field){"sliding_window", QK_FIELD_INT32, 0};
    if (shape->strings)
        fields[count++] = (qk_parquet_field){"token_str", QK_FIELD_STRING, 0};
    char *path = qk__path_join(folder, "data.parquet");
    if (!path)
        return qk__nomem(err);
    qk_status status = qk_parquet_writer_open(file, path, fields, count, settings, err);
    free(path);
    return status;
}
