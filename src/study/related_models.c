/* SPDX-License-Identifier: Apache-2.0 */
/* Finds models of a study that are no independent ones: the same weights twice, or models of one shape, which mostly
 * are checkpoints of one run. */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "study/study.h"

#define RELATED                                                                                \
    "as many layers, heads and dimensions as another model: of related models findings count " \
    "each as independent; give checkpoints of one run a `phase` each, and of others keep one"

qk__study_shape qk__study_shape_of(const qk_capture *capture)
{
    const qk_capture_info *info = qk_capture_get_info(capture);
    qk__study_shape shape = {.layers = qk_capture_num_layers(capture)};
    for (size_t i = 0; i < qk_capture_num_heads(capture); i++) {
        const qk_head_id id = qk_capture_head(capture, i)->id;
        int *heads = id.kind == QK_QUERY ? &shape.q_heads : &shape.k_heads;
        *heads = id.head >= *heads ? id.head + 1 : *heads;
    }
    shape.q_heads = info->num_q_heads > 0 ? info->num_q_heads : shape.q_heads;
    shape.k_heads = info->num_k_heads > 0 ? info->num_k_heads : shape.k_heads;
    qk_capture_rope_frequencies(capture, 0, &shape.planes);
    snprintf(shape.weights, sizeof shape.weights, "%s", info->model_fingerprint);
    return shape;
}

static bool has_results(const qk__study_work *work, size_t i)
{
    return work->places[i].capture && qk__study_has_results(&work->outcome->models[i]);
}

size_t qk__study_twin(const qk__study_work *work, size_t i)
{
    const qk__study_place *own = &work->places[i];
    for (size_t j = 0; j < i && has_results(work, i); j++) {
        const qk__study_place *other = &work->places[j];
        if (has_results(work, j) &&
            (strcmp(own->capture, other->capture) == 0 ||
             (*own->shape.weights && strcmp(own->shape.weights, other->shape.weights) == 0)))
            return j;
    }
    return i;
}

static bool alike(const qk__study_shape *a, const qk__study_shape *b)
{
    return a->layers == b->layers && a->q_heads == b->q_heads && a->k_heads == b->k_heads &&
           a->planes == b->planes;
}

/* Counts the models that have that shape, without those that are another model's twin; and of these the ones without a
 * family. */
static size_t count_alike(const qk__study_work *work, size_t i, size_t *all, size_t *strangers)
{
    size_t count = 0;
    *all = *strangers = 0;
    for (size_t j = 0; j < work->plan->num_models; j++) {
        if (!has_results(work, j) || qk__study_twin(work, j) != j)
            continue;
        const bool same = alike(&work->places[i].shape, &work->places[j].shape);
        count += same;
        *strangers += same && !*work->plan->models[j].family;
        ++*all;
    }
    return count;
}

static bool are_checkpoints(const qk_study *plan)
{
    for (size_t i = 0; i < plan->num_models; i++)
        if (!*plan->models[i].phase)
            return false;
    return true;
}

/* Different models of a family may have one shape: so a family that the study file names is enough, unless nothing else
 * is in the study. */
static bool may_be_related(const qk__study_work *work, size_t i)
{
    size_t all, strangers;
    const size_t same = count_alike(work, i, &all, &strangers);
    return same > 1 && (strangers > 0 || same == all);
}

static qk_status warn_of_twin(qk__study_work *work, size_t i, size_t first, qk_error *err)
{
    const qk_study_model *own = &work->plan->models[i], *other = &work->plan->models[first];
    work->places[i].warning =
        qk__format("the same weights as %s (sources %s and %s): findings count them as one "
                   "model, by the numbers of %s",
                   other->name, own->source, other->source, other->name);
    if (!work->places[i].warning)
        return qk__nomem(err);
    qk__tell_notice(&work->run->context, QK_NOTICE_WARNING, "%s: %s", own->name,
                    work->places[i].warning);
    return QK_OK;
}

qk_status qk__study_warn_of_related(qk__study_work *work, qk_error *err)
{
    const bool checkpoints = are_checkpoints(work->plan);
    qk__buffer names = {0};
    qk_status status = QK_OK;
    for (size_t i = 0; i < work->plan->num_models && status == QK_OK; i++) {
        const size_t first = qk__study_twin(work, i);
        if (first != i) {
            status = warn_of_twin(work, i, first, err);
        } else if (!checkpoints && has_results(work, i) && may_be_related(work, i)) {
            work->places[i].warning = qk__strdup(RELATED);
            status = work->places[i].warning
                         ? qk__buffer_printf(&names, err, "%s%s", names.size > 0 ? ", " : "",
                                             work->plan->models[i].name)
                         : qk__nomem(err);
        }
    }
    if (status == QK_OK && names.size > 0)
        qk__tell_notice(&work->run->context, QK_NOTICE_WARNING, "%s: " RELATED,
                        (const char *)names.data);
    qk__buffer_free(&names);
    return status;
}
