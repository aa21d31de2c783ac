/* SPDX-License-Identifier: MIT */
/*
 * Versioned cells: one file each, `cell.<name>`. Called without the guard.
 *
 * A file is replaced as a whole: the new one is written beside it, brought to disk, and
 * renamed over the old one, so a reader sees one or the other and needs no guard. Only
 * the last check of the version and the rename (or removal) are done with the guard
 * held. Versions come from the token counter, and they grow: a new cell gets its
 * version with the guard held, because a cell of that name may have been made and
 * removed since the file was written. The id of the request is stored with the value,
 * and the session remembers removals, so a repeated request takes effect once.
 *
 * Files outlive everything, a reboot included.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../kit/names.h"
#include "cells.h"
#include "dir.h"
#include "home.h"

#define CELL_FILE (sizeof(HF_HOME_CELL) + HF_FILE_NAME_SIZE)

struct cell_head {
    uint64_t magic;
    uint64_t version;
    struct hf_id id; /* of the request that wrote it */
    uint32_t name_len;
    uint32_t data_len;
    uint32_t crc; /* over name and data */
    uint32_t unused;
};

struct cell {
    struct cell_head head; /* version 0: there is no cell */
    char text[HF_NAME_MAX + HF_CELL_MAX];
};

static uint32_t crc32(uint32_t crc, const void *data, size_t len)
{
    const unsigned char *at = data;

    crc = ~crc;
    while (len--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void cell_file(const char *name, size_t len, char file[CELL_FILE])
{
    memcpy(file, HF_HOME_CELL, sizeof(HF_HOME_CELL));
    hf__name_to_file(name, len, file + sizeof(HF_HOME_CELL) - 1, HF_FILE_NAME_SIZE);
}

bool hf__file_cell_exists(const struct file_queue *me, const char *name, uint32_t len)
{
    char file[CELL_FILE];

    cell_file(name, len, file);
    return faccessat(me->dir_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- Reading --------------------------------------------------------------------- */

static ssize_t read_all(int fd, void *buffer, size_t size)
{
    size_t have = 0;

    while (have < size) {
        ssize_t got = read(fd, (char *)buffer + have, size - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static bool cell_sound(const struct cell *cell, size_t size)
{
    const struct cell_head *head = &cell->head;

    return size >= sizeof(*head) && head->magic == CELL_MAGIC && head->version &&
           head->name_len <= HF_NAME_MAX && head->data_len <= HF_CELL_MAX &&
           size == sizeof(*head) + head->name_len + head->data_len &&
           head->crc == crc32(0, cell->text, head->name_len + head->data_len);
}

/* Reads a cell file; a missing one gives version 0. HF_ECORRUPT, HF_ESYSTEM. */
static int cell_read(struct file_queue *me, const char *file, struct cell *cell,
                     hf_error *why)
{
    int fd = openat(me->dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t size;

    cell->head = (struct cell_head){ 0 };
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return hf__fail_sys(why, hf__file_dir_code(errno), errno, "'%.60s'", file);
    size = read_all(fd, cell, sizeof(*cell));
    close(fd);
    if (size < 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "'%.60s'", file);
    if (!cell_sound(cell, (size_t)size))
        return hf__fail(why, HF_ECORRUPT, "'%.60s' is damaged: remove it", file);
    return 0;
}

/* The same by name; HF_ECORRUPT also if the file is that of another name. */
static int cell_load(struct file_queue *me, const struct hf_request *request,
                     struct cell *cell, hf_error *why)
{
    char file[CELL_FILE];
    int rc;

    cell_file(request->name, request->name_len, file);
    rc = cell_read(me, file, cell, why);
    if (rc != 0 || cell->head.version == 0)
        return rc;
    if (cell->head.name_len != request->name_len ||
        memcmp(cell->text, request->name, request->name_len) != 0)
        return hf__fail(why, HF_ECORRUPT, "'%.60s' belongs to another name", file);
    return 0;
}

int hf__file_queue_cell_get(struct file_queue *me, struct hf_request *request,
                            hf_error *why)
{
    struct cell *cell = hf__alloc(sizeof(*cell));
    int rc;

    if (!cell)
        return hf__fail_code(why, HF_ENOMEM);
    rc = cell_load(me, request, cell, why);
    if (rc == 0 && cell->head.version == 0)
        rc = hf__fail(why, HF_ENOENT, "there is no such cell");
    if (rc == 0) {
        request->result = cell->head.version;
        me->host->ops->cell_data(me->host, request, cell->text + cell->head.name_len,
                                 cell->head.data_len);
    }
    hf__free(cell);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------- */

static int write_all(int fd, const void *data, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        data = (const char *)data + put;
        size -= (size_t)put;
    }
    return 0;
}

static bool size_allowed(size_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= size;
}

static int tmp_write(struct file_queue *me, const char *tmp, const struct cell *cell,
                     hf_error *why)
{
    size_t size = sizeof(cell->head) + cell->head.name_len + cell->head.data_len;
    int sys = EFBIG, fd;

    if (!size_allowed(size))
        return hf__fail_sys(why, HF_EFULL, sys, "the cell cannot be written");
    hf__file_home_drop_tmp(me->dir_fd, tmp); /* of a dead session with that number */
    fd = openat(me->dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                me->mode);
    if (fd >= 0 && fchmod(fd, me->mode) == 0 && write_all(fd, cell, size) == 0 &&
        fdatasync(fd) == 0) {
        close(fd);
        return 0;
    }
    sys = errno;
    if (fd >= 0) {
        close(fd);
        unlinkat(me->dir_fd, tmp, 0);
    }
    return hf__fail_sys(why, hf__file_dir_code(sys), sys, "the cell cannot be written");
}

static void cell_fill(struct file_queue *me, struct cell *cell,
                      const struct hf_request *request)
{
    cell->head = (struct cell_head){
        .magic = CELL_MAGIC,
        .version = hf__file_region_draw(&me->region, 1),
        .id = request->id,
        .name_len = request->name_len,
        .data_len = (uint32_t)request->data_len,
    };
    memcpy(cell->text, request->name, request->name_len);
    memcpy(cell->text + request->name_len, request->data, request->data_len);
    cell->head.crc = crc32(0, cell->text, request->name_len + request->data_len);
}

static bool removed_before(const struct file_queue *me,
                           const struct hf_request *request)
{
    for (uint32_t i = 0; i < RECENT_COUNT; i++)
        if (id_same(&me->removed[i], &request->id))
            return true;
    return false;
}

/* 1: to be done; 0: done before, with request->result; HF_ESTALE. */
static int version_check(struct file_queue *me, struct hf_request *request,
                         struct cell *found, hf_error *why)
{
    int rc = cell_load(me, request, found, why);

    if (rc != 0)
        return rc;
    request->result = found->head.version;
    if (found->head.version && id_same(&found->head.id, &request->id))
        return 0;
    if (!request->data && removed_before(me, request)) {
        request->result = 0;
        return 0;
    }
    if (found->head.version != request->number)
        return hf__fail(why, HF_ESTALE, "the version is %llu, not %llu",
                        (unsigned long long)found->head.version,
                        (unsigned long long)request->number);
    return 1;
}

static int file_replace(struct file_queue *me, struct hf_request *request,
                        const char *tmp)
{
    char file[CELL_FILE];

    cell_file(request->name, request->name_len, file);
    if (request->data)
        return renameat(me->dir_fd, tmp, me->dir_fd, file);
    me->removed[me->removed_next++ % RECENT_COUNT] = request->id;
    return unlinkat(me->dir_fd, file, 0);
}

/* Guard held: gives the written file its final version. cell_store() brings it to disk
 * later; after a crash in between the file has the version that was written before,
 * which no caller knows. */
static int file_stamp(struct file_queue *me, const char *tmp, struct cell_head *head)
{
    int fd = openat(me->dir_fd, tmp, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

    head->version = hf__file_region_draw(&me->region, 1);
    if (fd >= 0 && pwrite(fd, head, sizeof(*head), 0) == (ssize_t)sizeof(*head))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Guard held: makes the change. The record only keeps the name from being used for a
 * lock. *ret_fd: to be brought to disk, or -1. */
static int cell_replace(struct file_queue *me, struct hf_request *request,
                        const char *tmp, struct cell_head *head, struct cell *found,
                        int *ret_fd, hf_error *why)
{
    struct region_block *record;
    int rc;

    me->region.head->cells = 1;
    rc = hf__file_table_get(me, request->name, request->name_len, request->name_hash,
                            HF_CELL, 1, &record, why);
    if (rc == 0)
        rc = version_check(me, request, found, why);
    if (rc != 1)
        return rc;
    if (request->data && request->number == 0)
        *ret_fd = file_stamp(me, tmp, head);
    if ((request->data && request->number == 0 && *ret_fd < 0) ||
        file_replace(me, request, tmp) != 0)
        return hf__fail_sys(why, hf__file_dir_code(errno), errno,
                            "the cell cannot be set");
    guard_step();
    record->record.left = request->data != NULL;
    return 1;
}

static int cell_store(struct file_queue *me, struct hf_request *request,
                      struct cell *cell, hf_error *why)
{
    char tmp[32];
    struct cell_head head = { 0 };
    int fd = -1;
    int rc = version_check(me, request, cell, why); /* saves a write that would fail */

    if (rc != 1)
        return rc;
    hf__file_home_tmp(tmp, me->session);
    if (request->data) {
        cell_fill(me, cell, request);
        head = cell->head;
        rc = tmp_write(me, tmp, cell, why);
        if (rc != 0)
            return rc;
    }
    rc = hf__file_guard_lock(me, why);
    if (rc == 0) {
        rc = cell_replace(me, request, tmp, &head, cell, &fd, why);
        hf__file_guard_unlock(me);
    }
    if (fd >= 0) {
        fdatasync(fd);
        close(fd);
    }
    if (rc == 1) {
        fsync(me->dir_fd);
        request->result = head.version;
        return 0;
    }
    if (request->data)
        unlinkat(me->dir_fd, tmp, 0);
    return rc;
}

int hf__file_queue_cell_set(struct file_queue *me, struct hf_request *request,
                            hf_error *why)
{
    struct cell *cell;
    int rc;

    if (request->data_len > HF_CELL_MAX)
        return hf__fail(why, HF_EINVAL, "a cell holds at most %d bytes", HF_CELL_MAX);
    cell = hf__alloc(sizeof(*cell));
    if (!cell)
        return hf__fail_code(why, HF_ENOMEM);
    rc = cell_store(me, request, cell, why);
    hf__free(cell);
    return rc;
}

/* ---- Listing --------------------------------------------------------------------- */

static void cell_tell(const struct cell *cell, cell_cb *callback, void *arg)
{
    char name[HF_NAME_MAX + 1];

    memcpy(name, cell->text, cell->head.name_len);
    name[cell->head.name_len] = '\0';
    callback(arg, name, cell->head.name_len, cell->head.version);
}

static void cells_list(struct file_queue *me, DIR *dir, struct cell *cell,
                       const struct hf_request *request, cell_cb *callback, void *arg)
{
    struct dirent *entry;
    hf_error why;

    while ((entry = readdir(dir))) {
        if (strncmp(entry->d_name, HF_HOME_CELL, sizeof(HF_HOME_CELL) - 1) != 0 ||
            cell_read(me, entry->d_name, cell, &why) != 0 || !cell->head.version)
            continue;
        if (cell->head.name_len >= request->name_len &&
            memcmp(cell->text, request->name, request->name_len) == 0)
            cell_tell(cell, callback, arg);
    }
}

static int cells_each_prefix(struct file_queue *me, const struct hf_request *request,
                             struct cell *cell, cell_cb *callback, void *arg,
                             hf_error *why)
{
    int fd = openat(me->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int sys = errno;
        if (fd >= 0)
            close(fd);
        return hf__fail_sys(why, HF_ESYSTEM, sys, "the directory cannot be read");
    }
    cells_list(me, dir, cell, request, callback, arg);
    closedir(dir);
    return 0;
}

int hf__file_cells_each(struct file_queue *me, const struct hf_request *request,
                        cell_cb *callback, void *arg, hf_error *why)
{
    struct cell *cell = hf__alloc(sizeof(*cell));
    int rc;

    if (!cell)
        return hf__fail_code(why, HF_ENOMEM);
    if (request->prefix) {
        rc = cells_each_prefix(me, request, cell, callback, arg, why);
    } else {
        rc = cell_load(me, request, cell, why);
        if (rc == 0 && cell->head.version)
            cell_tell(cell, callback, arg);
    }
    hf__free(cell);
    return rc;
}
