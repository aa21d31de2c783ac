/* SPDX-License-Identifier: MIT */
/*
 * TLS for a stream, as a table: the library itself does not link OpenSSL, which would
 * cost every program that uses holdfast a millisecond at its start. holdfast-tls.so
 * links it, and is loaded when the first stream needs TLS.
 *
 * A context belongs to a stream and holds its settings; a session is one connection.
 * Neither closes the descriptor. One thread at a time.
 */
#ifndef HF_KIT_TLS_H
#define HF_KIT_TLS_H

#include "stream.h"

#include <sys/types.h>

#define HF_TLS_MODULE "holdfast-tls.so"
#define HF_TLS_SYMBOL "hf__tls_openssl"
#define HF_TLS_ABI 1

struct hf_tls {
    uint32_t size; /* sizeof(struct hf_tls) */
    uint32_t abi;  /* HF_TLS_ABI */

    /* HF_EURL: what is wrong with CA, certificate or key. */
    int (*context_new)(const struct hf_stream_settings *settings, void **ret_context,
                       hf_error *why);
    void (*context_free)(void *context);

    /* `name` is what the certificate must be for; valid as long as the session. */
    int (*session_new)(void *context, int fd, const char *name, void **ret_session,
                       hf_error *why);
    void (*session_free)(void *session, bool notify);

    /* 1: done; 0: repeat when the descriptor has *ret_wants (EPOLLIN, EPOLLOUT); or an
     * error: HF_EREFUSED (verification, alerts), HF_EUNREACHABLE. */
    int (*handshake)(void *session, uint32_t *ret_wants, hf_error *why);

    /* Bytes read or written, > 0; else as above. The end of the connection is an error,
     * HF_EUNREACHABLE. After a 0 `write` must be repeated with the same bytes first. */
    ssize_t (*read)(void *session, void *data, size_t size, uint32_t *ret_wants,
                    hf_error *why);
    ssize_t (*write)(void *session, const void *data, size_t size, uint32_t *ret_wants,
                     hf_error *why);

    /* Whether bytes were read from the descriptor that `read` has not returned yet. */
    bool (*pending)(void *session);
};

/* Loads the module. HF_EUNSUPPORTED if this build has none or it cannot be loaded. */
int hf__tls_load(const struct hf_tls **ret_tls, hf_error *why);

#endif
