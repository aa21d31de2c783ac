/* SPDX-License-Identifier: MIT */
/* What the file store asks of a directory before it trusts it: pure parts of dir.c. */
#include "unit.h"

#include "../../src/backends/file/dir.h"

#include <linux/magic.h>
#include <sys/stat.h>

START_TEST(dir_network_fs)
{
    static const long local[] = { 0xEF53,     TMPFS_MAGIC,           BTRFS_SUPER_MAGIC,
                                  0x58465342, OVERLAYFS_SUPER_MAGIC, 0 };
    static const struct {
        long type;
        const char *name;
    } network[] = {
        { NFS_SUPER_MAGIC, "NFS" },         { SMB_SUPER_MAGIC, "SMB" },
        { (long)CIFS_SUPER_MAGIC, "CIFS" }, { (long)SMB2_SUPER_MAGIC, "SMB2" },
        { (int)CIFS_SUPER_MAGIC, "CIFS" },  { V9FS_MAGIC, "9P" },
        { AFS_SUPER_MAGIC, "AFS" },         { AFS_FS_MAGIC, "AFS" },
        { CODA_SUPER_MAGIC, "Coda" },       { CEPH_SUPER_MAGIC, "Ceph" },
        { 0x0BD00BD0, "Lustre" },           { 0x47504653, "GPFS" },
        { FUSE_SUPER_MAGIC, "FUSE" },
    };

    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        ck_assert_ptr_null(hf__dir_network_fs(local[i]));
    for (size_t i = 0; i < sizeof network / sizeof network[0]; i++)
        ck_assert_str_eq(hf__dir_network_fs(network[i].type), network[i].name);
}
END_TEST

START_TEST(dir_mode)
{
    static const char *const wrong[] = { "",      "6",    "600x", "0o600",
                                         "800",   "0400", "0700", "4600",
                                         "00600", "-600", "0666 " };
    struct hf_url_option option = { "mode", NULL };
    struct hf_url parsed = { .option_count = 0, .options = &option };
    mode_t mode = 0;
    hf_error why;

    ck_assert_int_eq(hf__dir_mode(&parsed, &mode, NULL), 0);
    ck_assert_uint_eq(mode, 0600);
    parsed.option_count = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        option.value = wrong[i];
        ck_assert_int_eq(hf__dir_mode(&parsed, &mode, &why), HF_EURL);
    }
    option.value = "666";
    ck_assert_int_eq(hf__dir_mode(&parsed, &mode, NULL), 0);
    ck_assert_uint_eq(mode, 0666);
    option.value = "0640";
    ck_assert_int_eq(hf__dir_mode(&parsed, &mode, NULL), 0);
    ck_assert_uint_eq(mode, 0640);
}
END_TEST

UNIT_MAIN("dir", dir_network_fs, dir_mode)
