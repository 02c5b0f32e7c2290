/* SPDX-License-Identifier: Apache-2.0 */
/* Writes lines for the card of a capture: where its rows come from and how they were chosen.
 * Facts that the original tool tells have its names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "recorder/recording.h"

/* Of each list; the rest is counted. */
enum { MAX_SOURCES = 20, MAX_BUCKETS = 1000 };

/* ---- buckets ---------------------------------------------------------------------------- */

/* Rows of all heads by bucket; all buckets from the last on are one. */
enum { COUNTED = 1 << 16, BLOCK_ROWS = 1024 };

typedef struct bucket_counts {
    int64_t *rows; /* [COUNTED] */
    uint8_t *block;
} bucket_counts;

static qk_status count_file(const qk__recording *r, int fd, int64_t total, int64_t heads,
                            const bucket_counts *counts, qk_error *err)
{
    size_t size = qk__spool_row_bytes(r);
    for (int64_t done = 0; done < total; done += BLOCK_ROWS) {
        int64_t rows = total - done < BLOCK_ROWS ? total - done : BLOCK_ROWS;
        QK_TRY(qk__read_at(fd, counts->block, (size_t)rows * size, done * (int64_t)size, err));
        for (int64_t i = 0; i < rows; i++) {
            qk__spool_row row;
            memcpy(&row, counts->block + (size_t)i * size, sizeof row);
            int64_t bucket = qk_sampler_bucket(&r->sampler, row.position);
            counts->rows[bucket < COUNTED ? bucket : COUNTED - 1] += heads;
        }
    }
    return QK_OK;
}

/* Heads of one layer and kind keep the same positions: one of them is read. */
static qk_status count_part(const qk__recording *r, int layer, qk_kind kind,
                            const bucket_counts *counts, qk_error *err)
{
    int64_t total = r->journal.rows[qk__part(layer, kind)];
    int64_t heads = 0;
    qk_head_id first = {0};
    for (int head = qk__num_heads(r, kind) - 1; head >= 0; head--)
        if (qk__is_kept(r, (qk_head_id){layer, head, kind})) {
            first = (qk_head_id){layer, head, kind};
            heads++;
        }
    if (heads == 0 || total == 0)
        return QK_OK;
    char *path = qk__spool_path(r, r->stages[QK__POST] ? QK__POST : QK__PRE, first);
    int fd = -1;
    int64_t size;
    qk_status status = path ? qk__open_file(path, &fd, &size, err) : qk__nomem(err);
    if (status == QK_OK)
        status = count_file(r, fd, total, heads, counts, err);
    if (fd >= 0)
        close(fd);
    free(path);
    return status;
}

static qk_status count_all(const qk__recording *r, const char *path, qk_error *err)
{
    bucket_counts counts = {qk__calloc(COUNTED, sizeof *counts.rows),
                            qk__calloc(BLOCK_ROWS, qk__spool_row_bytes(r))};
    qk_status status = counts.rows && counts.block ? QK_OK : qk__nomem(err);
    for (int layer = 0; layer < r->facts->num_layers; layer++)
        for (int kind = QK_QUERY; status == QK_OK && kind <= QK_KEY; kind++)
            status = count_part(r, layer, (qk_kind)kind, &counts, err);
    if (status == QK_OK)
        status = qk__write_file(path, counts.rows, COUNTED * sizeof *counts.rows, err);
    free(counts.block);
    free(counts.rows);
    return status;
}

qk_status qk__count_buckets(const qk__recording *r, qk_error *err)
{
    char *path = qk__path_join(r->spool, "buckets");
    qk_status status = !path               ? qk__nomem(err)
                       : qk__is_file(path) ? QK_OK
                                           : count_all(r, path, err);
    free(path);
    return status;
}

static qk_status list_buckets(const int64_t *rows, qk__buffer *out, qk_error *err)
{
    size_t listed = 0;
    int64_t rest = 0;
    QK_TRY(qk__buffer_printf(out, err, "- `bucket_counts`: `"));
    for (int i = 0; i < COUNTED; i++) {
        if (rows[i] == 0)
            continue;
        if (listed < MAX_BUCKETS && i < COUNTED - 1)
            QK_TRY(
                qk__buffer_printf(out, err, "%sb%d=%" PRId64, listed ? ", " : "", i, rows[i]));
        else
            rest += rows[i];
        listed++;
    }
    QK_TRY(qk__buffer_printf(out, err, "`"));
    if (rest > 0)
        QK_TRY(qk__buffer_printf(out, err, ", in further buckets %" PRId64, rest));
    return qk__buffer_printf(out, err, "\n");
}

static qk_status put_buckets(const qk__recording *r, qk__buffer *out, qk_error *err)
{
    char *path = qk__path_join(r->spool, "buckets");
    qk__buffer counts;
    if (!path)
        return qk__nomem(err);
    qk_status status = qk__read_file(path, COUNTED * sizeof(int64_t), &counts, err);
    free(path);
    QK_TRY(status);
    status = counts.size == COUNTED * sizeof(int64_t)
                 ? list_buckets((const int64_t *)(const void *)counts.data, out, err)
                 : qk__fail(err, QK_ERR_MALFORMED, "the unfinished run is damaged");
    qk__buffer_free(&counts);
    return status;
}

/* ---- sources ---------------------------------------------------------------------------- */

/* Between backticks, on one line. */
static qk_status put_code(const char *text, qk__buffer *out, qk_error *err)
{
    size_t begin = out->size + 1;
    QK_TRY(qk__buffer_printf(out, err, "`%s`", text));
    for (size_t i = begin; i + 1 < out->size; i++)
        if (out->data[i] < 0x20 || out->data[i] == 0x7f || out->data[i] == '`')
            out->data[i] = ' ';
    return QK_OK;
}

static qk_status put_fact(const char *name, const char *value, qk__buffer *out, qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err, "- `%s`: ", name));
    QK_TRY(put_code(value, out, err));
    return qk__buffer_printf(out, err, "\n");
}

static qk_status put_sources(const qk_recorder_settings *s, qk__buffer *out, qk_error *err)
{
    QK_TRY(qk__buffer_printf(out, err, "- `source_dataset`: "));
    for (size_t i = 0; i < s->num_texts && i < MAX_SOURCES; i++) {
        if (i > 0)
            QK_TRY(qk__buffer_printf(out, err, ", "));
        QK_TRY(put_code(s->texts[i], out, err));
    }
    if (s->num_texts > MAX_SOURCES)
        QK_TRY(qk__buffer_printf(out, err, " and %zu more", s->num_texts - MAX_SOURCES));
    QK_TRY(qk__buffer_printf(out, err, "\n"));
    const char *split = s->dataset_split;
    for (size_t i = 0; !split && i < s->num_texts; i++)
        split = qk__is_there(s->texts[i]) ? NULL : "train"; /* of a dataset in the cache */
    if (s->dataset_name)
        QK_TRY(put_fact("dataset_name", s->dataset_name, out, err));
    if (split)
        QK_TRY(put_fact("dataset_split", split, out, err));
    QK_TRY(put_fact("text_column", s->text_column ? s->text_column : "text", out, err));
    return s->id_column ? put_fact("id_column", s->id_column, out, err) : QK_OK;
}

/* ---- sampling --------------------------------------------------------------------------- */

static qk_status put_sampling(const qk__recording *r, qk__buffer *out, qk_error *err)
{
    const qk_recorder_settings *s = r->settings;
    const qk_sampler *sampler = &r->sampler;
    bool log = sampler->type == QK_SAMPLER_LOG_UNIFORM;
    char rate[QK_NUMBER_SIZE];
    qk__format_number(sampler->base_rate, rate);
    QK_TRY(put_fact("attention_scope", s->full_attention_only ? "full_only" : "all_attention",
                    out, err));
    QK_TRY(put_fact("sampling_strategy", log ? "log" : qk_sampler_type_name(sampler->type), out,
                    err));
    if (sampler->type != QK_SAMPLER_ALL)
        QK_TRY(put_fact("sampling_base_rate", rate, out, err));
    QK_TRY(qk__buffer_printf(out, err, "- `%s`: `%" PRId64 "`\n",
                             log ? "sampling_min_bucket_size" : "sampling_bucket_size",
                             qk_sampler_bucket_size(sampler)));
    if (sampler->max_rows > 0)
        QK_TRY(qk__buffer_printf(out, err,
                                 "- `max_rows`: `%" PRId64 "` of a text, layer and kind\n",
                                 sampler->max_rows));
    if (r->chosen)
        QK_TRY(qk__buffer_printf(
            out, err, "- rate: chosen to keep about %.0f rows of each head and kind\n",
            r->expected_rows));
    if (s->sample_heads > 0)
        QK_TRY(qk__buffer_printf(out, err, "- heads: %zu of %zu query heads drawn, seed %lld\n",
                                 r->selection->drawn_q, r->selection->candidates,
                                 (long long)s->head_seed));
    return put_buckets(r, out, err);
}

qk_status qk__write_card(const qk__recording *r, int stage, qk__buffer *out, qk_error *err)
{
    static const char *const ARITHMETICS[] = {
        [QK_ARITHMETIC_F32] = "float32",
        [QK_ARITHMETIC_BF16_SIM] = "float32, rounded where a bfloat16 run rounds",
        [QK_ARITHMETIC_F16_SIM] = "float32, rounded where a float16 run rounds",
        [QK_ARITHMETIC_BF16] = "bfloat16 products, rounded where a bfloat16 run rounds",
    };
    const qk__journal *j = &r->journal;
    char theta[QK_NUMBER_SIZE];
    qk__format_number(r->facts->rope_theta, theta);
    QK_TRY(qk__buffer_printf(
        out, err,
        "- stage: %s RoPE (%s, theta %s)\n- architecture: %s, weights in %s, fingerprint "
        "%016" PRIx64 "\n- arithmetic: %s\n",
        stage == QK__POST ? "after" : "before",
        r->facts->rope_type ? r->facts->rope_type : "none", theta, r->facts->architecture,
        r->facts->dtype, r->facts->fingerprint, ARITHMETICS[r->settings->arithmetic]));
    QK_TRY(put_sources(r->settings, out, err));
    QK_TRY(qk__buffer_printf(out, err,
                             "- texts: %" PRId64 " in %" PRId64 " windows, %" PRId64
                             " tokens (examples.csv lists them)\n",
                             j->texts, j->windows, j->tokens));
    QK_TRY(qk__buffer_printf(out, err,
                             "- longer than %" PRId64 " tokens: %" PRId64
                             " split (positions begin anew in each window), %" PRId64
                             " cut, %" PRId64 " passed over\n",
                             r->max_length, j->split, j->cut, j->skipped));
    return put_sampling(r, out, err);
}
