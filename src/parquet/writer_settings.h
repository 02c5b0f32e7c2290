/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings of the Parquet writer. */
#ifndef QK_PARQUET_WRITER_SETTINGS_H
#define QK_PARQUET_WRITER_SETTINGS_H

#include <qkscope/settings.h>

extern const qk_settings_table qk__parquet_writer_settings_table;

#endif
