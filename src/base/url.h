/* SPDX-License-Identifier: MIT */
/* URLs of stores: scheme:[//[user[:password]@]host[:port]][path][?key=value&...]
 *
 * A store of several servers has a list of them, host[:port],host[:port],...: then
 * url.host is the whole list (it holds a comma, which a single host cannot) and
 * url.port is 0.
 *
 * Percent-decoded; a decoded NUL, a fragment, a bad escape, a port out of range, an
 * option without key and an option given twice are errors. Error texts never show the
 * part between "//" and "@". */
#ifndef HF_BASE_URL_H
#define HF_BASE_URL_H

#include "../../include/holdfast/backend.h"

/* Fills `url`, whose strings live in one block at *ret_memory (hf__free it). */
int hf__url_parse(const char *text, struct hf_url *url, void **ret_memory,
                  hf_error *why);

/* The value of an option, or NULL. */
const char *hf__url_option(const struct hf_url *url, const char *key);

/* A whole number between low and high from an option; `fallback` if it is not given. */
int hf__url_number(const struct hf_url *url, const char *key, int64_t low, int64_t high,
                   int64_t fallback, int64_t *ret_number, hf_error *why);

/* The same for a time, in milliseconds: "500ms", "30s", "1m30s", with the units ms, s
 * (sec), m (min), h and d. A number without a unit is refused, because it would be read
 * as seconds. */
int hf__url_time(const struct hf_url *url, const char *key, int64_t low_ms,
                 int64_t high_ms, int64_t fallback_ms, int64_t *ret_ms, hf_error *why);

/* The URL with user and password replaced by "***", for messages. Cut to fit. */
void hf__url_redact(const char *text, char *buffer, size_t size);

#endif
