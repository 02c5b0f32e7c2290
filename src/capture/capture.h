/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the capture room share: an open capture and its manifest, names of folders (head.c). find_heads.c
 * opens it and calls capture_json.c, which reads the manifest; rows.c reads its rows; whole.c checks that it is
 * complete. */
#ifndef QK_CAPTURE_CAPTURE_H
#define QK_CAPTURE_CAPTURE_H

#include <qkscope/capture.h>

#include "base/file.h"
#include "base/fingerprint.h"
#include "capture/token_strings.h"

/* Name of the manifest beside the head folders, and what its "format" says. */
#define QK_MANIFEST_NAME    "capture.json"
#define QK_MANIFEST_FORMAT  "qkscope-capture"
#define QK_MANIFEST_VERSION 1

/* ".partial" in an output folder is a capture that is being made. */
#define QK__PARTIAL "partial"

/* A name with a larger layer or head number is not taken for a head. */
enum { QK_MAX_HEAD_NUMBER = 65535 };

/* The folder of a packed file, "l00q": its name, and back (with head 0). */
void qk__layer_name(int layer, qk_kind kind, char name[QK_HEAD_NAME_SIZE]);
bool qk__layer_parse(const char *name, qk_head_id *id);

/* head points into the other members. */
typedef struct qk__capture_entry {
    qk_head head;
    qk__names files;
    char *moments; /* what head.moments points to */
    qk_head_part *parts;
    qk_error *failure;
} qk__capture_entry;

/* Frequencies in capture.json for one layer, or for all. */
typedef struct qk__rope_entry {
    int layer; /* -1: every layer */
    size_t count;
    double *values;
} qk__rope_entry;

typedef struct qk__rope_list {
    qk__rope_entry *entries;
    size_t count;
} qk__rope_list;

/* Radians per token: finite and from 0, which is a pair that does not turn. */
bool qk__is_rope_frequency(double value);

/* "heads" of capture.json. */
typedef struct qk__listed_head {
    qk_head_id id;
    int64_t rows, summed;
} qk__listed_head;

struct qk_capture {
    char *path;
    char *prefix;
    qk__capture_entry *entries; /* sorted by qk__head_compare */
    size_t num_entries;
    char *model, *fingerprint; /* texts that members of info point to */
    qk_capture_info info;
    qk__rope_list rope;    /* "rope_frequencies", by which rows were turned */
    qk__rope_list to_come; /* "frequencies" of "rope", by which the model will turn them */
    qk__listed_head *listed;
    size_t num_listed;
};

/* Fills capture->info from capture.json in the folder of the heads, else in root; a
 * capture without one is fine. */
QK_MUST_CHECK qk_status qk__capture_read_manifest(qk_capture *capture, const char *root,
                                                  qk_error *err);
void qk__capture_free_manifest(qk_capture *capture);

/* The folders of sums, a file a layer, beside the head folders: moments of rows, and sums of attention. */
#define QK__MOMENTS_FOLDER   "moments"
#define QK__ATTENTION_FOLDER "attention"
bool qk__is_sums_folder(const char *name);

/* "moments/l00.safetensors" */
enum { QK__SUMS_NAME_SIZE = 64 };
void qk__sums_name(const char *folder, int layer, char name[QK__SUMS_NAME_SIZE]);

/* Whether a folder has moments of layers (kept_moments.c). */
QK_MUST_CHECK qk_status qk__has_moments(const char *folder, bool *has, qk_error *err);

/* Sets where the moments of the heads are, after capture.json was read and the heads that it lists were found. */
QK_MUST_CHECK qk_status qk__capture_set_moments(qk_capture *capture, qk_error *err);

/* Opens file i of a head with an earlier reader (*rows may be NULL), which keeps the file until its next call, and
 * packed files longer: their footers are read once for many heads. */
QK_MUST_CHECK qk_status qk__rows_file(qk_rows **rows, const qk_head *head, size_t i,
                                      const qk_parquet **file, qk_error *err);

/* Size and fingerprint of file i of the head; the fingerprint is "" unless this was among the columns of qk_rows_open.
 * Of a packed file they are those of the head's row groups; the fingerprint covers the footer, too, after them. */
enum { QK__FINGERPRINT = 1 << 8 };
const qk__file_print *qk__rows_file_print(const qk_rows *rows, size_t i);

/* Token strings of rows, where files have a column token_str of strings. With this among the columns of qk_rows_open,
 * each row of the last block has the number of its string, -1 for none. The strings are those of the head so far;
 * whoever takes them before the reader is closed or turns to another head frees them. */
enum { QK__TOKEN_STRINGS = 1 << 9 };
const int64_t *qk__rows_tokens(const qk_rows *rows);
const char *qk__rows_token_text(const qk_rows *rows, int64_t number);
qk__token_strings qk__rows_take_strings(qk_rows *rows);

/* The number of missing heads, whose first few names go into text; lists (NULL or empty = all) limit it to these
 * layers and query heads. */
size_t qk__capture_missing(const qk_capture *capture, const qk_index_list *layers,
                           const qk_head_set *heads, char *text, size_t size);

/* Whether the capture in a folder is finished, and all heads that it lists have files that are not empty. Nothing in
 * them is read. */
QK_MUST_CHECK qk_status qk__capture_check_whole(const char *folder, qk_error *err);

/* Order by layer, head, kind (q before k): the order of every table. */
int qk__head_compare(qk_head_id a, qk_head_id b);

/* The same for another head with the memory of an earlier qk_rows (*rows may be NULL): a
 * thread that reads many heads keeps one. On failure it is released and *rows is NULL. */
QK_MUST_CHECK qk_status qk__rows_reopen(qk_rows **rows, const qk_head *head, unsigned columns,
                                        int64_t max_rows, qk_error *err);

/* Leaves out rows at positions below this one, as if the files did not have them: max_rows of qk_rows_open counts the
 * others. To be called before the first block, and with QK_COLUMN_POSITION among the columns, else QK_ERR_ARGUMENT; 0
 * = all rows. */
QK_MUST_CHECK qk_status qk__rows_skip_below(qk_rows *rows, int64_t position, qk_error *err);

#endif
