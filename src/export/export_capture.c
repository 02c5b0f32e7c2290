/* SPDX-License-Identifier: Apache-2.0 */
/* The capture of an export: its settings as those of an analysis. */
#include "export/export.h"

qk_status qk__export_open(qk__grid *grid, const qk_export_settings *settings, qk_stage stage,
                          bool groups, int64_t from, qk_error *err)
{
    qk_analysis_settings s;
    qk_analysis_settings_default(&s);
    s.capture = settings->source;
    s.revision = settings->revision;
    s.prefix = settings->prefix;
    s.q_per_kv_group = settings->q_per_kv_group;
    s.from_position = settings->from_position < 0 ? from : settings->from_position;
    s.context = settings->context;
    return qk__grid_open(grid, &s, stage, groups, err);
}
