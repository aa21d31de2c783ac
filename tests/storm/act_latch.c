/* SPDX-License-Identifier: MIT */
/*
 * Latches: set, counted down, looked at, waited for.
 *
 * The model knows a lower bound of what is left, and when a latch is open for sure. A
 * count-down lowers the bound when it begins, a set raises it when it has returned: so
 * a waiter that passes while the bound was above 0 for the whole call has passed a
 * closed latch.
 */
#include "storm.h"

static int latch_pick(struct rng *rng)
{
    int name = (int)rng_below(rng, world->names_count);
    for (size_t i = 0; i < world->names_count; i++, name++)
        if (world->names[name % (int)world->names_count].family == F_LATCH)
            return name % (int)world->names_count;
    return -1;
}

static bool code_is_allowed(int name, int rc, const struct client *client,
                            int64_t began)
{
    const struct name *of = &world->names[name];
    if (rc == HF_ECLOSED)
        return atomic_load(&client->closing);
    if (rc == HF_EMISMATCH)
        return of->mixed;
    if (rc == HF_EUNCERTAIN && now_ns() - began > 60 * NS_PER_MS)
        return true; /* the store did not confirm the end of a wait in time */
    if (rc == HF_EINVAL)
        return name_is_refused(world->config.store, of->text, HF_LATCH);
    return is_weather(rc, began);
}

/* No outcome was told: it may still be done, by a request that is on its way. */
static bool is_late(int rc)
{
    return rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE || rc == HF_ECLOSED;
}

#define LATE_NS (5000 * NS_PER_MS)

/* What was counted down for certain before now; of all others a set may be the prey. */
static uint64_t downs_over(struct latch *latch)
{
    if (now_ns() > latch->late_until)
        latch->late_downs = 0;
    return latch->downs - latch->going_down - latch->late_downs;
}

static void latch_set(struct client *client, int name, uint32_t count)
{
    struct latch *latch = &world->names[name].latch;
    hf_error why;
    int64_t began = now_ns();
    model_lock();
    bool open = latch->surely_open && latch->setting == 0 && !world->names[name].mixed;
    uint64_t sets = ++latch->sets, downs = downs_over(latch);
    latch->setting++;
    latch->surely_open = false;
    latch->may_open++;
    model_unlock();
    int rc = CALL(latch_set, client->handle, world->names[name].text, count, &why);
    event("latch_set %.30s %u: %s", world->names[name].text, count, code_name(rc));
    model_lock();
    latch->setting--;
    if (is_late(rc))
        latch->set_until = now_ns() + LATE_NS;
    uint64_t since = latch->downs - downs;
    if (rc == 0 && latch->sets == sets && latch->setting == 0)
        latch->least = since < count ? count - since : 0;
    if (rc == HF_EBUSY && open && latch->sets == sets)
        violation(10, "%.60s is open, and hf_latch_set says that it counts",
                  world->names[name].text);
    if (rc != 0 && rc != HF_EBUSY && !code_is_allowed(name, rc, client, began))
        violation(13, "hf_latch_set answers %s", code_name(rc));
    model_unlock();
}

static void latch_down(struct client *client, int name, uint32_t by)
{
    struct latch *latch = &world->names[name].latch;
    hf_error why;
    uint32_t left = 0;
    int64_t began = now_ns();
    model_lock();
    uint64_t sets = latch->sets;
    bool setting = latch->setting > 0;
    latch->downs += by;
    latch->going_down += by;
    latch->least = latch->least > by ? latch->least - by : 0;
    if (latch->least == 0)
        latch->may_open++;
    model_unlock();
    int rc = CALL(latch_count_down, client->handle, world->names[name].text, by, &left,
                  &why);
    event("latch_count_down %.30s %u: %s, left %u", world->names[name].text, by,
          code_name(rc), left);
    model_lock();
    bool still = latch->sets == sets && !setting;
    latch->going_down -= by;
    if (is_late(rc)) {
        latch->late_downs += by;
        latch->late_until = now_ns() + LATE_NS;
    }
    if (rc == 0 && still && left < latch->least)
        violation(10, "%.60s counted down to %u, and has %llu left",
                  world->names[name].text, left, (unsigned long long)latch->least);
    if (rc == 0 && still && left == 0 && now_ns() > latch->set_until)
        latch->surely_open = true;
    if (rc != 0 && !code_is_allowed(name, rc, client, began))
        violation(13, "hf_latch_count_down answers %s", code_name(rc));
    model_unlock();
}

static void latch_count(struct client *client, int name)
{
    struct latch *latch = &world->names[name].latch;
    hf_error why;
    uint32_t count = 0;
    int64_t began = now_ns();
    model_lock();
    uint64_t sets = latch->sets;
    bool setting = latch->setting > 0;
    bool open = latch->surely_open && !world->names[name].mixed;
    model_unlock();
    int rc = CALL(latch_count, client->handle, world->names[name].text, &count, &why);
    event("latch_count %.30s: %s, left %u", world->names[name].text, code_name(rc),
          count);
    model_lock();
    bool still = latch->sets == sets && !setting;
    if (rc == 0 && still && (count < latch->least || (open && count > 0)))
        violation(10, "%.60s has %u left, and at least %llu%s", world->names[name].text,
                  count, (unsigned long long)latch->least, open ? "; it was open" : "");
    if (rc != 0 && !code_is_allowed(name, rc, client, began))
        violation(13, "hf_latch_count answers %s", code_name(rc));
    model_unlock();
}

/* ---- Waiting --------------------------------------------------------------------- */

static void view_begin(struct latch_view *view, int name, int64_t timeout_ms)
{
    const struct latch *latch = &world->names[name].latch;
    model_lock();
    *view =
        (struct latch_view){ .name = name,
                             .sets = latch->sets,
                             .may_open = latch->may_open,
                             .open = latch->surely_open && !world->names[name].mixed,
                             .closed = latch->least > 0 && latch->setting == 0,
                             .timeout_ms = timeout_ms,
                             .began_ns = now_ns() };
    model_unlock();
}

static void view_judge(const struct latch_view *view, int rc,
                       const struct client *client, bool cancelled)
{
    const struct name *name = &world->names[view->name];
    bool over = view->timeout_ms == 0 ? rc == HF_EBUSY : rc == HF_ETIMEOUT;
    bool hurried = view->timeout_ms > 0 && view->timeout_ms < 1000;
    model_lock();
    if (rc == 0 && view->closed && name->latch.may_open == view->may_open)
        violation(10, "%.60s was passed while it was closed", name->text);
    if (over && view->open && name->latch.sets == view->sets && !hurried &&
        !world->config.lossy)
        violation(10, "%.60s was open, and a waiter is told %s", name->text,
                  code_name(rc));
    if (rc != 0 && !over && !(rc == HF_ECANCELLED && cancelled) &&
        !code_is_allowed(view->name, rc, client, view->began_ns))
        violation(13, "hf_latch_wait answers %s", code_name(rc));
    model_unlock();
}

void latch_answer(struct op *op, int rc)
{
    event("latch_wait_async %.30s: %s", world->names[op->latch.name].text,
          code_name(rc));
    view_judge(&op->latch, rc, op->ask.client, atomic_load(&op->cancelled));
}

static void latch_told(void *user, int rc, const hf_error *why)
{
    struct op *op = user;
    (void)why;
    if (atomic_exchange(&op->state, OP_ENDED) == OP_ENDED)
        violation(9, "the end of a latch's wait is told twice");
    latch_answer(op, rc);
    op_unref(op);
}

static void latch_wait_async(struct rng *rng, struct client *client, int name,
                             int64_t timeout_ms)
{
    hf_error why;
    bool by_callback = rng_chance(rng, 500);
    bool keeps = !by_callback || rng_chance(rng, 300);
    struct op *op = op_new(OP_LATCH, by_callback + keeps);
    if (!op)
        return;
    op->by_callback = by_callback;
    op->ask.client = client;
    view_begin(&op->latch, name, timeout_ms);
    struct latch_view view = op->latch;
    int rc =
        CALL(latch_wait_async, client->handle, world->names[name].text, timeout_ms,
             by_callback ? latch_told : NULL, op, keeps ? &op->handle : NULL, &why);
    enum op_state starting = OP_STARTING;
    if (rc != 0) {
        view_judge(&view, rc, client, false);
        op_drop(op);
        return;
    }
    if (keeps || atomic_load(&op->refs) > 0)
        atomic_compare_exchange_strong(&op->state, &starting, OP_RUNNING);
    if (keeps && !waiting_put(op))
        op_finish(op);
}

static void latch_wait(struct client *client, int name, int64_t timeout_ms)
{
    struct latch_view view;
    hf_error why;
    view_begin(&view, name, timeout_ms);
    int rc =
        CALL(latch_wait, client->handle, world->names[name].text, timeout_ms, &why);
    event("latch_wait %.30s %d: %s", world->names[name].text, (int)timeout_ms,
          code_name(rc));
    view_judge(&view, rc, client, false);
}

void act_latch(struct rng *rng)
{
    static const int64_t timeouts[] = { 0, 1, 20, 1000 };
    struct client *client = client_pick(rng);
    int name = latch_pick(rng);
    uint64_t choice = rng_below(rng, 12);
    uint32_t count = 1 + (uint32_t)rng_below(rng, 4);
    int64_t timeout_ms = timeouts[rng_below(rng, 4)];
    if (!client || name < 0)
        return;
    if (choice < 2)
        latch_set(client, name, count);
    else if (choice < 6)
        latch_down(client, name, count < 3 ? count : 1);
    else if (choice < 8)
        latch_count(client, name);
    else if (choice < 10)
        latch_wait(client, name, timeout_ms);
    else
        latch_wait_async(rng, client, name, timeout_ms);
}
