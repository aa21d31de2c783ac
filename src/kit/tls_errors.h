/* SPDX-License-Identifier: MIT */
/* OpenSSL's errors as messages that say what to do. */
#ifndef HF_KIT_TLS_ERRORS_H
#define HF_KIT_TLS_ERRORS_H

#include "tls.h"

#include <openssl/ssl.h>

/* For the file of a setting, after a call that read it has failed. HF_EURL. */
int hf__tls_fail_file(hf_error *why, const char *setting, const char *path,
                      const char *otherwise);

/* For a session after SSL_ERROR_SSL. HF_EREFUSED, or HF_EUNREACHABLE at its end. */
int hf__tls_fail_session(hf_error *why, SSL *ssl);

#endif
