/* SPDX-License-Identifier: MIT */
/*
 * Descriptors of lock files: opening, caching, and closing them in forked children.
 *
 * A lock of flock(2) belongs to the open file description, and lives as long as any
 * process has a descriptor of it. O_CLOEXEC keeps it from programs that are started,
 * but a child that was only forked would keep the lock of a dead parent. So one list
 * has all open lock files of the process, and a fork handler closes them in the child,
 * which does not unlock them in the parent. A file is opened and added to the list
 * under the list's mutex, so that no fork can fall in between.
 *
 * Everything else belongs to one session and is under the client's lock. A file has a
 * ticket, or it is idle: unlocked, and in a bucket by name. The number of idle files is
 * limited; one that was not used for a while is closed in favour of a new one.
 */
#include "lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../kit/names.h"
#include "dir.h"

/* ---- fork() ---------------------------------------------------------------------- */

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hf_list_node open_files = { &open_files, &open_files };

static void fork_prepare(void)
{
    pthread_mutex_lock(&open_mutex);
}

static void fork_parent(void)
{
    pthread_mutex_unlock(&open_mutex);
}

static void fork_child(void)
{
    for (HF_EACH_SAFE(link, &open_files)) {
        struct lockfile *file = HF_CONTAINER(link, struct lockfile, open);

        close(file->fd);
        file->fd = -1;
        hf__list_remove(link);
    }
    pthread_mutex_unlock(&open_mutex);
}

static void fork_handle(void)
{
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static void file_close(struct lockfile *file)
{
    pthread_mutex_lock(&open_mutex);
    hf__list_remove(&file->open);
    pthread_mutex_unlock(&open_mutex);
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* ---- Opening --------------------------------------------------------------------- */

/* Where writing is not permitted, a descriptor for reading locks just as well. */
static int path_open(struct lockfiles *files, const char *file, int *ret_fd,
                     struct stat *st, hf_error *why)
{
    hf_error first = { 0 };
    int rc = hf__file_dir_open_file(files->dir_fd, file, O_RDWR, files->mode, ret_fd,
                                    st, &first);

    if (rc == HF_EREFUSED && (first.sys == EACCES || first.sys == EROFS))
        rc = hf__file_dir_open_file(files->dir_fd, file, O_RDONLY, files->mode, ret_fd,
                                    st, &first);
    if (rc != 0 && why)
        *why = first;
    return rc;
}

static int file_open(struct lockfiles *files, struct lockfile *file, hf_error *why)
{
    struct stat st;
    int rc;

    pthread_once(&fork_once, fork_handle);
    pthread_mutex_lock(&open_mutex);
    rc = path_open(files, file->file, &file->fd, &st, why);
    if (rc == 0)
        hf__list_push_back(&open_files, &file->open);
    pthread_mutex_unlock(&open_mutex);
    if (rc == 0) {
        file->dev = st.st_dev;
        file->ino = st.st_ino;
        file->locked_us = 0;
        file->seen_us = 0;
    }
    return rc;
}

/* Whether this is a directory of the queue layout and the name that of one of its
 * files: a lock must not use that file. */
static bool name_taken(int dir_fd, const char *file)
{
    struct stat st;
    bool like = strcmp(file, "state") == 0 || strcmp(file, "live") == 0 ||
                strncmp(file, "cell.", 5) == 0 || strncmp(file, "tmp.", 4) == 0 ||
                (file[0] == 'w' && file[1] >= '0' && file[1] <= '9');

    return like && fstatat(dir_fd, "live", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(dir_fd, "state", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
}

static int file_new(struct lockfiles *files, struct hf_ticket *ticket,
                    struct lockfile **ret_file, hf_error *why)
{
    char text[HF_FILE_NAME_SIZE];
    struct lockfile *file;
    size_t len;

    if (!hf__name_to_file(ticket->name, ticket->name_len, text, sizeof text))
        return hf__fail_code(why, HF_ENAME);
    if (name_taken(files->dir_fd, text))
        return hf__fail(why, HF_EREFUSED,
                        "'%.100s' is a file of the queue layout in this directory: "
                        "give layout=flock a directory of its own",
                        text);
    len = strlen(text);
    file = hf__alloc(sizeof *file + ticket->name_len + len + 1);
    if (!file)
        return hf__fail_code(why, HF_ENOMEM);
    memcpy(file->name, ticket->name, ticket->name_len);
    memcpy(file->name + ticket->name_len, text, len + 1);
    file->file = file->name + ticket->name_len;
    file->name_len = ticket->name_len;
    file->name_hash = ticket->name_hash;
    file->fd = -1;
    *ret_file = file;
    return 0;
}

int hf__file_lockfile_reopen(struct lockfiles *files, struct lockfile *file,
                             hf_error *why)
{
    file_close(file);
    return file_open(files, file, why);
}

bool hf__file_lockfile_look(struct lockfiles *files, struct lockfile *file,
                            int64_t now_us)
{
    struct stat st;

    if (fstatat(files->dir_fd, file->file, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno != ENOENT;
    if (st.st_ino != file->ino || st.st_dev != file->dev)
        return false;
    file->seen_us = now_us;
    file->tick = hf__now_coarse();
    return true;
}

/* ---- The cache ------------------------------------------------------------------- */

static struct lockfile **bucket_of(struct lockfiles *files, uint32_t hash)
{
    return &files->buckets[hash % HF_LOCKFILE_BUCKETS];
}

static struct lockfile *idle_remove(struct lockfiles *files, struct lockfile **at)
{
    struct lockfile *file = *at;

    *at = file->next;
    files->idle_count--;
    return file;
}

static struct lockfile *idle_take(struct lockfiles *files, struct hf_ticket *ticket)
{
    struct lockfile **at = bucket_of(files, ticket->name_hash);

    for (; *at; at = &(*at)->next) {
        struct lockfile *file = *at;

        if (file->name_hash == ticket->name_hash &&
            file->name_len == ticket->name_len &&
            memcmp(file->name, ticket->name, ticket->name_len) == 0)
            return idle_remove(files, at);
    }
    return NULL;
}

/* The first idle file that was not used since the last call. */
static struct lockfile *idle_find_old(struct lockfiles *files)
{
    struct lockfile *fallback = NULL;

    for (HF_EACH(link, &files->all)) {
        struct lockfile *file = HF_CONTAINER(link, struct lockfile, link);

        if (file->ticket)
            continue;
        if (!file->used)
            return file;
        file->used = false;
        if (!fallback)
            fallback = file;
    }
    return fallback;
}

static bool idle_close_one(struct lockfiles *files)
{
    struct lockfile *file = idle_find_old(files);
    struct lockfile **at;

    if (!file)
        return false;
    for (at = bucket_of(files, file->name_hash); *at != file; at = &(*at)->next)
        continue;
    hf__file_lockfile_free(idle_remove(files, at));
    return true;
}

/* When descriptors run out, idle files are closed first. */
static int file_make(struct lockfiles *files, struct hf_ticket *ticket,
                     struct lockfile **ret_file, hf_error *why)
{
    struct lockfile *file = NULL;
    hf_error first = { 0 };
    int rc = file_new(files, ticket, &file, why);

    if (!file)
        return rc;
    do {
        rc = file_open(files, file, &first);
    } while (rc != 0 && (first.sys == EMFILE || first.sys == ENFILE) &&
             idle_close_one(files));
    if (rc != 0) {
        hf__free(file);
        if (why)
            *why = first;
        return rc;
    }
    hf__list_push_back(&files->all, &file->link);
    *ret_file = file;
    return 0;
}

int hf__file_lockfile_take(struct lockfiles *files, struct hf_ticket *ticket,
                           struct lockfile **ret_file, hf_error *why)
{
    struct lockfile *file = idle_take(files, ticket);
    int rc = file ? 0 : file_make(files, ticket, &file, why);

    if (!file)
        return rc;
    file->ticket = ticket;
    file->used = true;
    *ret_file = file;
    return 0;
}

void hf__file_lockfile_put(struct lockfiles *files, struct lockfile *file)
{
    struct lockfile **bucket = bucket_of(files, file->name_hash);

    if (files->idle_count >= HF_LOCKFILE_IDLE_MAX)
        idle_close_one(files);
    file->ticket = NULL;
    file->next = *bucket;
    *bucket = file;
    files->idle_count++;
}

void hf__file_lockfile_free(struct lockfile *file)
{
    hf__list_remove(&file->link);
    file_close(file);
    hf__free(file);
}

void hf__file_lockfiles_init(struct lockfiles *files)
{
    hf__list_init(&files->all);
    files->dir_fd = -1;
}

void hf__file_lockfiles_done(struct lockfiles *files)
{
    for (HF_EACH_SAFE(link, &files->all))
        hf__file_lockfile_free(HF_CONTAINER(link, struct lockfile, link));
    if (files->dir_fd >= 0)
        close(files->dir_fd);
    memset(files->buckets, 0, sizeof files->buckets);
    hf__file_lockfiles_init(files);
}
