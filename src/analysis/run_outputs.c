/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has written. */
#include "analysis/run.h"

qk_status qk__run_add_output(qk__run *run, const char *name, qk__outfile *file,
                             qk_status status)
{
    if (status == QK_OK)
        run->results->outputs[run->results->num_outputs++] = name;
    return qk__file_set_add(&run->outputs, name, file, status);
}
