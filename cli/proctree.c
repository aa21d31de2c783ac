/* SPDX-License-Identifier: MIT */
/*
 * Ending a whole tree of processes: the process group of the command, and the
 * descendants that left it by setsid or a double fork.
 *
 * The caller is a subreaper (PR_SET_CHILD_SUBREAPER): orphaned descendants become its
 * children, so "no child left" means that no descendant is left. Descendants are found
 * in /proc. Called by the warden, and by holdfast if the warden is dead or stopped.
 */
#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GIVE_UP_NS INT64_C(5000000000)

struct process {
    pid_t pid, parent, group;
    bool descendant;
};

struct process_table {
    struct process *list;
    size_t count, room;
};

/* ---- The table of processes ------------------------------------------------------ */

static bool process_read(const char *pid, struct process *ret_process)
{
    char path[64], text[512], *end;
    int fd, parent, group;
    ssize_t got;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    end = strrchr(text, ')'); /* the program name before it may contain anything */
    if (!end || sscanf(end + 1, " %*c %d %d", &parent, &group) != 2)
        return false;
    *ret_process =
        (struct process){ (pid_t)strtol(pid, NULL, 10), parent, group, false };
    return true;
}

static int table_add(struct process_table *table, const struct process *process)
{
    if (table->count == table->room) {
        size_t room = table->room ? table->room * 2 : 256;
        struct process *list = realloc(table->list, room * sizeof *list);

        if (!list)
            return -1;
        table->list = list;
        table->room = room;
    }
    table->list[table->count++] = *process;
    return 0;
}

static bool parent_is_descendant(const struct process_table *table, pid_t parent)
{
    for (size_t i = 0; i < table->count; i++) {
        if (table->list[i].pid == parent)
            return table->list[i].descendant;
    }
    return false;
}

static void table_mark(struct process_table *table)
{
    pid_t self = getpid();
    bool changed = true;

    while (changed) {
        changed = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *process = &table->list[i];

            if (process->descendant)
                continue;
            process->descendant =
                process->parent == self || parent_is_descendant(table, process->parent);
            changed |= process->descendant;
        }
    }
}

/* Sends `signal` to every descendant that is not in `but_group`. */
static void tree_signal(int signal, pid_t but_group)
{
    struct process_table table = { NULL, 0, 0 };
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    struct process process;

    while (dir && (entry = readdir(dir))) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !process_read(entry->d_name, &process))
            continue;
        if (table_add(&table, &process) != 0)
            break;
    }
    table_mark(&table);
    for (size_t i = 0; i < table.count; i++) {
        if (table.list[i].descendant && table.list[i].group != but_group)
            kill(table.list[i].pid, signal);
    }
    free(table.list);
    if (dir)
        closedir(dir);
}

bool tree_is_ancestor(pid_t pid)
{
    struct process process = { .parent = getppid() };
    char text[24];

    while (process.parent > 0 && process.parent != pid) {
        snprintf(text, sizeof text, "%d", (int)process.parent);
        if (!process_read(text, &process))
            return false;
    }
    return process.parent == pid;
}

/* ---- Terminate, reap, kill ------------------------------------------------------- */

void tree_terminate(pid_t group)
{
    kill(-group, SIGTERM);
    tree_signal(SIGTERM, group);
    kill(-group, SIGCONT);
    tree_signal(SIGCONT, group);
}

bool tree_reap(pid_t child, int *ret_status)
{
    int status;
    pid_t pid;

    do {
        pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0 && pid == child)
            *ret_status = status;
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid < 0;
}

bool tree_kill(pid_t group, int *ret_status)
{
    int64_t give_up = now_ns() + GIVE_UP_NS;

    /* Only once: after the leader is reaped, another group may get the number. */
    if (group > 0)
        kill(-group, SIGKILL);
    do {
        tree_signal(SIGKILL, 0);
        for (int i = 0; i < 10; i++) {
            if (tree_reap(group, ret_status))
                return true;
            poll(NULL, 0, 1);
        }
    } while (now_ns() < give_up);
    return false;
}
