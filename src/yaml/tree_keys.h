/* SPDX-License-Identifier: Apache-2.0 */
/* Files of settings, read by tables of keys: one row says where a key stands, what it may be
 * and where its value goes. */
#ifndef QK_YAML_TREE_KEYS_H
#define QK_YAML_TREE_KEYS_H

#include "yaml/document.h"

typedef struct qk__key qk__key;

/* Reads one value that is there. Target is what qk__read_keys was given. */
typedef qk_status qk__key_fn(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err);

typedef enum qk__key_type {
    QK__KEY_TEXT, /* const char *, points into the tree */
    QK__KEY_BOOL,
    QK__KEY_INT, /* from least to most */
    QK__KEY_INT64,
    QK__KEY_IGNORED, /* taken with a note that it has no effect, unless it is false */
    QK__KEY_READ,    /* read does it */
} qk__key_type;

/* A row. Two rows may fill the same place: then a setting has two names. */
struct qk__key {
    const char *name; /* "section.key"; sections need no rows */
    qk__key_type type;
    size_t at; /* where its value goes: offset in the target */
    struct {
        int64_t least, most;
    } whole;
    qk__key_fn *read;
    const void *data; /* for read */
    unsigned only;    /* bits: the key is known where none of them is hidden */
};

typedef struct qk__keys {
    const qk__key *rows;
    size_t count;
    unsigned hidden; /* rows with one of these bits do not count */
} qk__keys;
#define QK__KEYS(table) ((qk__keys){(table), sizeof(table) / sizeof *(table), 0})

/* Hands each member of an object, and of the sections in it, to its row. The names of the rows
 * begin with the object's own path, so that "models.name" is a name in an item of the list
 * "models". A key that is null counts as not there. Of YAML only. QK_ERR_ARGUMENT with the
 * line: a key that no row has, and what it may have meant, or a key given twice; then whatever
 * values are not good for. */
QK_MUST_CHECK qk_status qk__read_keys(const qk__node *object, qk__keys keys, void *target,
                                      qk_error *err);

/* Reads a file of settings; $NAME and ${NAME} are replaced by what the environment has.
 * Messages name the file. */
QK_MUST_CHECK qk_status qk__read_settings(const char *path, qk__tree **tree, qk_error *err);

#endif
