/* SPDX-License-Identifier: MIT */
/* Jute, ZooKeeper's way to write records: big-endian numbers, texts and vectors with
 * their length in front. Pure: no memory, no input or output of its own. */
#ifndef HF_ZK_JUTE_H
#define HF_ZK_JUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A reply longer than this is taken for garbage; a request longer than this is refused
 * by servers as they are set up. */
#define JUTE_FRAME_MAX ((size_t)4 << 20)
#define JUTE_REQUEST_MAX ((size_t)0xfffff)

struct zk_text;

/* ---- Reading --------------------------------------------------------------------- */

/* What is left of a record. Once something does not fit, `bad` is set, nothing is left,
 * and whatever else is read is zero or empty. */
struct jute {
    const char *at, *end;
    bool bad;
};

enum jute_state { JUTE_MORE = 0, JUTE_WHOLE, JUTE_BAD };

/* The frame at the beginning of `data`: its record and, in `ret_used`, its size. */
enum jute_state hf__zk_jute_frame(const char *data, size_t size,
                                  struct jute *ret_record, size_t *ret_used);

bool hf__zk_jute_bool(struct jute *in);
int32_t hf__zk_jute_int(struct jute *in);
int64_t hf__zk_jute_long(struct jute *in);
struct zk_text hf__zk_jute_text(struct jute *in); /* also of buffers; absent is empty */
/* The length of a vector whose elements have at least `least` bytes each: never more
 * than can be there. */
size_t hf__zk_jute_count(struct jute *in, size_t least);

/* ---- Writing --------------------------------------------------------------------- */

/* Where the next byte goes. What does not fit is not written, and `full` is set. */
struct jute_out {
    char *at, *end;
    bool full;
};

/* Begins a frame at `out->at`; hf__zk_jute_close() writes its length there. */
char *hf__zk_jute_open(struct jute_out *out);
void hf__zk_jute_close(struct jute_out *out, char *frame);

void hf__zk_jute_put_bool(struct jute_out *out, bool value);
void hf__zk_jute_put_int(struct jute_out *out, int32_t value);
void hf__zk_jute_put_long(struct jute_out *out, int64_t value);
void hf__zk_jute_put_text(struct jute_out *out, const void *text, size_t len);
/* One text of two parts. */
void hf__zk_jute_put_joined(struct jute_out *out, const char *head, size_t head_len,
                            const char *tail, size_t tail_len);

#endif
