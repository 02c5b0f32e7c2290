/* SPDX-License-Identifier: Apache-2.0 */
/* Captures on the Hub: a thread fetches each while the model before it is analysed. */
#include <stdlib.h>
#include <string.h>

#include "analysis/run.h"
#include "base/buffer.h"
#include "base/error.h"
#include "hub/hub.h"
#include "study/study.h"

struct qk__study_ahead {
    qk__relay relay; /* first: on_progress casts it to the whole */
    const qk__study_work *work;
    size_t model;
    pthread_t thread;
    bool threaded; /* false: the system refused a thread, and waiting does the work */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, waited_for, stop; /* guarded by lock */
    /* the outcome, once it is done */
    qk_status status;
    qk_error why;
};

/* ---- in the thread ----------------------------------------------------------------------- */

/* The bar on the screen is that of the current model, as long as there is one. */
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
    qk_hub_place place;
    if (!is_remote(work, ahead->model))
        return QK_OK;
    qk_hub_wanted wanted = qk__run_hub(&settings);
    wanted.context = qk__relay_context(&ahead->relay);
    wanted.context.progress = on_progress;
    wanted.context.offline = work->context.offline;
    wanted.hides_progress =
        ahead->model > 0; /* the line on the screen is that of the current model */
    qk_status status = qk_hub_get(&wanted, &place, err);
    free(place.path);
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

qk_status qk__study_fetch_end(qk__study_work *work, qk_error *err)
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
           !qk__hub_is_offline(&work->run->context);
}
