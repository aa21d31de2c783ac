/* SPDX-License-Identifier: MIT */
/* Passwords that are not in the URL: the options password_file=PATH (first line of the
 * file; refused if other users can read it) and password_env=NAME. */
#ifndef HF_KIT_SECRET_H
#define HF_KIT_SECRET_H

#include "../../include/holdfast/backend.h"

enum { HF_SECRET_MAX = 1024 };

/* The password of `url`, from the place that the URL names, into `buffer` ("": there is
 * none). HF_EURL: two places at once, no such file or variable, too long. */
int hf__secret_find(const struct hf_url *url, char buffer[HF_SECRET_MAX],
                    hf_error *why);
void hf__secret_wipe(char *buffer, size_t size);

#endif
