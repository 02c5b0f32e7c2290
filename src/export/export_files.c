/* SPDX-License-Identifier: Apache-2.0 */
/* Files of an export, beside their places. */
#include <math.h>

#include "base/error.h"
#include "base/json_build.h"
#include "export/export.h"

qk_status qk__export_float(double value, float *to, qk_error *err)
{
    *to = (float)value;
    return isfinite(*to)
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "%g is no number that float32 has: scale the vectors", value);
}

qk_status qk__export_tensors(qk__export *x, const qk__tensor_out *tensors, size_t count,
                             qk_error *err)
{
    qk__outfile *file;
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    qk_status status =
        metadata ? qk__outfile_open_in(&file, x->settings->output, QK__EXPORT_TENSORS, err)
                 : qk__nomem(err);
    if (status == QK_OK) {
        status = qk__tensors_add(file, tensors, count, metadata, err);
        if (status == QK_OK)
            status = qk__outfile_finish(file, err);
        status = qk__file_set_add(&x->files, QK__EXPORT_TENSORS, file, status);
    }
    json_decref(metadata);
    return status;
}

qk_status qk__export_json(qk__export *x, const char *name, json_t *root, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(qk__json_write(root, x->settings->output, name, &file, err));
    return qk__file_set_add(&x->files, name, file, QK_OK);
}
