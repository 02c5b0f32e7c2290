/* SPDX-License-Identifier: Apache-2.0 */
/* Which position buckets plasticity uses. Heads of one model are compared bucket by bucket, and a head's numbers must
 * not depend on which other heads are analysed: so the columns `position` and `bucket` of all heads are read, a
 * hundredth of a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run.h"
#include "analysis/run_states.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/parse_number.h"
#include "capture/capture.h"

enum { FEW = QK_FEW_BUCKETS, SCAN_ROWS = 4096 };

/* ---- what a head holds ------------------------------------------------------------------ */

/* What is known of one head, or of all heads. */
typedef struct content {
    size_t rows, count; /* count: different buckets; FEW + 1 = too many */
    int64_t id[FEW + 1];
    int64_t least, most; /* positions */
    bool has_column;
    qk_status status; /* of reading it */
} content;

static void add_id(content *c, int64_t id)
{
    size_t low = 0, high = c->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < c->count && c->id[low] == id)
        return;
    for (size_t i = c->count++; i > low; i--)
        c->id[i] = c->id[i - 1];
    c->id[low] = id;
}

static void add_block(content *c, const qk_block *block)
{
    if (c->rows == 0)
        c->least = c->most = block->position[0];
    for (size_t i = 0; i < block->rows; i++) {
        int64_t t = block->position[i];
        c->least = t < c->least ? t : c->least;
        c->most = t > c->most ? t : c->most;
    }
    for (size_t i = 0; block->bucket && i < block->rows && c->count <= FEW; i++)
        if (i == 0 || block->bucket[i] != block->bucket[i - 1])
            add_id(c, block->bucket[i]);
    c->rows += block->rows;
}

/* A file without the column makes it a head without it. */
static qk_status find_column(qk__run *run, int worker, content *c, const qk_head *head,
                             qk_error *err)
{
    if (head->missing || head->failure)
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: cannot be read", head->files[0]);
    c->has_column = true;
    for (size_t i = 0; i < head->num_files && c->has_column; i++) {
        const qk_parquet *file;
        QK_TRY(qk__rows_file(&run->readers[worker], head, i, &file, err));
        c->has_column = qk_parquet_find(file, "bucket") >= 0;
    }
    return QK_OK;
}

/* A reservoir may lack the first and the last of all rows. */
static qk_status widen_content(qk__run *run, content *c, const qk_head *head, qk_error *err)
{
    qk__head_state *state;
    QK_TRY(qk__states_read(run, head, &state, err));
    c->least = state->first_position < c->least ? state->first_position : c->least;
    c->most = state->last_position > c->most ? state->last_position : c->most;
    qk__head_state_free(&state);
    return QK_OK;
}

static qk_status read_rows(qk__run *run, int worker, content *c, const qk_head *head,
                           qk_error *err)
{
    qk_block block;
    QK_TRY(find_column(run, worker, c, head, err));
    QK_TRY(qk__run_open_rows(run, worker, head,
                             QK_COLUMN_POSITION | (c->has_column ? QK_COLUMN_BUCKET : 0U), 0,
                             err));
    for (;;) {
        QK_TRY(qk_rows_next(run->readers[worker], SCAN_ROWS, &block, err));
        if (block.rows == 0)
            return run->states.count > 0 ? widen_content(run, c, head, err) : QK_OK;
        add_block(c, &block);
    }
}

typedef struct scan {
    qk__run *run;
    content *heads;
} scan;

static void scan_head(void *context, size_t i, int worker)
{
    scan *s = context;
    const qk_head *head = qk_capture_head(s->run->capture, i);
    content *c = &s->heads[i];
    qk_error err;
    c->status = read_rows(s->run, worker, c, head, &err);
}

/* ---- the rule --------------------------------------------------------------------------- */

/* A head that cannot be read has no say; if it is asked for, its own analysis says why. */
static qk_status look_at_heads(scan *s, content *all, qk_error *err)
{
    size_t heads = qk_capture_num_heads(s->run->capture);
    qk__parallel_for(heads, s->run->threads, scan_head, s);
    *all = (content){.has_column = true};
    for (size_t h = 0; h < heads; h++) {
        const content *c = &s->heads[h];
        if (c->status == QK_ERR_NOMEM)
            return qk__nomem(err);
        if (c->status != QK_OK)
            continue;
        all->has_column = all->has_column && c->has_column;
        for (size_t i = 0; i < c->count && all->count <= FEW; i++)
            add_id(all, c->id[i]);
        if (c->rows == 0)
            continue;
        all->least = all->rows == 0 || c->least < all->least ? c->least : all->least;
        all->most = all->rows == 0 || c->most > all->most ? c->most : all->most;
        all->rows += c->rows;
    }
    return QK_OK;
}

static void tell(qk__run *run, bool has_column)
{
    const qk__buckets *b = &run->buckets;
    if (run->settings->buckets == QK_BUCKETS_AUTO)
        qk__tell_notice(&run->context, QK_NOTICE_INFO,
                        "%s: plasticity uses %d of equal width, %.6g positions each; --buckets "
                        "changes that",
                        has_column ? "more than 32 buckets" : "no column 'bucket'", b->count,
                        qk__buckets_width(b));
}

static qk_status find_count(qk__run *run, scan *s, qk_error *err)
{
    content all;
    int wanted = run->settings->buckets;
    QK_TRY(look_at_heads(s, &all, err));
    if (all.rows == 0 || (wanted == QK_BUCKETS_AUTO && all.has_column && all.count <= FEW))
        return QK_OK;
    run->buckets = (qk__buckets){.count = wanted == QK_BUCKETS_AUTO ? FEW : wanted,
                                 .first = all.least < 0 ? all.least : 0,
                                 .last = all.most};
    tell(run, all.has_column);
    return QK_OK;
}

/* Reads pairs of keys within a distance from the settings' text; false: it is no such text. */
static bool read_distance(const char *text, qk_plasticity_settings *settings)
{
    char number[32];
    double value;
    const size_t size = text ? strlen(text) : 0;
    const bool share = size > 0 && text[size - 1] == '%';
    settings->max_distance = settings->max_share = 0;
    if (!text)
        return true;
    snprintf(number, sizeof number, "%.*s", size < sizeof number ? (int)(size - share) : 0,
             text);
    if (!qk__parse_number(number, &value) || !(value > 0) || (share && value > 100))
        return false;
    *(share ? &settings->max_share : &settings->max_distance) = share ? value / 100 : value;
    return true;
}

qk_status qk__run_set_buckets(qk__run *run, qk_error *err)
{
    qk_plasticity_settings settings;
    if (!read_distance(run->settings->max_distance, &settings))
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "max-distance \"%.60s\": expected a number of tokens above 0, such as 2000, "
            "or of percent of the text, such as 5%%",
            run->settings->max_distance);
    if (!qk__run_does(run, QK_ANALYSE_PLASTICITY) ||
        run->settings->buckets == QK_BUCKETS_CAPTURE)
        return QK_OK;
    scan s = {.run = run,
              .heads = qk__calloc(qk_capture_num_heads(run->capture), sizeof *s.heads)};
    if (!s.heads)
        return qk__nomem(err);
    qk_status status = find_count(run, &s, err);
    free(s.heads);
    return status;
}

qk_plasticity_settings qk__run_plasticity(const qk__run *run)
{
    qk_plasticity_settings settings = run->settings->plasticity;
    settings.seed = (uint64_t)run->settings->seed;
    (void)read_distance(run->settings->max_distance, &settings);
    if (!(settings.bucket_width > 0))
        settings.bucket_width = qk__buckets_width(&run->buckets);
    return settings;
}
