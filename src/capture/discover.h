/* SPDX-License-Identifier: Apache-2.0 */
/* What the search for heads shares: find_heads.c leads and calls packed_folder.c for folders that hold
 * several heads; both put what they find into search.c's list. */
#ifndef QK_CAPTURE_DISCOVER_H
#define QK_CAPTURE_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/file.h"
#include "capture/capture.h"

typedef struct qk__folder_id {
    dev_t device;
    ino_t inode;
} qk__folder_id;

/* A packed folder that was found. */
typedef struct qk__packed_folder {
    qk_head_id id;    /* layer and kind */
    qk_error failure; /* why it cannot be read; status QK_OK: it can */
    bool told;        /* heads that capture.json lists have this failure */
} qk__packed_folder;

/* State of a search. Heads are kept of the first folder that has some; of further folders only the path, for the
 * message. */
typedef struct qk__search {
    qk_capture *capture;
    size_t capacity;     /* of capture->entries */
    bool first_only;     /* the user chose the start folder: its own heads are meant */
    bool single;         /* the root is a head folder */
    qk__names prefixes;  /* folders that hold heads, relative to the root */
    qk__folder_id *seen; /* folders that were walked: links may lead back or meet */
    size_t num_seen;
    qk__packed_folder *packed;
    size_t num_packed, packed_capacity;
    qk_error unreadable; /* of the first folder that could not be listed */
} qk__search;

/* Paths of the Parquet files in a folder of heads, in name order. A link to a missing file counts, and so does a
 * folder of such a name: a half-downloaded head must fail, not shrink. Nor may one of several parts be missing, or
 * files lie in further folders (depth 1 and more). */
QK_MUST_CHECK qk_status qk__search_files(const char *dir, int depth, qk__names *files,
                                         qk_error *err);

/* Adds a head; its files and parts (NULL: the files are its own) belong to the capture from here on, or are released. */
QK_MUST_CHECK qk_status qk__search_add(qk__search *s, qk_head_id id, qk__names *files,
                                       qk_head_part *parts, qk_error *err);

/* Adds a head whose folder cannot be listed; `failure` says why, and reading the head reports it. */
QK_MUST_CHECK qk_status qk__search_add_failed(qk__search *s, qk_head_id id, const char *folder,
                                              const qk_error *failure, qk_error *err);

/* Notes that the entry's head cannot be read. */
QK_MUST_CHECK qk_status qk__entry_fail(qk__capture_entry *entry, const qk_error *failure,
                                       qk_error *err);

/* Notes a packed folder of id's layer and kind, and whether it can be read. */
QK_MUST_CHECK qk_status qk__search_note_packed(qk__search *s, qk_head_id id,
                                               const qk_error *failure, qk_error *err);

/* Adds the heads of a packed folder of id's layer and kind, and releases the files. Notes what cannot be read. */
QK_MUST_CHECK qk_status qk__search_add_packed(qk__search *s, qk_head_id id, qk__names *files,
                                              qk_error *err);

/* Adds a head that capture.json lists and that was not found: its packed folder cannot be read, has no rows of it, or
 * is missing while others are there. Else *added is false. */
QK_MUST_CHECK qk_status qk__search_add_unfound(qk__search *s, const qk__listed_head *listed,
                                               bool *added, qk_error *err);

/* Fails for a packed folder that cannot be read and whose heads are unknown. */
QK_MUST_CHECK qk_status qk__search_check_packed(const qk__search *s, qk_error *err);

#endif
