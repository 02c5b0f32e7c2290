/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: the settings of an analysis, and the keys that only the original tool
 * has. */
#include "analysis/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "paths/path_kind.h"
#include "yaml/setting_files.h"

/* ---- keys of their own kind ------------------------------------------------------------- */

static qk_status set_backend(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    static const char *const NAMES[] = {"sklearn", "torch", NULL};
    qk_config *config = target;
    int name = 0;
    QK_TRY(qk__read_word(value, NULL, NAMES, &name, err));
    config->settings.pca_backend = NAMES[name];
    return qk__tree_note(value->tree, err, "%s: %s has no effect: qkscope has one exact solver",
                         key->name, NAMES[name]);
}

static qk_status set_device(void *target, const qk__node *value, const qk__key *key,
                            qk_error *err)
{
    qk_config *config = target;
    QK_TRY(qk__read_text(value, NULL, &config->settings.device, err));
    return qk__tree_note(value->tree, err, "%s: %.60s has no effect", key->name,
                         config->settings.device);
}

/* No other variance is left. */
static qk_status set_variance(void *target, const qk__node *value, const qk__key *key,
                              qk_error *err)
{
    static const char *const NAMES[] = {"diag", NULL};
    int name;
    (void)target;
    (void)key;
    return qk__read_word(value, NULL, NAMES, &name, err);
}

/* ---- the table -------------------------------------------------------------------------- */

#define AT(field) .at = offsetof(qk_config, field)

/* Keys that are no settings of this program. */
static const qk__key OWN[] = {
    {"pca.backend", QK__KEY_READ, .read = set_backend},
    {"plasticity.variance", QK__KEY_READ, .read = set_variance},
    {"analysis.parallel.enabled", QK__KEY_BOOL, AT(parallel)},
    {"analysis.parallel.backend", .type = QK__KEY_IGNORED},
    {"device", QK__KEY_READ, .read = set_device, .only = QK_SETTING_PER_CAPTURE},
};

qk_status qk__config_read(qk_config *config, const qk_settings_table *table, size_t at,
                          qk__keys more, qk_error *err)
{
    enum { OWN_ROWS = sizeof OWN / sizeof *OWN };
    qk__key rows[OWN_ROWS + QK__MAX_MORE];
    assert(more.count <= QK__MAX_MORE);
    memcpy(rows, OWN, sizeof OWN);
    if (more.count > 0)
        memcpy(rows + OWN_ROWS, more.rows, more.count * sizeof *rows);
    qk__node root = qk__tree_root(config->tree);
    return qk__settings_read(&root, table, at,
                             (qk__keys){rows, OWN_ROWS + more.count, more.hidden}, config, err);
}

/* ---- loading ---------------------------------------------------------------------------- */

static qk_status finish_config(qk_config *config, qk_error *err)
{
    qk_analysis_settings *settings = &config->settings;
    if (!settings->capture)
        return qk__fail(err, QK_ERR_ARGUMENT, "data.dataset_name is missing");
    if (!config->parallel)
        settings->context.threads = 1;
    qk__node root = qk__tree_root(config->tree), data = qk__node_member(&root, "data");
    qk__node kinds = qk__node_member(&data, "kinds");
    if (settings->combined && qk__node_is_given(&kinds))
        return qk__tree_note(config->tree, err,
                             "data.kinds has no effect: analysis.combined takes both kinds");
    return QK_OK;
}

static qk_status load_config(qk_config *config, const char *path, qk_error *err)
{
    QK_TRY(qk__read_settings(path, &config->tree, err));
    const qk__keys more = {.hidden = QK_SETTING_OF_STUDIES};
    qk_status status = qk__config_read(config, &qk_analysis_settings_table,
                                       offsetof(qk_config, settings), more, err);
    if (status == QK_OK)
        status = finish_config(config, err);
    if (status != QK_OK)
        qk__context(err, status, "%s", path);
    return status;
}

qk_status qk_config_load(qk_config **config, const char *path, qk_error *err)
{
    QK_NEED(err, config);
    *config = NULL;
    QK_NEED(err, path);
    qk_config *loaded = malloc(sizeof *loaded);
    if (!loaded)
        return qk__nomem(err);
    *loaded = (qk_config){.parallel = true};
    qk_analysis_settings_default(&loaded->settings);
    /* What the original tool does where its file says nothing. */
    loaded->settings.combined = false;
    loaded->settings.output = "results";
    qk_status status = load_config(loaded, path, err);
    if (status != QK_OK) {
        qk_config_free(&loaded);
        status = qk__path_tell(path, QK__PATH_SETTINGS, status, err);
    }
    *config = loaded;
    return status;
}

void qk__config_release(qk_config *config)
{
    qk__tree_free(&config->tree);
    qk_index_list_free(&config->settings.layers);
    qk_head_set_free(&config->settings.heads);
}

void qk_config_free(qk_config **config)
{
    assert(config);
    if (!*config)
        return;
    qk__config_release(*config);
    free(*config);
    *config = NULL;
}

const qk_analysis_settings *qk_config_settings(const qk_config *config)
{
    assert(config);
    return &config->settings;
}

size_t qk_config_num_notes(const qk_config *config)
{
    assert(config);
    return config->tree ? qk__tree_num_notes(config->tree) : 0;
}

const char *qk_config_note(const qk_config *config, size_t i)
{
    assert(config && i < qk_config_num_notes(config));
    return qk__tree_get_note(config->tree, i);
}
