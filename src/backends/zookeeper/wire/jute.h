/* SPDX-License-Identifier: MIT */
/* Jute, the encoding of ZooKeeper's records: big-endian numbers, texts and vectors
 * behind their length. Pure: allocates nothing, does no input or output. */
#ifndef HF_ZK_JUTE_H
#define HF_ZK_JUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer reply is treated as malformed; a longer request is refused by servers with
 * their default settings. */
#define JUTE_FRAME_MAX ((size_t)4 << 20)
#define JUTE_REQUEST_MAX ((size_t)0xfffff)

struct zk_text;

/* ---- Reading --------------------------------------------------------------------- */

/* What is left of a record. When a field does not fit, `bad` is set, nothing is left,
 * and everything read after it is zero or empty. */
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
struct zk_text hf__zk_jute_text(struct jute *in); /* also a buffer; absent: empty */
/* The length of a vector whose elements have at least `least` bytes each: at most as
 * many as fit into the rest. */
size_t hf__zk_jute_count(struct jute *in, size_t least);

/* ---- Writing --------------------------------------------------------------------- */

/* The output. What does not fit is not written, and `full` is set. */
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
/* Two parts as one text. */
void hf__zk_jute_put_joined(struct jute_out *out, const char *head, size_t head_len,
                            const char *tail, size_t tail_len);

#endif
