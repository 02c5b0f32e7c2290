/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a run: its tables, by the schema, and schema.json, which says what is in them. */
#ifndef QK_ANALYSIS_TABLE_H
#define QK_ANALYSIS_TABLE_H

#include "analysis/run.h"
#include "schema/schema.h"

#define QK__SCHEMA_NAME "schema.json"

/* Formats every table of the run, its heads in parallel, and adds the finished files to the
 * run's outputs. */
QK_MUST_CHECK qk_status qk__write_tables(qk__run *run, qk_error *err);

/* schema.json of the tables that the folder will hold: those of the run, and those that stay. */
QK_MUST_CHECK qk_status qk__write_schema(qk__run *run, qk_error *err);

#endif
