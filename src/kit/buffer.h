/* SPDX-License-Identifier: MIT */
/* Bytes that come in at one end and leave at the other, in one piece of memory. What is
 * freed or cleared is wiped: a password may have passed through. */
#ifndef HF_KIT_BUFFER_H
#define HF_KIT_BUFFER_H

#include <stddef.h>

#define HF_BUFFER_MAX ((size_t)64 << 20)

/* data[from .. to) is what is inside. Zeroed is empty. */
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

/* Where `need` more bytes can be written; they count once buffer->to was raised. Moves
 * what is inside. NULL: no memory, or more than HF_BUFFER_MAX. */
char *hf__buffer_room(struct hf_buffer *buffer, size_t need);

/* Takes `size` bytes out. The memory stays as it is until the next room. */
void hf__buffer_consume(struct hf_buffer *buffer, size_t size);

void hf__buffer_wipe(struct hf_buffer *buffer); /* empties, keeps the memory */
void hf__buffer_done(struct hf_buffer *buffer);

#endif
