/* SPDX-License-Identifier: MIT */
/*
 * The token counter of a flock directory. Used by flock.c under the client's lock, and
 * by any number of processes at once: one mapped page with one atomic number in it.
 *
 * A number is max(last + 1, wall clock in microseconds). The counter alone would do as
 * long as the file exists; the clock replaces a counter that was deleted, lost with a
 * tmpfs, or that another user's process may not open. Such a process counts for itself
 * by the same rule, and its tokens are ordered against those of other processes by the
 * clock only.
 *
 * The file is made empty, grown with posix_fallocate (so that a full disk is an error
 * now and not a fault later) and marked last, by a compare-exchange; several processes
 * may do each step at once.
 */
#include "tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../base/error.h"
#include "dir.h"

#define TOKENS_SIZE 4096
#define LOCK_TRIES 1000                           /* 1 ms apart */
#define TOKENS_MAGIC UINT64_C(0x314e4b4f5446480a) /* "\nHFTOKN1" */

struct page {
    _Atomic uint64_t magic;
    _Atomic uint64_t last;
};

static _Atomic uint64_t process_last;

/* Over RLIMIT_FSIZE the kernel would send a signal, hence the check beforehand. */
static int file_grow(int fd, hf_error *why)
{
    struct rlimit limit;
    bool barred = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < TOKENS_SIZE;
    int sys = barred ? EFBIG : posix_fallocate(fd, 0, TOKENS_SIZE);

    return sys == 0 ? 0
                    : hf__fail_sys(why, barred ? HF_EFULL : hf__file_dir_code(sys), sys,
                                   "'" HF_TOKENS_FILE "' cannot be made");
}

static int page_stamp(struct page *page, hf_error *why)
{
    uint64_t magic = 0;

    if (atomic_compare_exchange_strong(&page->magic, &magic, TOKENS_MAGIC))
        magic = TOKENS_MAGIC;
    if (magic != TOKENS_MAGIC || atomic_load(&page->last) >= HF_TOKENS_END)
        return hf__fail(why, HF_ECORRUPT,
                        "'" HF_TOKENS_FILE "' is damaged or of another version: remove "
                        "it while no process uses the directory");
    return 0;
}

static int page_map(struct hf_tokens *tokens, int fd, hf_error *why)
{
    void *memory = mmap(NULL, TOKENS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return hf__fail_sys(why, hf__file_dir_code(errno), errno,
                            "'" HF_TOKENS_FILE "' cannot be mapped");
    tokens->page = memory;
    tokens->last = &((struct page *)memory)->last;
    return page_stamp(memory, why);
}

/* In a directory where all users may write, a file of another user proves nothing. */
static bool owner_trusted(int dir_fd, const struct stat *st)
{
    struct stat dir;

    return st->st_uid == geteuid() || st->st_uid == 0 ||
           (fstat(dir_fd, &dir) == 0 && !(dir.st_mode & S_IWOTH));
}

static bool file_is_there(int dir_fd, const struct stat *opened)
{
    struct stat now;

    return fstatat(dir_fd, HF_TOKENS_FILE, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           now.st_dev == opened->st_dev && now.st_ino == opened->st_ino;
}

/* With a shared lock, so that no other process removes it meanwhile. A process that
 * removes it (hf__file_tokens_remove_unused) has an exclusive lock for a moment; then
 * this one opens a new file. */
static int file_open(int dir_fd, mode_t mode, int *ret_fd, struct stat *ret_stat,
                     hf_error *why)
{
    for (int i = 0;; i++) {
        int rc = hf__file_dir_open_file(dir_fd, HF_TOKENS_FILE, O_RDWR, mode, ret_fd,
                                        ret_stat, why);
        if (rc != 0)
            return rc;
        bool locked = flock(*ret_fd, LOCK_SH | LOCK_NB) == 0;
        if ((locked && file_is_there(dir_fd, ret_stat)) || i >= LOCK_TRIES)
            return 0;
        close(*ret_fd);
        poll(NULL, 0, 1);
    }
}

int hf__file_tokens_open(struct hf_tokens *tokens, int dir_fd, mode_t mode,
                         hf_error *why)
{
    hf_error open_why = { 0 };
    struct stat st;
    int fd = -1;
    int rc;

    tokens->last = &process_last;
    tokens->fd = -1;
    rc = file_open(dir_fd, mode, &fd, &st, &open_why);
    if (rc != 0) {
        bool barred =
            open_why.sys == EACCES || open_why.sys == EPERM || open_why.sys == EROFS;
        if (!barred && why)
            *why = open_why;
        return barred ? 0 : rc;
    }
    if (!owner_trusted(dir_fd, &st))
        goto out;
    if (st.st_size == 0)
        rc = file_grow(fd, why);
    else if (st.st_size < TOKENS_SIZE)
        rc = hf__fail(why, HF_ECORRUPT,
                      "'" HF_TOKENS_FILE
                      "' was cut short: remove it while no process uses "
                      "the directory");
    if (rc == 0)
        rc = page_map(tokens, fd, why);
out:
    if (tokens->page)
        tokens->fd = fd;
    else
        close(fd);
    return rc;
}

void hf__file_tokens_remove_unused(struct hf_tokens *tokens, int dir_fd)
{
    struct stat st;

    if (tokens->page && flock(tokens->fd, LOCK_EX | LOCK_NB) == 0 &&
        atomic_load(tokens->last) == 0 && fstat(tokens->fd, &st) == 0 &&
        file_is_there(dir_fd, &st))
        unlinkat(dir_fd, HF_TOKENS_FILE, 0);
}

void hf__file_tokens_done(struct hf_tokens *tokens)
{
    if (tokens->page) {
        munmap(tokens->page, TOKENS_SIZE);
        close(tokens->fd);
    }
    tokens->page = NULL;
    tokens->last = NULL;
}
