/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the Parquet writer: compression, encodings, sizes. */
#include "parquet/writer_settings.h"

#include <qkscope/parquet.h>

#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_parquet_writer_settings, member)

static const qk_word CODECS[] = {{"zstd", QK_PARQUET_ZSTD},
                                 {"none", QK_PARQUET_UNCOMPRESSED},
                                 {"snappy", QK_PARQUET_SNAPPY},
                                 {"gzip", QK_PARQUET_GZIP},
                                 {"brotli", QK_PARQUET_BROTLI},
                                 {"lz4", QK_PARQUET_LZ4_RAW},
                                 {0}};
static const qk_word ENCODINGS[] = {{"auto", QK_VECTOR_AUTO},
                                    {"plain", QK_VECTOR_PLAIN},
                                    {"dictionary", QK_VECTOR_DICTIONARY},
                                    {"split", QK_VECTOR_BYTE_STREAM_SPLIT},
                                    {0}};

static const qk_setting ROWS[] = {
    {"codec", QK_SETTING_CHOICE, AT(codec), .number = QK_PARQUET_ZSTD, .words = CODECS,
     .help = "compression of the files", .section = "Files"},
    {"level", QK_SETTING_INTEGER, AT(level), .min = 0, .max = 22, .value = "N",
     .help = "level of the codec", .unset = "its own", .section = "Files"},
    {"encoding", QK_SETTING_CHOICE, AT(vector_encoding), .number = QK_VECTOR_AUTO,
     .words = ENCODINGS, .help = "of vectors; auto: the smaller of dictionary and split",
     .section = "Files"},
    {"row-group-rows", QK_SETTING_INTEGER, AT(row_group_rows), .number = 65536, .min = 1,
     .max = 1 << 30, .value = "N", .unit = "rows", .help = "rows per row group",
     .section = "Files"},
    {"page-bytes", QK_SETTING_INTEGER, AT(page_bytes), .number = 1 << 20, .min = 1,
     .max = 1 << 30, .value = "N", .unit = "bytes", .help = "bytes per page",
     .section = "Files"},
    {"page-version", QK_SETTING_INTEGER, AT(data_page_version), .number = 1, .min = 1, .max = 2,
     .value = "N", .help = "data pages of version 1 or 2", .section = "Files"},
    {"checksum", QK_SETTING_FLAG, AT(checksum), .number = true, .help = "checksums of pages",
     .section = "Files", .commands = ""},
};

const qk_settings_table qk__parquet_writer_settings_table = {
    QK_SETTINGS_ROWS(qk_parquet_writer_settings, ROWS)};

void qk_parquet_writer_settings_default(qk_parquet_writer_settings *settings)
{
    qk__settings_default(&qk__parquet_writer_settings_table, settings);
}
