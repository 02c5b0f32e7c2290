/* SPDX-License-Identifier: Apache-2.0 */
/* Files of settings in YAML, read by tables of keys: what configuration files and study files
 * share. */
#ifndef QK_STUDY_CONFIG_H
#define QK_STUDY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/study.h>

#include "study/yaml_node.h"

enum { QK__MAX_NOTES = 16 };

/* Strings of the settings point into document, which lives as long as the config. */
struct qk_config {
    yaml_document_t document;
    bool has_document;
    bool of_study; /* keys that belong to one capture are unknown */
    qk_study_settings settings;
    char *notes[QK__MAX_NOTES];
    size_t num_notes;
    bool kinds_given;
    bool parallel_off;
    void *owner; /* for the keys of a study file's own tables: what they fill */
};

/* Reads one value: `key` is its full name, for messages. */
typedef qk_status qk__set_key_fn(qk_config *config, const yaml_node_t *node, const char *key,
                                 qk_error *err);

/* A row without a function is a section: what lies in it has "section." before its name. */
typedef struct qk__key {
    const char *name;
    qk__set_key_fn *set;
    bool one_capture; /* of a configuration file alone: a study has many captures */
} qk__key;

/* Reads the file, replaces variables, parses it into config->document. Messages name the
 * file. */
QK_MUST_CHECK qk_status qk__config_parse(qk_config *config, const char *path, qk_error *err);

/* Hands every value in a mapping to its row's function; "" is the section of the whole file. A
 * key that no row has, or that comes twice, is QK_ERR_ARGUMENT and names line and key. */
QK_MUST_CHECK qk_status qk__read_keys(qk_config *config, const qk__key *keys, size_t count,
                                      const yaml_node_t *node, const char *section,
                                      qk_error *err);

/* A section of a configuration file, e.g. "rotation", into config->settings. */
QK_MUST_CHECK qk_status qk__config_section(qk_config *config, const yaml_node_t *node,
                                           const char *key, qk_error *err);

/* A whole number in [min, max]. */
QK_MUST_CHECK qk_status qk__config_int(const yaml_node_t *node, const char *key, int min,
                                       int max, int *value, qk_error *err);

/* Frees what config holds, not itself. */
void qk__config_release(qk_config *config);

#endif
