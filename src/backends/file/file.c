/* SPDX-License-Identifier: MIT */
/*
 * file: locks between the processes of this host, through a directory.
 *
 * This file reads the URL and picks the layout: `queue` (queue.h), which supports
 * everything, or `flock` (flock.c), which shares plain lock files with flock(1). The
 * session that core keeps holds only that choice; every call is passed on.
 */
#include "file.h"

#include <string.h>

#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/url.h"

struct file_session {
    const struct hf_backend *layout; /* NULL: not open */
    void *inner;
};

static const struct {
    const char *name;
    const struct hf_backend *backend;
} layouts[] = {
    { "queue", &hf__file_queue },
    { "flock", &hf__file_flock },
};

static int layout_find(const struct hf_url *url, const struct hf_backend **ret_layout,
                       hf_error *why)
{
    const char *name = hf__url_option(url, "layout");

    if (!name)
        name = layouts[0].name;
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (strcmp(name, layouts[i].name) == 0) {
            *ret_layout = layouts[i].backend;
            return 0;
        }
    return hf__fail(why, HF_EURL, "layout=%.20s: there are queue and flock", name);
}

static int url_check(const struct hf_url *url, hf_error *why)
{
    if (url->user[0] || url->password[0] || url->port ||
        (url->host[0] && strcmp(url->host, "localhost") != 0))
        return hf__fail(why, HF_EURL,
                        "file: takes a directory of this host: file:/dir");
    if (url->path[0] && url->path[0] != '/')
        return hf__fail(why, HF_EURL, "file: takes an absolute path: file:/dir");
    return 0;
}

static int file_open(void *session, struct hf_host *host, const struct hf_url *url,
                     uint64_t *ret_caps, hf_error *why)
{
    struct file_session *file = session;
    const struct hf_backend *layout = NULL;
    int rc = url_check(url, why);

    if (rc == 0)
        rc = layout_find(url, &layout, why);
    if (rc != 0)
        return rc;
    file->inner = hf__alloc(layout->session_size);
    if (!file->inner)
        return hf__fail_code(why, HF_ENOMEM);
    file->layout = layout;
    return layout->open(file->inner, host, url, ret_caps, why);
}

static void file_close(void *session, bool forked)
{
    struct file_session *file = session;

    if (file->layout)
        file->layout->close(file->inner, forked);
    hf__free(file->inner);
    *file = (struct file_session){ NULL, NULL };
}

static void file_attempt(void *session, struct hf_ticket *ticket)
{
    struct file_session *file = session;
    file->layout->attempt(file->inner, ticket);
}

static void file_withdraw(void *session, struct hf_ticket *ticket)
{
    struct file_session *file = session;
    file->layout->withdraw(file->inner, ticket);
}

static void file_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                       enum hf_renew_mode mode)
{
    struct file_session *file = session;
    file->layout->renew(file->inner, tickets, count, mode);
}

static void file_interest(void *session, struct hf_ticket *ticket)
{
    struct file_session *file = session;
    file->layout->interest(file->inner, ticket);
}

static void file_ask(void *session, struct hf_request *request)
{
    struct file_session *file = session;
    file->layout->ask(file->inner, request);
}

static void file_forget(void *session, const void *ticket_or_request)
{
    struct file_session *file = session;
    file->layout->forget(file->inner, ticket_or_request);
}

static bool file_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    struct file_session *file = session;
    return file->layout->pass(file->inner, ticket, token);
}

static const char *const schemes[] = { "file", NULL };
static const char *const options[] = { "layout", "mode", NULL };

const struct hf_backend hf__backend_file = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "file",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct file_session),
    .default_ttl_ns = 0,
    .open = file_open,
    .close = file_close,
    .attempt = file_attempt,
    .withdraw = file_withdraw,
    .renew = file_renew,
    .interest = file_interest,
    .ask = file_ask,
    .forget = file_forget,
    .pass = file_pass,
};
