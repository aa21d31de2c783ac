/* SPDX-License-Identifier: MIT */
/* Bytes written at one end and consumed at the other, in one block of memory. Memory
 * that is freed or cleared is wiped: it may have held a password. */
#ifndef HF_KIT_BUFFER_H
#define HF_KIT_BUFFER_H

#include <stddef.h>

#define HF_BUFFER_MAX ((size_t)64 << 20)

/* data[from .. to) are the contents. Zeroed is empty. */
struct hf_buffer {
    char *data;
    size_t size, from, to;
};

static inline size_t hf__buffer_used(const struct hf_buffer *buffer)
{
    return buffer->to - buffer->from;
}

static inline size_t hf__buffer_free(const struct hf_buffer *buffer)
{
    return buffer->size - buffer->to;
}

/* Where `need` more bytes can be written; they count once buffer->to was raised. May
 * move the contents. NULL: no memory, or more than HF_BUFFER_MAX. */
char *hf__buffer_room(struct hf_buffer *buffer, size_t need);

/* Removes `size` bytes. The memory stays as it is until the next hf__buffer_room(). */
void hf__buffer_consume(struct hf_buffer *buffer, size_t size);

void hf__buffer_wipe(struct hf_buffer *buffer); /* empties, keeps the memory */
void hf__buffer_done(struct hf_buffer *buffer);

#endif
