/* SPDX-License-Identifier: Apache-2.0 */
/* What every other header uses: status codes and errors, notices, progress and the context of a call,
 * rows, shards, the version. */
#ifndef QKSCOPE_COMMON_H
#define QKSCOPE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ==== status ============================================================================== */

/* Status codes and error messages, shared by every qkscope header.
 *
 * Functions that can fail return a qk_status and take a `qk_error *` last. On
 * failure they fill it with one line that names what was being read (file, head,
 * column, offset), what is wrong and, where there is one, the remedy. The pointer
 * may be NULL when only the code is of interest. On success it is not touched.
 * A function that fails leaves its output handle NULL: nothing to release.
 *
 * A pointer is not NULL, and an array as long as its declaration says, unless the declaration
 * allows otherwise (an array of no rows may be NULL). A NULL where there may be none is
 * QK_ERR_ARGUMENT, with the name of the argument, from a function that returns a qk_status.
 * From the others it is a mistake of the program, like an index beyond the last: they assert,
 * unless the library was built with NDEBUG, as a release is. Functions that free or close take
 * the address of a handle; the handle may be NULL. */

#ifdef __cplusplus
#define QK_BEGIN_DECLS extern "C" {
#define QK_END_DECLS   }
#else
#define QK_BEGIN_DECLS
#define QK_END_DECLS
#endif

#if defined(__GNUC__)
#define QK_API        __attribute__((visibility("default")))
#define QK_MUST_CHECK __attribute__((warn_unused_result))
#else
#define QK_API
#define QK_MUST_CHECK
#endif

QK_BEGIN_DECLS

/* One row per code: its name and text. Malformed (the bytes break the rules of their format), inconsistent
 * (well-formed, but contradicts itself or its neighbours) and degenerate (sound, but too little to compute from) are
 * different failures with different remedies, hence different codes. */
#define QK_STATUS_LIST(X)                                                                      \
    X(QK_OK, "success")                                                                        \
    X(QK_ERR_NOMEM, "out of memory")                                                           \
    X(QK_ERR_ARGUMENT, "invalid argument")                                                     \
    X(QK_ERR_IO, "input or output error")                                                      \
    X(QK_ERR_NOT_FOUND, "not found")                                                           \
    X(QK_ERR_EXISTS, "already exists")                                                         \
    X(QK_ERR_MALFORMED, "malformed input")                                                     \
    X(QK_ERR_UNSUPPORTED, "unsupported feature")                                               \
    X(QK_ERR_INCONSISTENT, "inconsistent input")                                               \
    X(QK_ERR_DEGENERATE, "degenerate input")                                                   \
    X(QK_ERR_PARTIAL, "some heads failed")                                                     \
    X(QK_ERR_CANCELLED, "cancelled")

typedef enum qk_status {
#define QK_STATUS_ENUM(name, text) name,
    QK_STATUS_LIST(QK_STATUS_ENUM)
#undef QK_STATUS_ENUM
} qk_status;

typedef struct qk_error {
    qk_status status;
    char message[1024]; /* UTF-8, one line, no trailing newline */
} qk_error;

/* A short static text for a code, e.g. "malformed input". Never NULL. */
QK_API const char *qk_status_text(qk_status status);

/* ==== notices and progress ================================================================ */

/* Something the user should know. */
typedef enum qk_notice_level {
    QK_NOTICE_INFO,
    QK_NOTICE_WARNING,
    QK_NOTICE_ERROR, /* a head failed; the others go on */
    QK_NOTICE_REMARK, /* nothing is wrong, but users want to know without --verbose: what is fetched, and why
                       * they wait */
} qk_notice_level;
typedef void qk_notice_fn(void *user, qk_notice_level level, const char *message);

/* How far a call is. */
typedef struct qk_progress {
    /* what is counted: "heads", "tokens", "layers", "figures", ...; "": nothing, and the call asks whether to
     * go on while it waits for another program */
    const char *what;
    int64_t done, total; /* total 0: not known */
    int64_t bytes;       /* of data; 0: none, or not counted */
    int64_t texts;       /* done by a recorder, else 0 */
    int64_t before;      /* the part of `done` from earlier runs */
} qk_progress;

/* Return false to stop the call, which then fails with QK_ERR_CANCELLED. Work that takes long asks again with the same
 * numbers. */
typedef bool qk_progress_fn(void *user, const qk_progress *progress);

/* ==== context ============================================================================= */

/* What a call may use, and whom it tells: the member `context` of the settings of all long calls. A call passes it on
 * to the calls that it makes. All members may be 0 and NULL. A call ignores members that it has no use for: `offline`
 * is for calls with names on the Hugging Face Hub. */
typedef struct qk_context {
    int threads; /* 0 = all processors; results do not depend on it */

    bool offline; /* fetch nothing; so do HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE */

    /* Called from any thread, one call at a time. */
    qk_notice_fn *notice;     /* NULL = nobody is told */
    qk_progress_fn *progress; /* NULL = nobody is told, and the call goes on to its end */
    void *user;               /* passed to both */
} qk_context;

/* ==== rows ================================================================================ */

/* Some rows of one head, side by side: what captures give and statistics take. It owns nothing. Vectors are row-major,
 * rows x dim; exactly one of f32 and f64 is set where there are rows. The other arrays have one entry a row, and are
 * NULL where a caller did not ask for them, or a function does not need them. */
typedef struct qk_block {
    size_t rows, dim;
    /* index of row 0 within the head, over all its files; rows that are left out do not count */
    int64_t first_row;
    const float *f32;
    const double *f64; /* from captures with float64 */
    const int64_t *position;
    const int64_t *bucket;
    const int64_t *example; /* id of the text; QK_NO_EXAMPLE for null */
    const int64_t *window;  /* sliding window in tokens; <= 0 = full attention */
    const uint32_t *group;  /* with it, plasticity treats rows of group left_out as absent */
    uint32_t left_out;
} qk_block;

#define QK_NO_EXAMPLE INT64_MIN

/* ==== many processes ====================================================================== */

/* Any number of equal processes may share work, with a common folder and without talking: each computes its part, and
 * the last one puts the parts together. Results have the same bytes as those of one process. docs/cluster.md */
typedef struct qk_shard {
    int64_t index,
        count; /* this is process `index`, from 0, of `count`; count 0 or 1: the only one */
    /* where this comes from: "--shard" or the name of a variable, a static text; NULL: nowhere */
    const char *source;
} qk_shard;

/* Finds out which process this is. text, the value of --shard: "i/N"; "none" or "0/1": alone; the name of a launcher's
 * variable below, the only one that then counts. NULL: by the environment, in this order: SLURM_PROCID of an srun
 * (with SLURM_STEP_ID), OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK, SLURM_ARRAY_TASK_ID, RANK with WORLD_SIZE.
 * QK_ERR_ARGUMENT: the text is none of these, or two launchers disagree. The library's other functions do not read the
 * environment: a function that computes a part takes a qk_shard in its settings. */
QK_API QK_MUST_CHECK qk_status qk_shard_find(const char *text, qk_shard *shard, qk_error *err);

/* ==== version ============================================================================= */

/* Release and API version. The API version changes only when a declaration in
 * these headers changes in a way that old callers would notice. */

#define QK_VERSION     "0.2.0"
#define QK_RELEASED    "2026-11-22" /* day of the release, as in CITATION.cff */
#define QK_API_VERSION 3            /* also of the shared libraries: libqkscope.so.3 */

/* Version of the library at run time, a static string such as "0.2.0". */
QK_API const char *qk_version(void);

/* The word of this list (NULL at the end) that a wrong word most likely means: it differs by a few letters, or begins
 * with it. NULL: none is near. */
QK_API const char *qk_nearest_word(const char *word, const char *const *words);

QK_END_DECLS

#endif
