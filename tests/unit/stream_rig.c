/* SPDX-License-Identifier: MIT */
/*
 * The rig of stream_rig.h. Everything happens on the test's own thread: the peer is a
 * socket that the test reads and writes between two passes of the loop.
 */
#include "stream_rig.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define TURN_MS 5

/* ---- A store that does nothing --------------------------------------------------- */

static int idle_open(void *session, struct hf_host *host, const struct hf_url *url,
                     uint64_t *ret_caps, hf_error *why)
{
    (void)session, (void)host, (void)url, (void)why;
    *ret_caps = 0;
    return 0;
}

static void idle_close(void *session, bool forked)
{
    (void)session, (void)forked;
}

static const struct hf_backend idle = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "idle",
    .session_size = 1,
    .open = idle_open,
    .close = idle_close,
};

static const struct hf_host_ops *fake_ops;

static struct rig *rig_of(struct hf_host *host)
{
    return (struct rig *)(void *)((char *)host - offsetof(struct rig, fake) -
                                  offsetof(struct fake_host, host));
}

static void count_remove_fd(struct hf_host *host, int fd)
{
    rig_of(host)->undone++;
    fake_ops->remove_fd(host, fd);
}

static int count_add_fd(struct hf_host *host, int fd, uint32_t events,
                        hf_fd_cb *callback, void *arg)
{
    rig_of(host)->adds++;
    return fake_ops->add_fd(host, fd, events, callback, arg);
}

/* ---- Callbacks ------------------------------------------------------------------- */

static void and_then(struct rig *rig)
{
    void (*then)(struct rig *) = rig->then;
    rig->then = NULL;
    if (then)
        then(rig);
}

static void on_opened(void *arg)
{
    struct rig *rig = arg;
    ck_assert(!rig->inside);
    rig->opened++;
    and_then(rig);
}

static void on_readable(void *arg)
{
    struct rig *rig = arg;
    size_t size;
    const char *data = hf__stream_input(rig->stream, &size);

    UNIT_ASSERT(!rig->inside && size > 0);
    rig->readable++;
    if (!rig->greedy) {
        if (rig->got_len + size > rig->got_size) {
            rig->got_size = (rig->got_len + size) * 2;
            rig->got = realloc(rig->got, rig->got_size);
        }
        memcpy(rig->got + rig->got_len, data, size);
        rig->got_len += size;
        hf__stream_consume(rig->stream, size);
    }
    and_then(rig);
}

static void on_broken(void *arg, const hf_error *why)
{
    struct rig *rig = arg;
    ck_assert(!rig->inside && !hf__stream_is_open(rig->stream));
    rig->broken++;
    rig->why = *why;
    and_then(rig);
}

/* ---- Listening ------------------------------------------------------------------- */

unsigned rig_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;
    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static int bind_unix(const char *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

int rig_bind(const char *address, uint16_t *ret_port)
{
    struct hf_addresses where;
    ck_assert(hf__resolve_literal(address, 0, &where));
    struct sockaddr *name = (struct sockaddr *)&where.list[0].name;
    int fd = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, name, where.list[0].len) != 0) {
        close(fd);
        return -1;
    }
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, name, &where.list[0].len), 0);
    *ret_port = name->sa_family == AF_INET
                    ? ntohs(((struct sockaddr_in *)(void *)name)->sin_port)
                    : ntohs(((struct sockaddr_in6 *)(void *)name)->sin6_port);
    return fd;
}

void rig_listen(struct rig *rig, const char *address)
{
    static char directory[64], path[96];

    memset(rig, 0, sizeof(*rig));
    rig->listener = rig->peer = -1;
    rig->memory_before = hf__mem_live();
    rig->fds_before = rig_count_fds();
    rig->settings.connect_ns = 10 * HF_NS_PER_S;
    rig->settings.host = "";
    if (!address)
        return;
    if (address[0] == '/') {
        snprintf(directory, sizeof(directory), "/tmp/hf-stream-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/socket", directory);
        rig->directory = directory;
        rig->settings.unix_path = path;
        rig->listener = bind_unix(path);
        return;
    }
    rig->settings.host = address;
    rig->listener = rig_bind(address, &rig->settings.port);
}

void rig_fill_backlog(int listener, int fillers[RIG_FILLERS])
{
    struct sockaddr_storage name;
    socklen_t len = sizeof(name);

    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&name, &len), 0);
    for (int i = 0; i < RIG_FILLERS; i++) {
        fillers[i] = socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fillers[i], (struct sockaddr *)&name, len);
    }
}

/* ---- The stream ------------------------------------------------------------------ */

void rig_new(struct rig *rig)
{
    static const struct hf_stream_user user = { on_opened, on_readable, on_broken };
    hf_error why = { 0 };

    ck_assert_int_eq(fake_open(&rig->fake, &idle, "mem:", rig->clock), 0);
    fake_ops = rig->fake.host.ops;
    rig->ops = *fake_ops;
    rig->ops.add_fd = count_add_fd;
    rig->ops.remove_fd = count_remove_fd;
    rig->fake.host.ops = &rig->ops;
    int rc =
        hf__stream_new(&rig->fake.host, &rig->settings, &user, rig, &rig->stream, &why);
    ck_assert_msg(rc == 0, "%s", why.text);
}

void rig_open(struct rig *rig)
{
    hf_error why = { 0 };
    rig->inside = true;
    int rc = hf__stream_open(rig->stream, &why);
    rig->inside = false;
    ck_assert_msg(rc == 0, "%s", why.text);
}

void rig_accept(struct rig *rig)
{
    ck_assert_int_lt(rig->peer, 0);
    rig->peer = accept4(rig->listener, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(rig->peer, 0);
}

void rig_connect(struct rig *rig)
{
    unsigned before = rig->opened;
    rig_new(rig);
    rig_open(rig);
    RIG_WAIT(rig, rig->opened == before + 1);
    rig_accept(rig);
    ck_assert(hf__stream_is_open(rig->stream));
}

void rig_turn(struct rig *rig)
{
    fake_turn(&rig->fake, TURN_MS);
}

void rig_close_peer(struct rig *rig)
{
    if (rig->peer >= 0)
        close(rig->peer);
    rig->peer = -1;
}

/* The thread of a lookup may still be about to drop its half. */
static void settle(const struct rig *rig)
{
    for (int i = 0; i < 2000; i++) {
        if (hf__mem_live() == rig->memory_before && rig_count_fds() == rig->fds_before)
            return;
        poll(NULL, 0, 5);
    }
}

void rig_done(struct rig *rig)
{
    hf__stream_done(rig->stream, false);
    fake_close(&rig->fake);
    rig_close_peer(rig);
    if (rig->listener >= 0)
        close(rig->listener);
    if (rig->directory) {
        unlink(rig->settings.unix_path);
        rmdir(rig->directory);
    }
    free(rig->got);
    settle(rig);
    ck_assert_uint_eq(rig_count_fds(), rig->fds_before);
    ck_assert_uint_eq(hf__mem_live(), rig->memory_before);
}

/* ---- Talking --------------------------------------------------------------------- */

void rig_send(struct rig *rig, const char *text)
{
    size_t len = strlen(text);
    char *room = hf__stream_room(rig->stream, len);
    ck_assert_ptr_nonnull(room);
    memcpy(room, text, len);
    hf__stream_wrote(rig->stream, len);
    rig->inside = true;
    hf__stream_flush(rig->stream);
    rig->inside = false;
}

void rig_say(struct rig *rig, const char *text)
{
    size_t len = strlen(text);
    ck_assert_int_eq(send(rig->peer, text, len, MSG_NOSIGNAL), (ssize_t)len);
}

void rig_expect(struct rig *rig, const char *text)
{
    char heard[256];
    size_t len = strlen(text);
    ck_assert_uint_lt(len, sizeof(heard));
    ck_assert_int_eq(recv(rig->peer, heard, len, MSG_WAITALL), (ssize_t)len);
    ck_assert_mem_eq(heard, text, len);
}
