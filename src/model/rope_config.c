/* SPDX-License-Identifier: Apache-2.0 */
/* From config.json to qk__rope_settings. */
#include "model/model_config.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "model/architectures.h"

#define MAX_POSITIONS (INT64_C(1) << 40)

static const char *const set_names[QK_NUM_ROPES] = {
    [QK_ROPE_FULL] = "full_attention", [QK_ROPE_SLIDING] = "sliding_attention"};

/* ---- one form out of many --------------------------------------------------------------- */

/* NULL: absent or null. */
static qk_status get_object(const qk__node *at, const char *key, json_t **object, qk_error *err)
{
    qk__node found = qk__node_member(at, key);
    if (qk__node_is_given(&found))
        QK_TRY(qk__need_kind(&found, NULL, QK__OBJECT, &found, err));
    *object = qk__node_is_given(&found) ? qk__node_json(&found) : NULL;
    return QK_OK;
}

/* Fills in the base and the type, which older files call "type". */
static int complete(json_t *parameters, json_t *theta, double usual)
{
    int failed = 0;
    if (!json_object_get(parameters, "rope_theta"))
        failed |= theta && !json_is_null(theta)
                      ? json_object_set(parameters, "rope_theta", theta)
                      : json_object_set_new(parameters, "rope_theta", json_real(usual));
    json_t *type = json_object_get(parameters, "rope_type");
    if (json_is_null(type) || !type) {
        type = json_object_get(parameters, "type");
        failed |= type && !json_is_null(type)
                      ? json_object_set(parameters, "rope_type", type)
                      : json_object_set_new(parameters, "rope_type", json_string("default"));
    }
    return failed;
}

/* json_deep_copy leaves out members for which there is no memory. */
static json_t *copy_of(json_t *source)
{
    json_t *copy = json_deep_copy(source);
    if (!copy || json_equal(copy, source))
        return copy;
    json_decref(copy);
    return NULL;
}

static qk_status normalize_one(const qk__node *node, const qk__architecture *a, qk_error *err)
{
    json_t *text = qk__node_json(node);
    json_t *scaling, *parameters;
    QK_TRY(get_object(node, "rope_scaling", &scaling, err));
    QK_TRY(get_object(node, "rope_parameters", &parameters, err));
    json_t *source = json_object_size(scaling) > 0 ? scaling : parameters;
    for (int i = 0; i < QK_NUM_ROPES; i++)
        if (json_object_get(source, set_names[i]))
            return qk__fail_in(node, "rope_parameters", err, QK_ERR_UNSUPPORTED,
                               "%s has one set of them, not one by layer type", a->name);
    json_t *one = NULL;
    if (!source && a->rope)
        QK_TRY(qk__json_parse(&one, a->rope, strlen(a->rope), QK__JSON_GIVEN, err));
    else
        one = source ? copy_of(source) : json_object();
    int failed = !one || complete(one, json_object_get(text, "rope_theta"), a->theta);
    return json_object_set_new(text, "rope_parameters", one) != 0 || failed ? qk__nomem(err)
                                                                            : QK_OK;
}

/* Global and local sets: rope_scaling is for the global one. */
static qk_status normalize_two(const qk__node *node, const qk__architecture *a, qk_error *err)
{
    json_t *text = qk__node_json(node);
    qk__node sets = qk__node_member(node, "rope_parameters");
    json_t *scaling, *parameters, *source[QK_NUM_ROPES];
    QK_TRY(get_object(node, "rope_scaling", &scaling, err));
    QK_TRY(get_object(node, "rope_parameters", &parameters, err));
    for (int i = 0; i < QK_NUM_ROPES; i++)
        QK_TRY(get_object(&sets, set_names[i], &source[i], err));
    if (json_object_size(parameters) > 0 && !source[QK_ROPE_FULL] && !source[QK_ROPE_SLIDING])
        return qk__fail_at(&sets, err, QK_ERR_UNSUPPORTED,
                           "expected full_attention and sliding_attention");
    json_t *both = json_object();
    int failed = !both;
    for (int i = 0; i < QK_NUM_ROPES && !failed; i++) {
        json_t *one = source[i] ? copy_of(source[i]) : json_object();
        bool full = i == QK_ROPE_FULL;
        if (!one || (full && scaling && json_object_update(one, scaling)))
            failed = 1;
        else
            failed = complete(
                one, json_object_get(text, full ? "rope_theta" : "rope_local_base_freq"),
                full ? a->theta : 10000);
        failed |= json_object_set_new(both, set_names[i], one);
    }
    return json_object_set_new(text, "rope_parameters", both) != 0 || failed ? qk__nomem(err)
                                                                             : QK_OK;
}

qk_status qk__rope_normalize(const qk__node *text, const qk__architecture *a, qk_error *err)
{
    QK_TRY((a->local_rope ? normalize_two : normalize_one)(text, a, err));
    json_object_del(qk__node_json(text), "rope_scaling");
    json_object_del(qk__node_json(text), "rope_theta");
    return QK_OK;
}

/* ---- overrides -------------------------------------------------------------------------- */

static qk_status merge(json_t *parameters, json_t *value, qk_error *err)
{
    int failed = 0;
    if (!json_is_object(value)) { /* null: back to no scaling */
        json_t *theta = json_incref(json_object_get(parameters, "rope_theta"));
        failed |= json_object_clear(parameters);
        failed |= json_object_set_new(parameters, "rope_theta", theta);
        failed |= json_object_set_new(parameters, "rope_type", json_string("default"));
    } else {
        failed |= json_object_update(parameters, value);
        if (json_object_get(value, "type") && !json_object_get(value, "rope_type"))
            failed |= json_object_set(parameters, "rope_type", json_object_get(value, "type"));
    }
    return failed ? qk__nomem(err) : QK_OK;
}

qk_status qk__rope_override(json_t *text, const char *key, json_t *value,
                            const qk__architecture *a, bool *taken, qk_error *err)
{
    bool theta = strcmp(key, "rope_theta") == 0;
    *taken = theta || strcmp(key, "rope_scaling") == 0 || strcmp(key, "rope_parameters") == 0;
    if (!*taken)
        return QK_OK;
    json_t *parameters = json_object_get(text, "rope_parameters");
    json_t *full =
        a->local_rope ? json_object_get(parameters, set_names[QK_ROPE_FULL]) : parameters;
    if (theta)
        return json_object_set(full, "rope_theta", value) == 0 ? QK_OK : qk__nomem(err);
    if (!json_is_object(value) && !json_is_null(value))
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: expected an object", key);
    bool by_type = false;
    for (int i = 0; a->local_rope && i < QK_NUM_ROPES; i++) {
        json_t *part = json_object_get(value, set_names[i]);
        if (!part)
            continue;
        by_type = true;
        QK_TRY(merge(json_object_get(parameters, set_names[i]), part, err));
    }
    return by_type ? QK_OK : merge(full, value, err);
}

/* ---- settings --------------------------------------------------------------------------- */

static qk_status need_positive(const qk__node *fields, const char *key, double *value,
                               qk_error *err)
{
    QK_TRY(qk__need(fields, key, err));
    return qk__read_above_0(fields, key, value, err);
}

/* 0 and null both stand for what is usual. */
static qk_status get_or_usual(const qk__node *fields, const char *key, double usual,
                              double *value, qk_error *err)
{
    *value = 0;
    QK_TRY(qk__read_real(fields, key, 0, DBL_MAX, value, err));
    *value = *value > 0 ? *value : usual;
    return QK_OK;
}

static double mscale(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

static qk_status read_yarn(qk__rope_settings *s, const qk__node *fields, qk_error *err)
{
    double one, all;
    s->factor = (double)s->max_positions / (double)s->original;
    s->truncate = true;
    QK_TRY(qk__read_above_0(fields, "factor", &s->factor, err));
    QK_TRY(get_or_usual(fields, "beta_fast", 32, &s->beta_fast, err));
    QK_TRY(get_or_usual(fields, "beta_slow", 1, &s->beta_slow, err));
    QK_TRY(qk__read_bool(fields, "truncate", &s->truncate, err));
    QK_TRY(get_or_usual(fields, "mscale", 0, &one, err));
    QK_TRY(get_or_usual(fields, "mscale_all_dim", 0, &all, err));
    s->attention_factor = one > 0 && all > 0 ? mscale(s->factor, one) / mscale(s->factor, all)
                                             : mscale(s->factor, 1);
    return qk__read_above_0(fields, "attention_factor", &s->attention_factor, err);
}

static qk_status read_stretches(const qk__rope_settings *s, const qk__node *fields,
                                const char *key, float **stretches, qk_error *err)
{
    qk__node list;
    size_t count = (size_t)s->width / 2;
    QK_TRY(qk__need_kind(fields, key, QK__LIST, &list, err));
    if (qk__node_count(&list) != count)
        return qk__fail_at(&list, err, QK_ERR_MALFORMED, "expected %zu numbers, found %zu",
                           count, qk__node_count(&list));
    *stretches = qk__calloc(count, sizeof **stretches);
    if (!*stretches)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        double value;
        qk__node item = qk__node_item(&list, i);
        QK_TRY(need_positive(&item, NULL, &value, err));
        (*stretches)[i] = (float)value;
    }
    return QK_OK;
}

static qk_status read_llama3(qk__rope_settings *s, const qk__node *fields, qk_error *err)
{
    /* A GGUF file has nothing else. */
    if (qk__node_kind_in(fields, "frequency_divisors") > QK__NULL)
        return read_stretches(s, fields, "frequency_divisors", &s->short_factor, err);
    QK_TRY(need_positive(fields, "factor", &s->factor, err));
    QK_TRY(need_positive(fields, "low_freq_factor", &s->low_freq_factor, err));
    QK_TRY(need_positive(fields, "high_freq_factor", &s->high_freq_factor, err));
    return s->high_freq_factor > s->low_freq_factor
               ? QK_OK
               : qk__fail_in(fields, "high_freq_factor", err, QK_ERR_INCONSISTENT,
                             "must be above low_freq_factor");
}

static qk_status read_longrope(qk__rope_settings *s, const qk__node *fields, qk_error *err)
{
    s->factor = (double)s->max_positions / (double)s->original;
    QK_TRY(qk__read_above_0(fields, "factor", &s->factor, err));
    s->attention_factor =
        s->factor <= 1 ? 1 : sqrt(1 + log(s->factor) / log((double)s->original));
    QK_TRY(qk__read_above_0(fields, "attention_factor", &s->attention_factor, err));
    QK_TRY(read_stretches(s, fields, "short_factor", &s->short_factor, err));
    return read_stretches(s, fields, "long_factor", &s->long_factor, err);
}

/* How many dimensions of a head are rotated. Of a proportional rotation it is all of them, some of
 * them by nothing. */
static qk_status read_width(qk__rope_settings *s, const qk__model_config *config,
                            const qk__node *text, const qk__node *fields, qk_error *err)
{
    double usual = config->architecture->rotated_part, part = usual;
    QK_TRY(qk__read_above_0(text, "partial_rotary_factor", &part, err));
    QK_TRY(qk__read_above_0(fields, "partial_rotary_factor", &part, err));
    bool whole = s->type == QK_ROPE_PROPORTIONAL;
    int rotated = part <= 1 ? (int)(config->head_dim * part) : 0;
    s->width = whole && part <= 1 ? config->head_dim : rotated;
    s->turned = rotated / 2;
    if ((usual == 1 && part != 1 && !whole) || s->width < 2 || s->width % 2 != 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "partial_rotary_factor: %s rotating %g of %d dimensions is not known",
                        config->architecture->name, part, config->head_dim);
    return QK_OK;
}

static qk_status read_type(qk__rope_settings *s, const qk__node *text, const qk__node *fields,
                           qk_error *err)
{
    const char *type = "default";
    QK_TRY(qk__read_text(fields, "rope_type", &type, err));
    if (!qk__rope_type_parse(type, &s->type))
        return qk__fail_in(fields, "rope_type", err, QK_ERR_UNSUPPORTED,
                           "\"%s\" is not known; default, linear, dynamic, llama3, yarn, "
                           "longrope and proportional are",
                           type);
    s->original = s->max_positions;
    QK_TRY(qk__read_int64(fields, "original_max_position_embeddings", 1, MAX_POSITIONS,
                          &s->original, err));
    return qk__read_int64(text, "original_max_position_embeddings", 1, MAX_POSITIONS,
                          &s->original, err);
}

static qk_status read_one(qk__rope_settings *s, const qk__model_config *config,
                          const qk__node *text, const qk__node *fields, qk_error *err)
{
    *s = (qk__rope_settings){.max_positions = config->max_positions, .attention_factor = 1};
    QK_TRY(read_type(s, text, fields, err));
    QK_TRY(read_width(s, config, text, fields, err));
    QK_TRY(need_positive(fields, "rope_theta", &s->theta, err));
    switch (s->type) {
    case QK_ROPE_DEFAULT:
        return QK_OK;
    case QK_ROPE_DYNAMIC:
        if (s->width < 4)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "dynamic RoPE of %d dimensions", s->width);
        return need_positive(fields, "factor", &s->factor, err);
    case QK_ROPE_LINEAR:
        return need_positive(fields, "factor", &s->factor, err);
    case QK_ROPE_PROPORTIONAL:
        s->factor = 1;
        return qk__read_above_0(fields, "factor", &s->factor, err);
    case QK_ROPE_LLAMA3:
        return read_llama3(s, fields, err);
    case QK_ROPE_YARN:
        return read_yarn(s, fields, err);
    case QK_ROPE_LONGROPE:
        return read_longrope(s, fields, err);
    }
    return QK_OK;
}

static qk_status read_query_scale(qk__model_config *config, const qk__node *fields,
                                  qk_error *err)
{
    QK_TRY(need_positive(fields, "llama_4_scaling_beta", &config->query_scale_beta, err));
    QK_TRY(qk__need(fields, "original_max_position_embeddings", err));
    return qk__read_int64(fields, "original_max_position_embeddings", 1, MAX_POSITIONS,
                          &config->query_scale_original, err);
}

qk_status qk__rope_read(qk__model_config *config, const qk__node *text, qk_error *err)
{
    qk__node parameters = qk__node_member(text, "rope_parameters");
    bool by_type = config->architecture->local_rope;
    for (int i = 0; i < (by_type ? QK_NUM_ROPES : 1); i++) {
        qk__node fields = by_type ? qk__node_member(&parameters, set_names[i]) : parameters;
        QK_TRY(read_one(&config->rope[i], config, text, &fields, err));
        if (config->architecture->scaled_queries)
            QK_TRY(read_query_scale(config, &fields, err));
    }
    return QK_OK;
}
