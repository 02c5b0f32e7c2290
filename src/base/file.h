/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders: positioned reads, and output that appears whole or not at all. */
#ifndef QK_BASE_FILE_H
#define QK_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/buffer.h"
#include "base/path.h"

/* Opens a file for reading, and does not wait for a pipe. A folder, a device or a pipe is QK_ERR_IO. A pointer of Git
 * LFS is QK_ERR_MALFORMED. */
QK_MUST_CHECK qk_status qk__open_file(const char *path, int *fd, int64_t *size, qk_error *err);

/* Refuses a descriptor of no file in the same way. Messages do not name it. */
QK_MUST_CHECK qk_status qk__check_file(int fd, int64_t *size, qk_error *err);

/* Reads exactly size bytes at offset of an open descriptor; a short file is
 * QK_ERR_MALFORMED. Messages do not name the file: the caller adds it. */
QK_MUST_CHECK qk_status qk__read_at(int fd, void *data, size_t size, int64_t offset,
                                    qk_error *err);

/* Writes size bytes at offset of an open descriptor. Messages do not name the file. */
QK_MUST_CHECK qk_status qk__write_at(int fd, const void *data, size_t size, int64_t offset,
                                     qk_error *err);

/* Whole contents of a small file, refused (QK_ERR_MALFORMED) above limit bytes. A zero
 * byte follows the contents but is not counted in size. */
QK_MUST_CHECK qk_status qk__read_file(const char *path, size_t limit, qk__buffer *contents,
                                      qk_error *err);

/* Maps a whole file for reading; an empty one is QK_ERR_MALFORMED. The map stays when the file is
 * removed or replaced. Messages name the file. unmap takes NULL. */
QK_MUST_CHECK qk_status qk__map_file(const char *path, const uint8_t **bytes, size_t *size,
                                     qk_error *err);
void qk__unmap_file(const uint8_t *bytes, size_t size);

/* Creates a folder and its parents; an existing folder is fine. */
QK_MUST_CHECK qk_status qk__make_dirs(const char *path, qk_error *err);

/* Names in a folder, sorted by bytes, without "." and "..". Release with
 * qk__names_free. */
typedef struct qk__names {
    char **items;
    size_t count;
} qk__names;
QK_MUST_CHECK qk_status qk__list_dir(const char *path, qk__names *names, qk_error *err);
/* The same for an open folder; path is for messages. */
QK_MUST_CHECK qk_status qk__list_open(int fd, const char *path, qk__names *names,
                                      qk_error *err);
void qk__names_free(qk__names *names);

bool qk__is_dir(const char *path);
bool qk__is_file(const char *path);
/* Takes no memory, so that "no" never means that there was none. */
bool qk__is_file_in(const char *folder, const char *name);
/* Whether anything is there: for a file that may be missing, but is refused when it is no file. */
bool qk__is_there(const char *path);

/* A file being written beside its place. write appends; commit flushes, syncs and
 * renames it to its place; discard removes it. Both free it and set *file to NULL, and
 * discard takes NULL. */
#define QK__TEMPORARY                                                                          \
    ".tmp-qkscope-" /* the process and a number follow: no other program's name */
typedef struct qk__outfile qk__outfile;
QK_MUST_CHECK qk_status qk__outfile_open(qk__outfile **file, const char *path, qk_error *err);
QK_MUST_CHECK qk_status qk__outfile_open_in(qk__outfile **file, const char *folder,
                                            const char *name, qk_error *err);
QK_MUST_CHECK qk_status qk__outfile_write(qk__outfile *file, const void *data, size_t size,
                                          qk_error *err);
int64_t qk__outfile_size(const qk__outfile *file);
/* The path of its bytes until commit. */
const char *qk__outfile_temporary(const qk__outfile *file);
/* Writes and syncs everything under the temporary name; commit then only renames, so that several files can take their
 * places together. */
QK_MUST_CHECK qk_status qk__outfile_finish(qk__outfile *file, qk_error *err);
QK_MUST_CHECK qk_status qk__outfile_commit(qk__outfile **file, qk_error *err);
void qk__outfile_discard(qk__outfile **file);

/* open, write, commit. */
QK_MUST_CHECK qk_status qk__write_file(const char *path, const void *data, size_t size,
                                       qk_error *err);
QK_MUST_CHECK qk_status qk__write_file_in(const char *folder, const char *name,
                                          const void *data, size_t size, qk_error *err);

#endif
