/* SPDX-License-Identifier: Apache-2.0 */
/* Captures on the Hub: each is fetched by a thread while the model before it is analysed, and what this
 * study has fetched can be dropped once a model is done. */
#include <stdlib.h>
#include <string.h>

#include "analysis/run.h"
#include "base/buffer.h"
#include "base/error.h"
#include "fetch/need.h"
#include "study/study.h"

struct qk__study_ahead {
    qk__relay relay; /* first: on_progress takes it for the whole */
    const qk__study_work *work;
    size_t model;
    pthread_t thread;
    bool threaded; /* false: the system refused one, and it is done when it is waited for */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, waited_for, stop; /* guarded by lock */
    /* what became of it, once it is done */
    qk_status status;
    qk_error why;
    bool stands;
    qk__study_check check;
};

/* ---- in the thread ----------------------------------------------------------------------- */

/* The bar on the screen is that of the model at work, as long as there is one. */
static bool on_progress(void *user, const qk_progress *progress)
{
    qk__study_ahead *ahead = user;
    pthread_mutex_lock(&ahead->lock);
    bool stop = ahead->stop, shown = ahead->waited_for;
    pthread_mutex_unlock(&ahead->lock);
    return !stop && (!shown || qk__tell_progress(&ahead->work->context, progress));
}

static bool is_remote(const qk__study_work *work, size_t i)
{
    return !work->plan->folders[i] && !work->places[i].local &&
           qk_hub_is_remote(work->plan->models[i].settings.capture);
}

static qk_status bring(qk__study_ahead *ahead, qk_error *err)
{
    const qk__study_work *work = ahead->work;
    qk_analysis_settings settings = qk__study_settings(work, ahead->model);
    qk__needed needed;
    qk_error why;
    if (!is_remote(work, ahead->model))
        return QK_OK;
    qk_hub_settings what = qk__run_hub(&settings), here = what;
    here.context.offline = true;
    qk_status status = qk__fetch_need(&here, settings.local_root, &needed, &why);
    free(needed.path);
    if (status != QK_ERR_NOT_FOUND && status != QK_ERR_MALFORMED) /* a ref that holds none */
        return status == QK_OK ? QK_OK : qk__fail(err, status, "%s", why.message);
    QK_TRY(qk__study_check_commit(work, ahead->model, &ahead->check, err));
    ahead->stands = ahead->check.stands;
    if (ahead->stands)
        return QK_OK;
    what.record = work->record;
    what.context = qk__relay_context(&ahead->relay);
    what.context.progress = on_progress;
    what.context.offline = work->context.offline;
    status = qk__fetch_need(&what, settings.local_root, &needed, err);
    free(needed.path);
    return status;
}

static void *run_thread(void *argument)
{
    qk__study_ahead *ahead = argument;
    qk_status status = bring(ahead, &ahead->why);
    pthread_mutex_lock(&ahead->lock);
    ahead->status = status;
    ahead->done = true;
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

/* ---- from outside ------------------------------------------------------------------------ */

static void release_ahead(qk__study_ahead *ahead)
{
    if (ahead->threaded)
        pthread_join(ahead->thread, NULL);
    pthread_cond_destroy(&ahead->changed);
    pthread_mutex_destroy(&ahead->lock);
    json_decref(ahead->check.warnings);
    free(ahead->check.capture);
    free(ahead);
}

qk_status qk__study_fetch_begin(qk__study_work *work, size_t i, qk_error *err)
{
    qk__study_ahead *ahead = calloc(1, sizeof *ahead);
    if (!ahead)
        return qk__nomem(err);
    ahead->work = work;
    ahead->model = i;
    ahead->relay = (qk__relay){
        .to = &work->run->context, .name = work->plan->models[i].name, .lock = work->lock};
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    ahead->threaded =
        is_remote(work, i) && pthread_create(&ahead->thread, NULL, run_thread, ahead) == 0;
    work->ahead = ahead;
    return QK_OK;
}

qk_status qk__study_fetch_end(qk__study_work *work, qk__study_check *check, bool *stands,
                              qk_error *err)
{
    qk__study_ahead *ahead = work->ahead;
    work->ahead = NULL;
    pthread_mutex_lock(&ahead->lock);
    ahead->waited_for = true;
    while (ahead->threaded && !ahead->done)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    pthread_mutex_unlock(&ahead->lock);
    if (!ahead->threaded)
        run_thread(ahead);
    qk_status status = ahead->status;
    if (status != QK_OK && err)
        *err = ahead->why;
    *stands = status == QK_OK && ahead->stands;
    *check = (qk__study_check){0};
    if (*stands) {
        *check = ahead->check;
        ahead->check = (qk__study_check){0};
    }
    release_ahead(ahead);
    return status;
}

void qk__study_fetch_stop(qk__study_work *work)
{
    qk__study_ahead *ahead = work->ahead;
    if (!ahead)
        return;
    work->ahead = NULL;
    pthread_mutex_lock(&ahead->lock);
    ahead->stop = true;
    pthread_mutex_unlock(&ahead->lock);
    release_ahead(ahead);
}

bool qk__study_would_fetch(const qk__study_work *work, size_t i, qk_status status)
{
    return work->run->dry_run && is_remote(work, i) &&
           (status == QK_ERR_NOT_FOUND || status == QK_ERR_MALFORMED) &&
           !qk__fetch_is_offline(&work->run->context);
}

/* ---- dropping ---------------------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Of one snapshot: files of one model may be those of the other. */
static bool same_source(const qk__study_work *work, size_t i, size_t j)
{
    const qk_analysis_settings *a = &work->plan->models[i].settings;
    const qk_analysis_settings *b = &work->plan->models[j].settings;
    return is_remote(work, i) && is_remote(work, j) && same_text(a->capture, b->capture) &&
           same_text(a->revision, b->revision);
}

static bool is_done(const qk__study_work *work, size_t i)
{
    qk_study_state state = work->outcome->models[i].state;
    bool drawn = !work->run->figures || qk__study_is_drawn(work, i);
    return drawn && (state == QK_STUDY_COMPUTED || state == QK_STUDY_KEPT);
}

/* The last model of a snapshot drops what was fetched for all of them. */
static bool may_drop(const qk__study_work *work, size_t i)
{
    bool may = work->record && !work->run->dry_run && is_remote(work, i);
    for (size_t j = 0; may && j < work->plan->num_models; j++)
        if (j == i || same_source(work, i, j))
            may = j <= i && is_done(work, j);
    return may;
}

qk_status qk__study_drop(qk__study_work *work, size_t i, qk_error *err)
{
    int64_t all = 0, freed;
    qk_error why;
    if (!may_drop(work, i))
        return QK_OK;
    for (size_t j = 0; j <= i; j++) {
        if (j != i && !same_source(work, i, j))
            continue;
        qk_analysis_settings settings = qk__study_settings(work, j);
        qk_hub_settings what = qk__run_hub(&settings);
        what.record = work->record;
        QK_TRY(qk__fetch_settle_cache(&what, settings.local_root, err));
        qk_status status = qk_hub_drop(&what, &freed, &why);
        all += freed;
        if (status == QK_ERR_NOMEM)
            return qk__nomem(err);
        if (status != QK_OK)
            qk__tell_notice(&work->context, QK_NOTICE_WARNING, "%s", why.message);
    }
    if (all > 0)
        qk__tell_notice(&work->context, QK_NOTICE_REMARK,
                        "dropped from the cache what was fetched for it: %.1f MB freed",
                        (double)all / 1e6);
    work->outcome->freed_bytes += all;
    return QK_OK;
}
