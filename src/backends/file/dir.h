/* SPDX-License-Identifier: MIT */
/* The directory of a file: store and the files in it, opened so that no other user can
 * substitute a link, a pipe or another directory. */
#ifndef HF_FILE_DIR_H
#define HF_FILE_DIR_H

#include "../../../include/holdfast/backend.h"

#include <sys/stat.h>
#include <sys/types.h>

#define HF_DIR_MODE_DEFAULT 0600

/*
 * Opens the directory of a store. "" is the default one, which is made if it does not
 * exist; any other must exist. HF_ENOENT, HF_EREFUSED (a symbolic link, not a
 * directory, another owner, too open a mode, a network file system, no permission),
 * HF_EFULL, HF_ESYSTEM.
 */
int hf__file_dir_open(const char *path, int *ret_fd, hf_error *why);

/* The option `mode`: octal permissions of new files, at least read and write for the
 * owner. HF_EURL. */
int hf__file_dir_mode(const struct hf_url *url, mode_t *ret_mode, hf_error *why);

/*
 * Opens a regular file of the directory with O_NOFOLLOW | O_CLOEXEC, or makes it with
 * exactly `mode`, whatever the umask. `flags`: O_RDWR or O_RDONLY. HF_EREFUSED (a
 * symbolic link, a second name, not a regular file, no permission), HF_EFULL,
 * HF_ESYSTEM; why->sys keeps the errno.
 */
int hf__file_dir_open_file(int dir_fd, const char *file, int flags, mode_t mode,
                           int *ret_fd, struct stat *ret_stat, hf_error *why);

/* The code for an errno from the file system. */
int hf__file_dir_code(int sys);

/* The name of the network file system with that statfs type, or NULL if it is none. */
const char *hf__file_dir_network_fs(long type);

#endif
