/* SPDX-License-Identifier: MIT */
/*
 * The codec of jute.h. Called by the client on its thread, and by the tests with
 * arbitrary bytes.
 *
 * All reading goes through take(), which returns bytes that exist or sets `bad`; so no
 * reader needs a check of its own, and a decoder checks once, at the end of its record.
 * Texts point into the input. A length is limited to what is left of the frame, so
 * nothing is sized by a number that a server made up.
 *
 * All writing goes through room() in the same way.
 */
#include "jute.h"

#include "zk.h"

#include <endian.h>
#include <string.h>

/* ---- Reading --------------------------------------------------------------------- */

static const char *take(struct jute *in, size_t size)
{
    const char *at = in->at;

    if (size > (size_t)(in->end - at)) {
        in->bad = true;
        in->at = in->end;
        return NULL;
    }
    in->at += size;
    return at;
}

enum jute_state hf__zk_jute_frame(const char *data, size_t size,
                                  struct jute *ret_record, size_t *ret_used)
{
    struct jute in = { .at = data, .end = data + size };
    int32_t len = hf__zk_jute_int(&in);

    if (in.bad)
        return JUTE_MORE;
    if (len < 0 || (size_t)len > JUTE_FRAME_MAX)
        return JUTE_BAD;
    if ((size_t)len > size - sizeof len)
        return JUTE_MORE;
    *ret_record = (struct jute){ .at = in.at, .end = in.at + len };
    *ret_used = sizeof len + (size_t)len;
    return JUTE_WHOLE;
}

bool hf__zk_jute_bool(struct jute *in)
{
    const char *at = take(in, 1);
    return at && *at != 0;
}

int32_t hf__zk_jute_int(struct jute *in)
{
    const char *at = take(in, sizeof(int32_t));
    uint32_t bits = 0;

    if (at)
        memcpy(&bits, at, sizeof bits);
    return (int32_t)be32toh(bits);
}

int64_t hf__zk_jute_long(struct jute *in)
{
    const char *at = take(in, sizeof(int64_t));
    uint64_t bits = 0;

    if (at)
        memcpy(&bits, at, sizeof bits);
    return (int64_t)be64toh(bits);
}

/* -1 stands for "none" wherever there is a length. */
static size_t length(struct jute *in)
{
    int32_t len = hf__zk_jute_int(in);

    if (len >= 0)
        return (size_t)len;
    if (len < -1)
        take(in, SIZE_MAX);
    return 0;
}

struct zk_text hf__zk_jute_text(struct jute *in)
{
    size_t len = length(in);
    const char *at = take(in, len);

    return at ? (struct zk_text){ at, len } : (struct zk_text){ "", 0 };
}

size_t hf__zk_jute_count(struct jute *in, size_t least)
{
    size_t count = length(in);

    if (count <= (size_t)(in->end - in->at) / least)
        return count;
    take(in, SIZE_MAX);
    return 0;
}

/* ---- Writing --------------------------------------------------------------------- */

static char *room(struct jute_out *out, size_t size)
{
    char *at = out->at;

    if (out->full || size > (size_t)(out->end - at)) {
        out->full = true;
        return NULL;
    }
    out->at += size;
    return at;
}

char *hf__zk_jute_open(struct jute_out *out)
{
    return room(out, sizeof(int32_t));
}

void hf__zk_jute_close(struct jute_out *out, char *frame)
{
    if (out->full)
        return;
    uint32_t bits = htobe32((uint32_t)(out->at - frame - (ptrdiff_t)sizeof(int32_t)));
    memcpy(frame, &bits, sizeof bits);
}

void hf__zk_jute_put_bool(struct jute_out *out, bool value)
{
    char *at = room(out, 1);
    if (at)
        *at = value;
}

void hf__zk_jute_put_int(struct jute_out *out, int32_t value)
{
    uint32_t bits = htobe32((uint32_t)value);
    char *at = room(out, sizeof bits);
    if (at)
        memcpy(at, &bits, sizeof bits);
}

void hf__zk_jute_put_long(struct jute_out *out, int64_t value)
{
    uint64_t bits = htobe64((uint64_t)value);
    char *at = room(out, sizeof bits);
    if (at)
        memcpy(at, &bits, sizeof bits);
}

static void put_bytes(struct jute_out *out, const void *bytes, size_t len)
{
    char *at = room(out, len);
    if (at && len)
        memcpy(at, bytes, len);
}

void hf__zk_jute_put_joined(struct jute_out *out, const char *head, size_t head_len,
                            const char *tail, size_t tail_len)
{
    if (head_len > INT32_MAX || tail_len > INT32_MAX - head_len) {
        out->full = true;
        return;
    }
    hf__zk_jute_put_int(out, (int32_t)(head_len + tail_len));
    put_bytes(out, head, head_len);
    put_bytes(out, tail, tail_len);
}

void hf__zk_jute_put_text(struct jute_out *out, const void *text, size_t len)
{
    hf__zk_jute_put_joined(out, text, len, "", 0);
}
