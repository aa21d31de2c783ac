/* SPDX-License-Identifier: MIT */
/*
 * The two buffers of a stream. The stream calls them on its thread.
 *
 * An emptied buffer starts again at its beginning, so in the common case (one request,
 * one reply) nothing is moved. Remaining bytes are moved to the front only if they are
 * no more than the bytes consumed before them, so that each byte is moved at most once
 * for each byte consumed. Otherwise the memory doubles. A buffer that had to grow large
 * is freed once it is empty.
 */
#include "buffer.h"

#include "../base/mem.h"

#include <string.h>

#define LEAST_SIZE ((size_t)16 << 10)
#define KEPT_SIZE ((size_t)1 << 20)

void hf__buffer_done(struct hf_buffer *buffer)
{
    if (buffer->data)
        explicit_bzero(buffer->data, buffer->size);
    hf__free(buffer->data);
    *buffer = (struct hf_buffer){ 0 };
}

void hf__buffer_wipe(struct hf_buffer *buffer)
{
    if (buffer->data)
        explicit_bzero(buffer->data, buffer->size);
    buffer->from = buffer->to = 0;
}

/* Not realloc: the memory that it leaves could not be wiped, and here the bytes move to
 * the front as well. */
static char *buffer_grow(struct hf_buffer *buffer, size_t need)
{
    size_t used = hf__buffer_used(buffer);
    size_t size = LEAST_SIZE;
    while (size < used + need)
        size *= 2;
    char *data = hf__alloc(size);
    if (!data)
        return NULL;
    if (used && buffer->data)
        memcpy(data, buffer->data + buffer->from, used);
    hf__buffer_done(buffer);
    *buffer = (struct hf_buffer){ .data = data, .size = size, .to = used };
    return data + used;
}

char *hf__buffer_room(struct hf_buffer *buffer, size_t need)
{
    size_t used = hf__buffer_used(buffer);
    if (need > HF_BUFFER_MAX || used > HF_BUFFER_MAX - need)
        return NULL;
    if (used == 0 && buffer->size > KEPT_SIZE && need <= KEPT_SIZE)
        hf__buffer_done(buffer);
    if (buffer->data && need <= hf__buffer_free(buffer))
        return buffer->data + buffer->to;
    if (!buffer->data || used + need > buffer->size || used > buffer->from)
        return buffer_grow(buffer, need);
    memmove(buffer->data, buffer->data + buffer->from, used);
    buffer->from = 0;
    buffer->to = used;
    return buffer->data + used;
}

void hf__buffer_consume(struct hf_buffer *buffer, size_t size)
{
    buffer->from += size;
    if (buffer->from == buffer->to)
        buffer->from = buffer->to = 0;
}
