/* SPDX-License-Identifier: MIT */
/*
 * Diagnose: what is known to break or slow down locks in a directory.
 *
 * Both layouts call it (HF_DIAGNOSE), without the guard and under the client's lock.
 * Facts are gathered first, through descriptors that are open anyway; a function of its
 * own then judges each fact and reports it with a remedy. What open() refuses (a
 * network file system, a directory that all users may write) is judged again: it may
 * have changed since.
 *
 * A trap may cost a lock. A remark will not, but is worth knowing.
 */
#include "diagnose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../../base/error.h"
#include "dir.h"
#include "home.h"
#include "queue.h"
#include "tokens.h"

#define MIB (UINT64_C(1) << 20)
#define SPACE_LOW (32 * MIB)
#define INODES_LOW 100
#define FULL_PERCENT 75
#define PART 512 /* blocks read per lock of the guard */

#define FS_TMPFS 0x01021994
#define FS_RAMFS 0x858458f6
#define FS_OVERLAY 0x794c7630

struct judge {
    const struct dir_facts *facts;
    hf__file_facts_tell *tell;
    void *arg;
    char what[FACTS_PATH + 256];
    char fix[FACTS_PATH + 256];
};

__attribute__((format(printf, 2, 3))) static void judge_what(struct judge *j,
                                                             const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(j->what, sizeof(j->what), format, list);
    va_end(list);
    j->fix[0] = '\0';
}

__attribute__((format(printf, 2, 3))) static void judge_fix(struct judge *j,
                                                            const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(j->fix, sizeof(j->fix), format, list);
    va_end(list);
}

static void judge_tell(const struct judge *j, enum hf_level level, const char *topic)
{
    hf_finding finding = { sizeof(finding), (int32_t)level, topic, j->what, j->fix };

    j->tell(j->arg, &finding);
}

static const char *dir_of(const struct judge *j)
{
    return j->facts->path[0] ? j->facts->path : "DIRECTORY";
}

static const char *file_of(const struct dir_facts *facts)
{
    return facts->flock ? HF_TOKENS_FILE : HF_HOME "/" HF_HOME_STATE;
}

/* ---- The file system ------------------------------------------------------------- */

static const char *fs_name(uint32_t type)
{
    static const struct {
        uint32_t type;
        const char *name;
    } known[] = {
        { 0x0000ef53, "ext4" },    { 0x58465342, "XFS" },  { 0x9123683e, "Btrfs" },
        { 0x2fc12fc1, "ZFS" },     { 0xf2f52010, "F2FS" }, { 0xca451a4e, "bcachefs" },
        { FS_OVERLAY, "overlay" },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].type == type)
            return known[i].name;
    return NULL;
}

static void judge_fs_good(struct judge *j)
{
    const char *name = fs_name(j->facts->fs_type);

    if (name)
        judge_what(j, "%s, a file system of this host", name);
    else
        judge_what(j, "a file system of this host (type 0x%x)", j->facts->fs_type);
    judge_tell(j, HF_GOOD, "file system");
}

static void judge_fs(struct judge *j)
{
    uint32_t type = j->facts->fs_type;
    const char *network = hf__file_dir_network_fs((long)type);

    if (network) {
        judge_what(j,
                   "%s is a network file system: other hosts do not see these locks, "
                   "or see them too late",
                   network);
        judge_fix(j, "name a directory on a local disk in the URL (file:/dir)");
        judge_tell(j, HF_TRAP, "file system");
    } else if (type == FS_TMPFS || type == FS_RAMFS) {
        judge_what(
            j,
            "%s is memory: a reboot forgets cells%s and the token counter, which "
            "then starts at the clock",
            type == FS_TMPFS ? "tmpfs" : "ramfs",
            j->facts->cells ? " (there are some)" : "");
        judge_fix(j, "name a directory on a disk (file:/var/lib/NAME), unless the "
                     "clock is never set back and no cells are used");
        judge_tell(j, j->facts->cells ? HF_TRAP : HF_REMARK, "file system");
    } else if (type == FS_OVERLAY) {
        judge_what(j, "overlay is the layer of one container: other containers do not "
                      "see these locks, and they are deleted with it");
        judge_fix(j, "mount a volume of the host and name a directory in it");
        judge_tell(j, HF_REMARK, "file system");
    } else {
        judge_fs_good(j);
    }
}

static void judge_space(struct judge *j)
{
    const struct dir_facts *facts = j->facts;

    if (facts->free_inodes < INODES_LOW) {
        judge_what(j, "the file system has room for %llu more files; then %s refused",
                   (unsigned long long)facts->free_inodes,
                   facts->flock ? "locks with new names are"
                                : "clients that wait, and new cells, are");
        judge_fix(j, "delete files on the file system of '%s'", dir_of(j));
        judge_tell(j, HF_REMARK, "space");
        return;
    }
    judge_what(j, "%llu MiB free", (unsigned long long)(facts->free_bytes / MIB));
    if (facts->free_bytes < SPACE_LOW) {
        judge_what(j, "only %llu KiB free: when it is full, %s",
                   (unsigned long long)(facts->free_bytes / 1024),
                   facts->flock ? "locks with new names are refused"
                                : "new names, waiters and cells are refused");
        judge_fix(j, "make room on the file system of '%s'", dir_of(j));
        judge_tell(j, HF_REMARK, "space");
        return;
    }
    judge_tell(j, HF_GOOD, "space");
}

/* ---- Permissions ----------------------------------------------------------------- */

static void judge_owner(struct judge *j)
{
    const struct dir_facts *facts = j->facts;

    if (facts->dir_owner == facts->user || facts->dir_owner == 0)
        return;
    judge_what(j, "user %lu owns the directory and can delete every lock in it",
               (unsigned long)facts->dir_owner);
    judge_fix(j, "chown %lu '%s'", (unsigned long)facts->user, dir_of(j));
    judge_tell(j, HF_TRAP, "permissions");
}

/* True if there was a finding. */
static bool judge_dir_mode(struct judge *j)
{
    unsigned mode = j->facts->dir_mode & 07777;

    if ((mode & S_IWOTH) && !(mode & S_ISVTX)) {
        judge_what(j,
                   "all users may delete files in the directory (mode %04o), and so "
                   "break every lock",
                   mode);
        judge_fix(j, "chmod +t '%s', or name a directory of your own in the URL",
                  dir_of(j));
        judge_tell(j, HF_TRAP, "permissions");
        return true;
    }
    if ((mode & S_IWOTH) && j->facts->flock) {
        judge_what(j,
                   "all users may make files in the directory (mode %04o), and so keep "
                   "others from using a name",
                   mode);
        judge_fix(j, "name a directory of your own in the URL, unless the locks are "
                     "for all users");
        judge_tell(j, HF_REMARK, "permissions");
        return true;
    }
    if ((mode & S_IWGRP) && !(mode & S_ISVTX)) {
        judge_what(j,
                   "the group may delete files in the directory (mode %04o), and so "
                   "break every lock",
                   mode);
        judge_fix(j, "chmod g-w '%s', or chmod +t '%s' if the group shares the locks",
                  dir_of(j), dir_of(j));
        judge_tell(j, HF_REMARK, "permissions");
        return true;
    }
    return false;
}

/* flock(2) needs no write permission, so with layout=flock the mode of the files
 * matters little. */
static bool judge_file_mode(struct judge *j)
{
    unsigned mode = j->facts->file_mode & 07777;
    const char *file = file_of(j->facts);

    if (!(mode & S_IWOTH))
        return false;
    judge_what(j, "all users may write the file '%s' (mode %04o), and so forge %s",
               file, mode, j->facts->flock ? "tokens" : "every lock and token");
    judge_fix(j, "chmod o-w '%s/%s', and take mode= out of the URL", dir_of(j), file);
    judge_tell(j, HF_TRAP, "permissions");
    return true;
}

static void judge_permissions(struct judge *j)
{
    bool said = judge_dir_mode(j);

    said |= judge_file_mode(j);
    judge_owner(j);
    if (said)
        return;
    judge_what(j, "mode %04o: no other user may delete files of the %s",
               (unsigned)j->facts->dir_mode & 07777,
               j->facts->dir_mode & S_IWOTH ? "store" : "directory");
    judge_tell(j, HF_GOOD, "permissions");
}

/* ---- Files and reboots ----------------------------------------------------------- */

static void judge_file(struct judge *j)
{
    if (j->facts->file_replaced) {
        judge_what(j, "the file '" HF_HOME "/" HF_HOME_STATE
                      "' was deleted or replaced while it is in use: "
                      "clients that open the directory now do not see the locks of "
                      "those before");
        judge_fix(j, "end all programs that use '%s', then start them again",
                  dir_of(j));
        judge_tell(j, HF_TRAP, "state");
    }
    if (j->facts->tokens_private) {
        judge_what(j,
                   "'%s' cannot be written: tokens come from the clock alone, and grow "
                   "only while it does",
                   HF_TOKENS_FILE);
        judge_fix(j, "make it writable for user %lu: chown or chmod '%s/%s'",
                  (unsigned long)j->facts->user, dir_of(j), HF_TOKENS_FILE);
        judge_tell(j, HF_REMARK, "tokens");
    }
}

/* What needs no process is lost by a reboot all the same: detached holds, which should
 * last until their lease ends, and latches, which should last until they are counted
 * down. */
static void judge_reboot(struct judge *j)
{
    uint32_t detached = j->facts->detached, latches = j->facts->latches;

    if (detached) {
        judge_what(
            j,
            "%u hold%s made to outlive %s process, but no hold outlives a reboot "
            "of this host: other clients get the lock before the lease is over",
            detached, detached == 1 ? " was" : "s were",
            detached == 1 ? "its" : "their");
        judge_fix(j, "use 'holdfast run', whose hold ends with its process; or keep "
                     "such locks in a store that is not this host's (redis:, "
                     "zookeeper:)");
        judge_tell(j, HF_TRAP, "reboot");
    }
    if (latches) {
        judge_what(j,
                   "%u latch%s counting: after a reboot of this host %s open for all",
                   latches, latches == 1 ? " is" : "es are",
                   latches == 1 ? "it is" : "they are");
        judge_fix(j, "set latches anew after a reboot, or keep them in a store that is "
                     "not this host's (redis:, zookeeper:)");
        judge_tell(j, HF_TRAP, "reboot");
    }
}

/* Such cleaners lock a directory before they look into it; clients lock the directory
 * of the queue layout and the user's default one. */
static void judge_cleaners(struct judge *j)
{
    const char *path = j->facts->path;

    if (j->facts->shielded ||
        (strncmp(path, "/tmp/", 5) != 0 && strncmp(path, "/var/tmp/", 9) != 0))
        return;
    judge_what(j, "the directory is among temporary files: cleaners (systemd-tmpfiles) "
                  "delete lock files that were not opened for days, even locked ones");
    judge_fix(j,
              "name a directory elsewhere, or exempt it: echo 'x %s' > "
              "/etc/tmpfiles.d/holdfast.conf",
              dir_of(j));
    judge_tell(j, HF_REMARK, "cleaners");
}

/* ---- Clients and room ------------------------------------------------------------ */

static bool nearly_full(uint32_t used, uint32_t room)
{
    return (uint64_t)used * 100 >= (uint64_t)room * FULL_PERCENT;
}

static void judge_room(struct judge *j)
{
    const struct dir_facts *facts = j->facts;
    bool full = nearly_full(facts->sessions, facts->session_room);

    if (facts->session_room == 0)
        return;
    judge_what(j, "%u of %u clients%s", facts->sessions, facts->session_room,
               full ? ": further ones are refused when all are taken" : "");
    if (full)
        judge_fix(j, "close clients that are not used, or spread the work over several "
                     "directories");
    judge_tell(j, full ? HF_REMARK : HF_GOOD, "clients");

    full = nearly_full(facts->blocks, facts->block_room);
    judge_what(j, "%u of %u entries for names, holders and waiters%s", facts->blocks,
               facts->block_room, full ? ": new ones are refused when it is full" : "");
    if (full)
        judge_fix(j, "use fewer names at a time, or spread them over several "
                     "directories");
    judge_tell(j, full ? HF_REMARK : HF_GOOD, "table");
}

static void judge_namespaces(struct judge *j)
{
    uint32_t count = j->facts->in_other_namespace;

    if (count == 0)
        return;
    judge_what(j,
               "%u client%s in another pid namespace (a container) cannot be watched: "
               "a death there is detected within 100 ms, by polling",
               count, count == 1 ? "" : "s");
    judge_fix(j, "run all in one pid namespace (--pid=host), if that is too slow");
    judge_tell(j, HF_REMARK, "pid namespaces");
}

void hf__file_facts_judge(const struct dir_facts *facts, hf__file_facts_tell *tell,
                          void *arg)
{
    struct judge j = { .facts = facts, .tell = tell, .arg = arg };

    judge_fs(&j);
    judge_space(&j);
    judge_permissions(&j);
    judge_file(&j);
    judge_reboot(&j);
    judge_cleaners(&j);
    judge_room(&j);
    judge_namespaces(&j);
}

/* ---- Gathering ------------------------------------------------------------------- */

static void path_read(struct dir_facts *facts, int dir_fd)
{
    char link[32];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    len = readlink(link, facts->path, sizeof(facts->path) - 1);
    facts->path[len > 0 ? len : 0] = '\0';
}

static void file_look(struct dir_facts *facts, int dir_fd, int file_fd)
{
    struct stat there, ours;
    bool seen = fstatat(dir_fd, file_of(facts), &there, AT_SYMLINK_NOFOLLOW) == 0;

    facts->file_mode = seen ? there.st_mode : 0;
    if (file_fd >= 0 && fstat(file_fd, &ours) == 0)
        facts->file_replaced =
            !seen || there.st_ino != ours.st_ino || there.st_dev != ours.st_dev;
}

int hf__file_facts_gather(struct dir_facts *facts, int dir_fd, int file_fd,
                          hf_error *why)
{
    struct statfs fs;
    struct stat dir;

    path_read(facts, dir_fd);
    if (fstatfs(dir_fd, &fs) != 0 || fstat(dir_fd, &dir) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "the directory cannot be examined");
    facts->fs_type = (uint32_t)fs.f_type;
    facts->free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    facts->free_inodes = fs.f_files ? (uint64_t)fs.f_ffree : UINT64_MAX;
    facts->user = geteuid();
    facts->dir_owner = dir.st_uid;
    facts->dir_mode = dir.st_mode;
    file_look(facts, dir_fd, file_fd);
    return 0;
}

struct listener {
    struct hf_host *host;
    struct hf_request *request;
};

static void listener_tell(void *arg, const hf_finding *finding)
{
    const struct listener *listener = arg;

    listener->host->ops->finding(listener->host, listener->request, finding);
}

int hf__file_facts_report(struct dir_facts *facts, int dir_fd, int file_fd,
                          struct hf_host *host, struct hf_request *request,
                          hf_error *why)
{
    struct listener listener = { host, request };
    int rc = hf__file_facts_gather(facts, dir_fd, file_fd, why);

    if (rc == 0)
        hf__file_facts_judge(facts, listener_tell, &listener);
    return rc;
}

static void sessions_count(const struct file_queue *me, struct dir_facts *facts)
{
    for (uint32_t i = 0; i < SESSION_COUNT; i++) {
        const struct region_session *s = &me->region.sessions[i];
        uint64_t space = __atomic_load_n(&s->space, __ATOMIC_RELAXED);

        if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SESSION_USED)
            continue;
        facts->sessions++;
        facts->in_other_namespace += space && me->space && space != me->space;
    }
    facts->session_room = SESSION_COUNT;
}

static void block_count(const struct region_block *block, struct dir_facts *facts)
{
    const struct block_record *r = &block->record;

    if (block->type == BLOCK_ENTRY)
        facts->detached += block->entry.state == ENTRY_GRANTED &&
                           (block->entry.flags & ENTRY_DETACHED);
    else if (block->type == BLOCK_RECORD)
        facts->latches += r->left && r->family == hf__family(HF_LATCH);
}

/* A part at a time, as inspect does. */
static int blocks_count(struct file_queue *me, struct dir_facts *facts, hf_error *why)
{
    const struct region_head *head = me->region.head;
    uint32_t end = 2;

    for (uint32_t from = 1; from < end; from += PART) {
        int rc = hf__file_guard_lock(me, why);
        if (rc != 0)
            return rc;
        end = head->high_water;
        for (uint32_t i = from; i < end && i < from + PART; i++)
            block_count(block_at(me, i), facts);
        facts->blocks = end - 1 - head->free_count;
        facts->cells = head->cells;
        hf__file_guard_unlock(me);
    }
    return 0;
}

int hf__file_queue_diagnose(struct file_queue *me, struct hf_request *request,
                            hf_error *why)
{
    struct dir_facts facts = { .shielded = true };
    int rc;

    me->diagnosed = true;
    hf__file_sessions_sweep(me);
    rc = blocks_count(me, &facts, why);
    if (rc != 0)
        return rc;
    facts.block_room = BLOCKS_MAX - 1;
    sessions_count(me, &facts);
    return hf__file_facts_report(&facts, me->top_fd, me->region.fd, me->host, request,
                                 why);
}
