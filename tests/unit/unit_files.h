/* SPDX-License-Identifier: MIT */
/* For tests with files: how many descriptors this process has open, so that none is
 * left, and the end of a scratch directory. */
#ifndef HF_TESTS_UNIT_FILES_H
#define HF_TESTS_UNIT_FILES_H

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static inline unsigned fds_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static inline void tree_remove(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(fd, entry->d_name, 0) != 0)
            tree_remove(fd, entry->d_name);
    closedir(dir);
    ck_assert_int_eq(unlinkat(at, name, AT_REMOVEDIR), 0);
}

#endif
