/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts of a run need: names of stages, which heads are kept, notices. */
#include "recorder/recording.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/file.h"

const char *qk__stage_name(int stage)
{
    return stage == QK__POST ? "post" : "pre";
}

char *qk__stage_folder(const qk__recording *r, const char *root, int stage)
{
    bool both = r->stages[QK__POST] && r->stages[QK__PRE];
    return both ? qk__path_join(root, qk__stage_name(stage)) : qk__strdup(root);
}

int qk__num_heads(const qk__recording *r, qk_kind kind)
{
    return kind == QK_QUERY ? r->facts->num_q_heads : r->facts->num_k_heads;
}

bool qk__is_kept(const qk__recording *r, qk_head_id id)
{
    const bool *heads = id.kind == QK_QUERY ? r->selection->q_heads : r->selection->k_heads;
    return heads[(size_t)id.layer * (size_t)qk__num_heads(r, id.kind) + (size_t)id.head];
}

void qk__recorder_notice(const qk__recording *r, qk_notice_level level, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    if (!r->settings->notice)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    r->settings->notice(r->settings->user, level, text);
}
