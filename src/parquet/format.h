/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the Parquet format: enumerations and Thrift field ids of parquet.thrift,
 * shared by reader and writer. */
#ifndef QK_PARQUET_FORMAT_H
#define QK_PARQUET_FORMAT_H

#define QK_PARQUET_MAGIC           "PAR1"
#define QK_PARQUET_MAGIC_ENCRYPTED "PARE"

enum qk__parquet_encoding {
    ENC_PLAIN = 0,
    ENC_PLAIN_DICTIONARY = 2,
    ENC_RLE = 3,
    ENC_BIT_PACKED = 4, /* deprecated, levels only */
    ENC_DELTA_BINARY_PACKED = 5,
    ENC_DELTA_LENGTH_BYTE_ARRAY = 6,
    ENC_DELTA_BYTE_ARRAY = 7,
    ENC_RLE_DICTIONARY = 8,
    ENC_BYTE_STREAM_SPLIT = 9,
};

enum qk__parquet_codec {
    CODEC_UNCOMPRESSED = 0,
    CODEC_SNAPPY = 1,
    CODEC_GZIP = 2,
    CODEC_LZO = 3,
    CODEC_BROTLI = 4,
    CODEC_LZ4_HADOOP = 5,
    CODEC_ZSTD = 6,
    CODEC_LZ4_RAW = 7,
};

enum qk__parquet_page_type {
    PAGE_DATA = 0,
    PAGE_DICTIONARY = 2,
    PAGE_DATA_V2 = 3,
};

enum qk__parquet_repetition {
    REPETITION_REQUIRED = 0,
    REPETITION_OPTIONAL = 1,
    REPETITION_REPEATED = 2,
};

enum qk__parquet_converted {
    CONVERTED_UTF8 = 0,
    CONVERTED_LIST = 3,
    CONVERTED_UINT_FIRST = 11, /* UINT_8 .. UINT_64 */
    CONVERTED_UINT_LAST = 14,
};

/* Field ids of the LogicalType union. */
enum qk__parquet_logical_id {
    LOGICAL_STRING = 1,
    LOGICAL_LIST = 3,
    LOGICAL_INTEGER = 10,
    LOGICAL_UNKNOWN = 11,
    LOGICAL_FLOAT16 = 15,
};

#endif
