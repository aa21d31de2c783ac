/* SPDX-License-Identifier: MIT */
/*
 * Looks up the addresses of a host. Streams call it, under the client's lock; the
 * lookup itself runs on a detached thread, one for each struct hf_resolve.
 *
 * A lookup has two owners, the stream and the thread. Each drops it once, and the last
 * one closes the descriptor and frees it, so neither has to wait for the other. The
 * thread writes the answer, then `done` (release), then the eventfd; the stream reads
 * in the opposite order. Addresses are copied: no memory of getaddrinfo's leaves the
 * thread. After a fork the child has only the stream's half.
 */
#include "resolve.h"

#include "../base/mem.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#define RESOLVE_STACK (512 * 1024) /* name service modules need much */

struct hf_resolve {
    atomic_int owners;
    atomic_bool done;
    int event_fd;
    int error;
    uint16_t port;
    struct hf_addresses found;
    char host[];
};

static int look_up(const char *host, uint16_t port, int flags, struct hf_addresses *ret)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICSERV | flags };
    struct addrinfo *all = NULL;
    char service[8];

    snprintf(service, sizeof(service), "%u", (unsigned)port);
    int error = getaddrinfo(host, service, &hints, &all);
    if (error != 0)
        return error;
    ret->count = 0;
    for (struct addrinfo *at = all; at && ret->count < HF_ADDRESS_MAX;
         at = at->ai_next) {
        struct hf_address *address = &ret->list[ret->count++];
        memcpy(&address->name, at->ai_addr, at->ai_addrlen);
        address->len = at->ai_addrlen;
    }
    freeaddrinfo(all);
    return ret->count ? 0 : EAI_NONAME;
}

bool hf__resolve_literal(const char *host, uint16_t port, struct hf_addresses *ret)
{
    return look_up(host, port, AI_NUMERICHOST, ret) == 0;
}

bool hf__resolve_path(const char *path, struct hf_addresses *ret)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    size_t len = strlen(path);

    if (len >= sizeof(name.sun_path))
        return false;
    memcpy(name.sun_path, path, len + 1);
    memcpy(&ret->list[0].name, &name, sizeof(name));
    ret->list[0].len = sizeof(name);
    ret->count = 1;
    return true;
}

static void resolve_free(struct hf_resolve *resolve)
{
    close(resolve->event_fd);
    hf__free(resolve);
}

static void owner_drop(struct hf_resolve *resolve)
{
    if (atomic_fetch_sub(&resolve->owners, 1) == 1)
        resolve_free(resolve);
}

static void *resolve_run(void *arg)
{
    static const uint64_t one = 1;
    struct hf_resolve *resolve = arg;

    resolve->error = look_up(resolve->host, resolve->port, 0, &resolve->found);
    atomic_store_explicit(&resolve->done, true, memory_order_release);
    while (write(resolve->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    owner_drop(resolve);
    return NULL;
}

/* Detached, and with every signal blocked, so that handlers keep running on the
 * program's threads. */
static int thread_start(struct hf_resolve *resolve)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;

    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    pthread_attr_setstacksize(&attr, RESOLVE_STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&thread, &attr, resolve_run, resolve);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

int hf__resolve_start(const char *host, uint16_t port, struct hf_resolve **ret_resolve)
{
    size_t len = strlen(host);
    struct hf_resolve *resolve = hf__alloc(sizeof(*resolve) + len + 1);
    if (!resolve)
        return -ENOMEM;
    memcpy(resolve->host, host, len);
    resolve->port = port;
    atomic_init(&resolve->owners, 2);
    resolve->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolve->event_fd < 0) {
        int rc = -errno;
        hf__free(resolve);
        return rc;
    }
    int rc = thread_start(resolve);
    if (rc != 0)
        resolve_free(resolve);
    else
        *ret_resolve = resolve;
    return -rc;
}

int hf__resolve_fd(const struct hf_resolve *resolve)
{
    return resolve->event_fd;
}

bool hf__resolve_take(struct hf_resolve *resolve, struct hf_addresses *ret,
                      int *ret_error)
{
    if (!atomic_load_explicit(&resolve->done, memory_order_acquire))
        return false;
    *ret_error = resolve->error;
    if (resolve->error == 0)
        *ret = resolve->found;
    return true;
}

void hf__resolve_drop(struct hf_resolve *resolve, bool forked)
{
    if (resolve && forked)
        resolve_free(resolve);
    else if (resolve)
        owner_drop(resolve);
}
