/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two models: the order of the steps, and their settings. */
#include "compare/compare.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "settings/settings.h"

void qk_compare_outcome_free(qk_compare_outcome **outcome)
{
    assert(outcome);
    qk_compare_outcome *o = *outcome;
    if (!o)
        return;
    free(o->names[0]);
    free(o->names[1]);
    free(o->metrics);
    free(o->movers);
    qk__strings_free(o->warnings, o->num_warnings);
    qk__strings_free(o->outputs, o->num_outputs);
    free(o->summary);
    free(o);
    *outcome = NULL;
}

static qk_status check_compare_settings(const qk_compare_settings *s, qk_error *err)
{
    if (!s->a || !s->b)
        return qk__fail(err, QK_ERR_ARGUMENT, "two things are compared: give a and b");
    if (!s->output)
        return qk__fail(err, QK_ERR_ARGUMENT, "no output folder given");
    return qk__settings_check(&qk_compare_settings_table, s, err);
}

/* Missing figures do not remove the rest. */
static qk_status conclude(const qk__comparing *c, qk_error *err)
{
    for (size_t i = 0; i < c->drawn.count; i++)
        if (c->drawn.items[i].status != QK_OK)
            return qk__fail(err, QK_ERR_PARTIAL, "figure %s: %s", c->drawn.items[i].name,
                            c->drawn.items[i].message ? c->drawn.items[i].message
                                                      : "out of memory");
    return QK_OK;
}

static qk_status execute(qk__comparing *c, qk_error *err)
{
    QK_TRY(qk__compare_claim(c, err));
    QK_TRY(qk__open_sides(c, err));
    QK_TRY(qk__compare_heads(c, err));
    QK_TRY(qk__compare_means(c, err));
    QK_TRY(qk__compare_sum_up(c, err));
    QK_TRY(qk__compare_write_tables(c, err));
    if (c->settings->html) {
        QK_TRY(qk__compare_draw(c, err));
        QK_TRY(qk__compare_write_page(c, err));
    }
    c->outcome->seconds = qk__now() - c->start;
    QK_TRY(qk__compare_commit(c, err));
    return conclude(c, err);
}

qk_status qk_compare_run(const qk_compare_settings *settings, qk_compare_outcome **outcome,
                         qk_error *err)
{
    QK_NEED(err, outcome);
    *outcome = NULL;
    QK_NEED(err, settings);
    QK_TRY(check_compare_settings(settings, err));
    qk__comparing c = {.settings = settings,
                       .sides = {{.letter = "a", .watched = {.lock = -1}},
                                 {.letter = "b", .watched = {.lock = -1}}},
                       .outcome = qk__calloc(1, sizeof *c.outcome),
                       .warnings = json_array(),
                       .level = settings->ci / 100,
                       .folder = {.lock = -1},
                       .start = qk__now()};
    qk_status status = c.outcome && c.warnings ? execute(&c, err) : qk__nomem(err);
    if (status == QK_OK || status == QK_ERR_PARTIAL)
        *outcome = c.outcome;
    else
        qk_compare_outcome_free(&c.outcome);
    qk__buffer_free(&c.metrics);
    qk__close_sides(&c);
    qk__compare_release(&c);
    return status;
}
