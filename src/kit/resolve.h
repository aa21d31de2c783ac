/* SPDX-License-Identifier: MIT */
/* From a host to its addresses. A literal address is known at once; a name is looked up
 * on a thread of its own, because getaddrinfo(3) may block for any time. */
#ifndef HF_KIT_RESOLVE_H
#define HF_KIT_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { HF_ADDRESS_MAX = 8 };

struct hf_address {
    struct sockaddr_storage name;
    socklen_t len;
};

struct hf_addresses {
    size_t count;
    struct hf_address list[HF_ADDRESS_MAX];
};

struct hf_resolve;

/* False if `host` is no literal address. */
bool hf__resolve_literal(const char *host, uint16_t port, struct hf_addresses *ret);

/* False if the path is too long for a socket. */
bool hf__resolve_path(const char *path, struct hf_addresses *ret);

/* Starts a lookup. 0 or -errno. */
int hf__resolve_start(const char *host, uint16_t port, struct hf_resolve **ret_resolve);

/* A descriptor that is readable once the answer has arrived. */
int hf__resolve_fd(const struct hf_resolve *resolve);

/* True if the answer has arrived: 0 and the addresses, or an error of getaddrinfo. */
bool hf__resolve_take(struct hf_resolve *resolve, struct hf_addresses *ret,
                      int *ret_error);

/* Drops the lookup, at any time; the thread cleans up after itself. `forked`: the
 * thread does not exist in this process. NULL is fine. The descriptor must not be
 * watched any more. */
void hf__resolve_drop(struct hf_resolve *resolve, bool forked);

#endif
