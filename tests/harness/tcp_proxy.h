/* SPDX-License-Identifier: MIT */
/* A bad network: a TCP port on the loopback in front of a server's unix socket, or of
 * its port on the loopback (":2181"), which loses, cuts, delays or replaces what the
 * server says. */
#ifndef HARNESS_TCP_PROXY_H
#define HARNESS_TCP_PROXY_H

#include <stddef.h>
#include <stdint.h>

struct tcp_proxy;

enum proxy_mode {
    PROXY_PASS,
    PROXY_SWALLOW, /* connections that are open now hear nothing any more */
    PROXY_CUT,     /* after `number` more bytes of reply the connection ends; once */
    PROXY_REPLACE, /* instead of the next piece of reply comes `text`; once */
    PROXY_DELAY,   /* replies come `number` ms late */
    PROXY_TRICKLE, /* replies come byte by byte, one each millisecond */
    PROXY_HOLE,    /* nothing goes through in either direction, and nothing ends */
    PROXY_REFUSE,  /* open connections end, new ones end at once */
};

struct tcp_proxy *proxy_start(const char *server);
void proxy_stop(struct tcp_proxy *proxy);
int proxy_port(const struct tcp_proxy *proxy);

/* In force for what comes after. `text` is kept, not copied. */
void proxy_set(struct tcp_proxy *proxy, enum proxy_mode mode, int64_t number,
               const char *text, size_t len);
#define proxy_mode(proxy, mode, number) proxy_set((proxy), (mode), (number), NULL, 0)

/* Since the last proxy_set(): bytes that the server said, bytes that it was told, and
 * connections made. */
struct proxy_count {
    uint64_t said;
    uint64_t told;
    uint64_t connections;
};
struct proxy_count proxy_count(struct tcp_proxy *proxy);

#endif
