/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of a run use: failures of an engine. */
#include "recorder/recording.h"

#include "base/error.h"

qk_status qk__engine_failed(const qk__recording *r, const char *what, qk_error *err)
{
    return qk__fail(err, QK_ERR_CANCELLED, "%s: %s failed", r->settings->engine->tool, what);
}
