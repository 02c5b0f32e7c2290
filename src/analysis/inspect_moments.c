/* SPDX-License-Identifier: Apache-2.0 */
/* What the moments that a capture keeps say of a head. */
#include "analysis/inspect_moments.h"

#include <string.h>
#include <sys/stat.h>

#include "analysis/states.h"
#include "base/buffer.h"
#include "base/error.h"

static qk_status describe_rowless(qk_head_inspection *head, const qk__head_state *state,
                                  qk_error *err)
{
    head->position_min = state->first_position;
    head->position_max = state->last_position;
    head->has_positions = true;
    head->has_bucket = state->num_buckets > 0;
    head->buckets.items = qk__calloc(state->num_buckets + 1, sizeof *head->buckets.items);
    if (!head->buckets.items)
        return qk__nomem(err);
    for (size_t i = 0; i < state->num_buckets; i++)
        if (state->buckets[i].count > 0)
            head->buckets.items[head->buckets.count++] = state->buckets[i].bucket;
    return QK_OK;
}

qk_status qk__inspect_moments(qk_head_inspection *head, const qk_head *on_disk, qk_error *err)
{
    qk__layer_file *file;
    qk__head_state *state = NULL;
    QK_TRY(qk__states_find(on_disk->moments, err));
    QK_TRY(qk__layer_file_open(&file, on_disk->moments, err));
    qk_status status = qk__states_head(file, on_disk, &state, err);
    if (status == QK_OK) {
        head->summed = state->moments->count;
        head->dim = state->moments->dim;
        head->texts = state->num_texts;
        if (on_disk->num_files == 0)
            status = describe_rowless(head, state, err);
    }
    qk__head_state_free(&state);
    qk__layer_file_close(&file);
    return status;
}

void qk__inspect_moments_files(qk_inspection *in, const qk_capture *capture)
{
    const char *last = "";
    for (size_t i = 0; i < qk_capture_num_heads(capture); i++) {
        const qk_head *head = qk_capture_head(capture, i); /* in order of layers */
        struct stat st;
        if (!head->moments || strcmp(head->moments, last) == 0)
            continue;
        last = head->moments;
        if (stat(last, &st) == 0) {
            in->moments_files++;
            in->moments_bytes += st.st_size;
        }
    }
}
