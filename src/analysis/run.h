/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a run share: settings, capture, results, progress, fingerprints. analysis.c leads and runs the
 * other parts, named below, in turn. All of them use open_run.c, run_outputs.c and notices.c. */
#ifndef QK_ANALYSIS_RUN_H
#define QK_ANALYSIS_RUN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/capture.h>
#include <qkscope/hub.h>
#include <qkscope/stats.h>

#include "analysis/buckets.h"
#include "analysis/states.h"
#include "analysis/text_ids.h"
#include "base/context.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "capture/capture.h"
#include "work/place.h"
#include "tables/manifest.h"
#include "stats/moments.h"

/* An input file, or a head's part of a packed one, as manifest.json lists it; no hash if it could not be read. path is
 * NULL for files of heads that were not asked for. */
typedef struct qk__input {
    const char *path;
    const qk_head *head; /* whose rows it has; NULL: it has moments of a layer */
    size_t file;         /* its number among the head's */
    qk__file_print print;
} qk__input;

/* Tables whose rows are written when their head is done, and then leave memory (table.c). */
typedef struct qk__table_file qk__table_file;
typedef struct qk__long_tables {
    size_t count;
    qk__table_file *file[2]; /* of cells and of distances */
    qk_status status;        /* of the first head whose rows could not be written */
    qk_error error;
} qk__long_tables;

/* Rows read at a time, unless the settings say otherwise. */
enum { QK__BLOCK_ROWS = 256 };
/* A worker has one head of queries and some keys that wait. */
enum { SPARE_SUMS = 3 };

typedef struct qk__run {
    const qk_analysis_settings *settings;
    /* to the caller's context, with the lock */
    qk__relay relay;
    qk_context context;           /* for notices, from any thread */
    qk_analysis_settings adapted; /* to what the capture keeps; settings may point to it */
    qk_capture *capture;
    qk_analysis_results *results;
    int threads;
    size_t block_rows; /* rows read at a time */
    qk__text_ids text_ids;
    int listed_group;       /* group size by the names on the Hub; 0 = none */
    qk__states states;      /* moments in place of all rows; attention */
    bool attention_of_rows; /* rows are whole texts, and are kept for it */
    bool lists_tokens;      /* keys have the strings of their tokens */
    /* files of the heads that are read, in capture order, set by the workers, and of the layers' moments; NULL:
     * they are not listed */
    qk__input *inputs;
    size_t num_inputs;
    size_t *first_input; /* [capture heads + 1] where each head's files start in inputs */
    qk_rows **readers;   /* [threads] one a worker, kept from head to head */
    const char *jobs;    /* what progress counts: "heads" */
    size_t total_jobs;
    qk__buckets buckets;              /* of plasticity */
    size_t num_lengths;               /* lengths of texts at which categories are wanted, too */
    int64_t lengths[QK_MOST_LENGTHS]; /* ascending */
    struct qk__run *before_rope;      /* the other capture, for compare-stages */
    double seconds_open, seconds_heads, seconds_tables;
    qk__hold folder;     /* the output, held from before the first head is read */
    qk__manifest before; /* the manifest that was there */
    json_t *staying;     /* its runs whose tables stay, without the other tables */
    json_t *warnings;    /* by qk__run_warn; NULL: no memory for one */
    qk__file_set outputs;
    qk__long_tables long_tables;
    atomic_bool cancelled;
    double told_at;        /* when progress was told last */
    pthread_mutex_t lock;  /* guards what follows, and calls of notice and progress */
    qk__spare_sums *spare; /* [threads * SPARE_SUMS] of earlier heads */
    size_t num_spare;
    size_t num_constant; /* heads, of either kind, whose positions are all equal */
    size_t done_jobs;
    int64_t done_bytes;
    int64_t done_rows;
} qk__run;

/* The names of the analyses in study files, manifests and their settings (analysis_settings.c). */
extern const qk_word qk__analyses[];

/* What a run with these settings needs from the Hub, where its capture is there. */
qk_hub_wanted qk__run_hub(const qk_analysis_settings *settings);

/* Opens the capture and finds group size (combined only), model name and threads. */
QK_MUST_CHECK qk_status qk__run_open(qk__run *run, const qk_analysis_settings *settings,
                                     qk_error *err);
void qk__run_close(qk__run *run);

/* Makes run->inputs: an entry for every file of every head, so that workers need no lock. Only where no head is read
 * by two jobs. */
QK_MUST_CHECK qk_status qk__run_list_inputs(qk__run *run, qk_error *err);

/* Opens the rows of a head (qk__rows_reopen) with the worker's reader: those from settings.from_position on, at most
 * max_rows, 0 = all. `columns` has QK_COLUMN_POSITION. */
QK_MUST_CHECK qk_status qk__run_open_rows(qk__run *run, int worker, const qk_head *head,
                                          unsigned columns, int64_t max_rows, qk_error *err);

/* Gives the results one entry per id; the ids are copied. */
QK_MUST_CHECK qk_status qk__run_set_heads(qk__run *run, const qk_head_id *ids, size_t count,
                                          qk_error *err);

static inline bool qk__run_does(const qk__run *run, qk_analyses analysis)
{
    return (run->settings->analyses & (unsigned)analysis) != 0;
}

/* Sets run->buckets before any head is read; the second function gives the settings of plasticity, with what belongs
 * to all heads (choose_buckets.c). */
QK_MUST_CHECK qk_status qk__run_set_buckets(qk__run *run, qk_error *err);
qk_plasticity_settings qk__run_plasticity(const qk__run *run);

/* How many texts the examples come from: windows of a text are one text, where capture.json says how many texts there
 * were. */
size_t qk__run_count_texts(const qk__run *run, size_t examples);

/* Warns of a fault of the results; manifest.json lists it for later readers. The order must not depend on threads. */
void qk__run_warn(qk__run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Counts jobs as done and tells progress; may set run->cancelled. */
void qk__run_progress(qk__run *run, size_t jobs, int64_t bytes, int64_t rows);

/* Whether the caller stops the run. Work that takes seconds asks now and then, by the same progress. */
bool qk__run_stopped(qk__run *run);

/* Notes that an analysis of head i of the results failed, and tells the user. Of a head only the first failure counts. */
void qk__run_fail_head(qk__run *run, size_t i, qk_status status, const char *message);

/* The same in two steps, where many heads may fail for one reason. The first notes a failure, from any thread. The
 * second tells each reason once, with its heads, at the end; but not where one head failed, or all for one reason,
 * since qk__run_conclude says so. */
void qk__run_note_failure(qk__run *run, size_t i, qk_status status, const char *message);
void qk__run_tell_failures(qk__run *run);

/* Adds a finished file to the run's outputs, as qk__file_set_add does. */
QK_MUST_CHECK qk_status qk__run_add_output(qk__run *run, const char *name, qk__outfile *file,
                                           qk_status status);

/* ---- which heads (select.c) ------------------------------------------------------------- */

typedef struct qk__targets {
    qk_head_id *ids; /* by layer, head, and k before q */
    size_t count;
} qk__targets;

/* Heads of the wanted kinds that pass the settings of layers, heads and sampling. With kinds = QK_KINDS_Q these are
 * the query heads of the combined analysis. ids are to be freed. */
/* Warns of layers and heads that are asked for and absent from the capture. */
void qk__tell_absent_heads(qk__run *run);

QK_MUST_CHECK qk_status qk__select_heads(const qk__run *run, qk_kinds kinds,
                                         qk__targets *targets, qk_error *err);

/* The key head that a query head uses, *id; NULL: it is not in the capture. */
const qk_head *qk__find_keys(const qk__run *run, int layer, int q_head, qk_head_id *id);

/* ---- analysing (gqa_groups.c, single.c) ------------------------------------------------- */

QK_MUST_CHECK qk_status qk__run_gqa_groups(qk__run *run, qk_error *err);
QK_MUST_CHECK qk_status qk__run_single(qk__run *run, qk_error *err);

/* ---- once all heads are done (analysis.c) ----------------------------------------------- */

/* The verdict on the run, once every head has its own: counts failures, and returns what qk_analysis_run returns. */
QK_MUST_CHECK qk_status qk__run_conclude(const qk__run *run, qk_error *err);

/* Warns of numbers from few rows or texts. */
void qk__run_warn_of_few(qk__run *run);
/* Tells what was chosen before the first head is read. */
void qk__run_tell_choices(qk__run *run);

/* Writes the files of the run and puts them into their places. */
QK_MUST_CHECK qk_status qk__write_results(qk__run *run, qk_error *err);

/* ---- what is written (totals.c, table.c, table_file.c, summary.c) ----------------------- */

/* Finds the numbers over all heads together. */
void qk__find_totals(qk__run *run);
/* Where the settings drop what is written: opens the tables of cells and distances, once the heads are known; writes
 * those of head i, which loses them; closes what is open without a trace. A failure to write stops the run, and check
 * returns it. */
QK_MUST_CHECK qk_status qk__long_tables_open(qk__run *run, qk_error *err);
void qk__long_tables_put(qk__run *run, size_t i);
QK_MUST_CHECK qk_status qk__long_tables_check(const qk__run *run, qk_error *err);
void qk__long_tables_drop(qk__run *run);

/* Each adds finished files to the run's outputs: every table of the run, its heads formatted in parallel; schema.json
 * of the new tables and of those that stay; summary.json of the PCA of each kind by itself. */
QK_MUST_CHECK qk_status qk__write_tables(qk__run *run, qk_error *err);
QK_MUST_CHECK qk_status qk__write_schema(qk__run *run, qk_error *err);
QK_MUST_CHECK qk_status qk__write_summary(qk__run *run, qk_error *err);

/* ---- the folder of the results (result_folder.c) ---------------------------------------- */

/* Holds the output folder, if results may go there: it is no study's, and what it holds is to be replaced, or is of
 * the same capture as far as names and sizes of files show. */
QK_MUST_CHECK qk_status qk__results_claim(qk__run *run, qk_error *err);

/* Replaces the tables of the same analyses by the outputs, manifest.json last. */
QK_MUST_CHECK qk_status qk__results_commit(qk__run *run, qk_error *err);

/* Replaces all results of a folder by files that `fill` adds to the run's outputs, manifest.json last. A folder that
 * is not empty is QK_ERR_EXISTS unless forced. */
typedef qk_status qk__fill_results_fn(void *context, qk__run *run, qk_error *err);
QK_MUST_CHECK qk_status qk__results_replace(const char *output, bool force,
                                            qk__fill_results_fn *fill, void *context,
                                            qk_error *err);
/* Adds a file of another folder of results to the outputs. */
QK_MUST_CHECK qk_status qk__results_take(qk__run *run, const char *from, const char *name,
                                         qk_error *err);

#endif
