/* SPDX-License-Identifier: MIT */
/*
 * What the tests of streams share: one stream on the fake host, and what its callbacks
 * have told. The peer is a plain socket of the test's own.
 *
 *     struct rig rig;
 *     rig_listen(&rig, "127.0.0.1");
 *     rig_new(&rig);
 *     rig_open(&rig);
 *     rig_accept(&rig);
 *     RIG_WAIT(&rig, rig.opened == 1);
 *     rig_done(&rig);
 *
 * rig_done() checks that no watch, timer, descriptor or memory is left.
 */
#ifndef HF_TESTS_STREAM_RIG_H
#define HF_TESTS_STREAM_RIG_H

#include "../../src/kit/stream_internal.h"
#include "fake_host.h"
#include "unit.h"

struct rig {
    struct fake_host fake;
    struct fake_clock *clock; /* NULL: the real one. Set it before rig_new() */
    struct hf_host_ops ops;   /* as the fake host's, and counting */
    unsigned adds;            /* descriptors watched */
    unsigned undone;          /* watches removed */
    struct hf_stream_settings settings;
    struct hf_stream *stream;
    int listener, peer; /* -1: none */
    unsigned fds_before;
    size_t memory_before;

    unsigned opened, readable, broken;
    hf_error why; /* of the last `broken` */
    bool inside;  /* inside a call that must not call back */
    bool greedy;  /* do not consume the input */
    char *got;    /* what came in, if not greedy */
    size_t got_len, got_size;
    void (*then)(struct rig *rig); /* called at the end of the next callback, once */
    const char *directory;         /* NULL, or where the unix socket is */
};

/* Zeroes the rig, starts counting, and binds a listener: to a literal address, or to a
 * unix socket in a directory of its own if `address` begins with '/'. NULL binds none.
 * Fills in the settings. */
void rig_listen(struct rig *rig, const char *address);
int rig_bind(const char *address, uint16_t *ret_port);

void rig_new(struct rig *rig);  /* the stream */
void rig_open(struct rig *rig); /* hf__stream_open(), which must not call back */
void rig_accept(struct rig *rig);
void rig_connect(struct rig *rig); /* all of it, until opened */
void rig_turn(struct rig *rig);
void rig_done(struct rig *rig);

void rig_send(struct rig *rig, const char *text);   /* write and flush */
void rig_say(struct rig *rig, const char *text);    /* the peer sends */
void rig_expect(struct rig *rig, const char *text); /* the peer gets exactly that */
void rig_close_peer(struct rig *rig);

unsigned rig_count_fds(void);

/* Connections that are not accepted, until the backlog of the listener is full and a
 * further one hangs. */
enum { RIG_FILLERS = 16 };
void rig_fill_backlog(int listener, int fillers[RIG_FILLERS]);

/* Runs the loop until the condition holds. */
#define RIG_WAIT(rig, condition)                                                       \
    do {                                                                               \
        unsigned rig_turns = 0;                                                        \
        while (!(condition)) {                                                         \
            ck_assert_msg(rig_turns++ < 2000, "never: %s (broken: %s)", #condition,    \
                          (rig)->why.text);                                            \
            rig_turn(rig);                                                             \
        }                                                                              \
    } while (0)

#endif
