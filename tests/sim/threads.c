/* SPDX-License-Identifier: MIT */
/*
 * Threads of the simulated programs: contexts on stacks of their own, of which the
 * scheduler (world.c) lets one run at a time, on the one thread of this process.
 *
 * What the library uses to sleep and to wake (mutexes, conditions, threads) is replaced
 * at link time. Each of those calls, each epoll_wait and each look at the clock is a
 * place where a thread may lose the processor; whether it does, and for how long, is
 * drawn from the seed. A condition also wakes a sleeper without reason now and then, as
 * POSIX allows.
 *
 * Thread-local variables of the program (who owns a reentrant lock, whether a callback
 * is running) belong to an identity and are exchanged at each switch. An actor keeps
 * its identity over many turns; a fresh one is a new thread.
 */
#include "sim.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_SIZE = 256 * 1024, BACKGROUNDS = 2 * CLIENTS_MAX };

struct thread {
    ucontext_t context;
    char *stack;
    void *fake_stack; /* AddressSanitizer's */
    enum { FREE = 0, READY, ON_MUTEX, ON_COND, ON_POLL, ON_JOIN, ENDED } state;
    bool joinable;
    int node, index;
    int mutexes; /* that it has */
    struct identity *self;
    int64_t wake_at; /* READY: when; asleep: at the latest */
    const void *on;
    int fd;
    uint64_t changes; /* of its node, when `fd_ready` was computed */
    int64_t fd_ready;
    void (*work)(void *);
    void *arg;
};

/* What a pthread_mutex_t is here, in the same memory. */
struct mutex {
    struct thread *owner;
    uint64_t waiters;
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "it has to fit");

static struct thread threads[THREADS_MAX], world = { .index = -1 };
static struct thread *running; /* NULL: the scheduler */
static int used;               /* those above have never been used */
static int guarded;
static uint64_t serials;
static struct identity world_self, fresh;
static struct {
    struct identity self;
    void *(*start)(void *);
    void *arg;
} backgrounds[BACKGROUNDS];
static unsigned char *locals; /* the program's thread-local block */
static size_t locals_size;
static const void *world_stack;
static size_t world_stack_size;

/* ---- switching ------------------------------------------------------------------- */

static int locals_find(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_TLS)
            continue;
        locals = info->dlpi_tls_data;
        locals_size = info->dlpi_phdr[i].p_memsz;
    }
    return 1; /* the program comes first, and others are none of ours */
}

void threads_init(void)
{
    dl_iterate_phdr(locals_find, NULL);
    if (locals_size > sizeof(fresh.locals))
        abort(); /* more than the library has: those of a sanitizer, linked in */
    memcpy(fresh.locals, locals, locals_size);
}

static void exchange_locals(struct identity *from, const struct identity *to)
{
    memcpy(from->locals, locals, locals_size);
    memcpy(locals, to->locals, locals_size);
}

static void leave_stack(void **fake, const void *stack, size_t size)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake, stack, size);
#else
    (void)fake;
    (void)stack;
    (void)size;
#endif
}

static void enter_stack(void *fake, const void **stack, size_t *size)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, stack, size);
#else
    (void)fake;
    (void)stack;
    (void)size;
#endif
}

/* From a thread to the scheduler, until that lets it go on. */
static void back(void)
{
    struct thread *me = running;
    int code = errno;
    leave_stack(&me->fake_stack, world_stack, world_stack_size);
    swapcontext(&me->context, &world.context);
    enter_stack(me->fake_stack, NULL, NULL);
    errno = code;
}

static void wake(struct thread *thread)
{
    thread->state = READY;
    thread->wake_at = sim_now + (int64_t)(dice() & 0x7ff);
}

/* A stack serves one thread after the other. */
static void first_frame(void)
{
    enter_stack(NULL, &world_stack, &world_stack_size);
    for (;;) {
        struct thread *me = running;
        me->work(me->arg);
        me->state = me->joinable ? ENDED : FREE;
        for (int i = 0; me->joinable && i < used; i++)
            if (threads[i].state == ON_JOIN && threads[i].on == me)
                wake(&threads[i]);
        back();
    }
}

void thread_resume(struct thread *thread)
{
    int before = os_enter(thread->node);
    thread->state = READY;
    running = thread;
    exchange_locals(&world_self, thread->self);
    leave_stack(&world.fake_stack, thread->stack, STACK_SIZE);
    swapcontext(&world.context, &thread->context);
    enter_stack(world.fake_stack, NULL, NULL);
    exchange_locals(thread->self, &world_self);
    running = NULL;
    os_enter(before);
}

/* ---- making ---------------------------------------------------------------------- */

void identity_renew(struct identity *self)
{
    *self = fresh;
    self->serial = ++serials;
}

static void thread_prepare(struct thread *thread)
{
    thread->index = (int)(thread - threads);
    thread->stack = malloc(STACK_SIZE);
    if (!thread->stack || getcontext(&thread->context) != 0)
        abort();
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_SIZE;
    makecontext(&thread->context, first_frame, 0);
}

struct thread *thread_start(int node, struct identity *self, void (*work)(void *),
                            void *arg)
{
    int i = 0;
    while (i < used && threads[i].state != FREE)
        i++;
    if (i == THREADS_MAX)
        abort();
    struct thread *thread = &threads[i];
    if (i == used) {
        used++;
        if (!thread->stack)
            thread_prepare(thread);
    }
    thread->state = READY;
    thread->joinable = false;
    thread->mutexes = 0;
    thread->node = node;
    thread->self = self;
    thread->wake_at = sim_now;
    thread->work = work;
    thread->arg = arg;
    return thread;
}

void threads_reset(void)
{
    serials = 0;
    guarded = 0;
    for (int i = 0; i < used; i++)
        if (threads[i].state != FREE)
            abort(); /* a seed ends with all of them */
}

uint64_t thread_serial(void)
{
    return running ? running->self->serial : 0;
}

bool threads_of(int node)
{
    for (int i = 0; i < used; i++)
        if (threads[i].state != FREE && threads[i].node == node)
            return true;
    return false;
}

/* ---- what the scheduler asks ----------------------------------------------------- */

static int64_t poll_ready(struct thread *thread)
{
    uint64_t changes = os_changes(thread->node);
    if (thread->changes != changes) {
        thread->changes = changes;
        thread->fd_ready = os_ready_at(thread->fd);
    }
    return thread->fd_ready < thread->wake_at ? thread->fd_ready : thread->wake_at;
}

struct thread *threads_next(int64_t *ret_at)
{
    struct thread *found = NULL;
    for (int i = 0; i < used; i++) {
        struct thread *thread = &threads[i];
        int64_t at = NEVER;
        if (thread->state == READY || thread->state == ON_COND)
            at = thread->wake_at;
        else if (thread->state == ON_POLL)
            at = poll_ready(thread);
        if (at >= *ret_at)
            continue;
        const struct client *client = sim_client(thread->node);
        if (client->frozen)
            continue;
        if (at < client->not_before && !(thread->mutexes && set.store != SIM_LEASE))
            at = client->not_before; /* with a lock of mem, all clients would stop */
        if (at >= *ret_at)
            continue;
        *ret_at = at;
        found = thread;
    }
    return found;
}

int thread_index(const struct thread *thread)
{
    return thread->index;
}

int thread_node(const struct thread *thread)
{
    return thread->node;
}

/* ---- losing the processor -------------------------------------------------------- */

void thread_guard(bool on)
{
    guarded += on ? 1 : -1;
}

/* After a violation the seed is over, and nobody goes on. */
void thread_point(void)
{
    if (!running || guarded)
        return;
    if (violated())
        back();
    if (!set.preempt || !dice_chance(set.preempt))
        return;
    int64_t span = dice_spread(set.preempt_ns);
    running->wake_at = sim_now + span;
    sim_client(running->node)->stalled += span; /* it may have the client's lock */
    count.switches++;
    back();
}

/* Until another thread wakes us or `until`. */
static void sleep_in(int state, const void *on, int64_t until)
{
    if (!running) {
        violation("the scheduler itself would have to wait");
        abort();
    }
    running->state = state;
    running->on = on;
    running->wake_at = until;
    count.switches++;
    back();
}

void thread_nap(int64_t span)
{
    sleep_in(READY, NULL, sim_now + span);
}

/* epoll_wait (os.c): until the set may have something, or `until`. */
void thread_poll(int fd, int64_t until)
{
    if (running) {
        running->fd = fd;
        running->changes = UINT64_MAX;
    }
    trace(EVENT_BLOCK, running ? running->node : 0, running ? running->index : 0,
          (uint64_t)fd, 0);
    sleep_in(ON_POLL, NULL, until);
}

/* ---- mutexes --------------------------------------------------------------------- */

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  clockid_t clock, const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*start)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **ret_value);
int __wrap_pthread_sigmask(int how, const sigset_t *mask, sigset_t *before);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);

static struct thread *self(void)
{
    return running ? running : &world;
}

static struct mutex *mutex_of(pthread_mutex_t *mutex)
{
    return (struct mutex *)(void *)mutex;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    (void)attr;
    memset(mutex, 0, sizeof(*mutex));
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    if (mutex_of(mutex)->owner || mutex_of(mutex)->waiters)
        violation("a mutex is destroyed that is in use");
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct mutex *lock = mutex_of(mutex);
    thread_point();
    while (lock->owner) {
        if (lock->owner == self())
            violation("a thread waits for a mutex that it has");
        lock->waiters++;
        sleep_in(ON_MUTEX, lock, NEVER);
        lock->waiters--;
    }
    lock->owner = self();
    lock->owner->mutexes++;
    return 0;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    if (mutex_of(mutex)->owner)
        return EBUSY;
    return __wrap_pthread_mutex_lock(mutex);
}

static void mutex_give(struct mutex *lock)
{
    if (lock->owner != self())
        violation("a mutex is unlocked by a thread that does not have it");
    lock->owner->mutexes--;
    lock->owner = NULL;
    for (int i = 0; lock->waiters && i < used; i++)
        if (threads[i].state == ON_MUTEX && threads[i].on == lock)
            wake(&threads[i]);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    mutex_give(mutex_of(mutex));
    thread_point();
    return 0;
}

/* ---- conditions ------------------------------------------------------------------ */

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    (void)cond;
    (void)attr;
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    for (int i = 0; i < used; i++)
        if (threads[i].state == ON_COND && threads[i].on == cond)
            violation("a condition is destroyed on which a thread sleeps");
    return 0;
}

static int cond_sleep(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    if (dice_chance(10)) /* for no reason */
        until = sim_now + dice_spread(100 * US) < until ? sim_now + 50 * US : until;
    mutex_give(mutex_of(mutex));
    trace(EVENT_BLOCK, running ? running->node : 0, running ? running->index : 0, 1, 0);
    sleep_in(ON_COND, cond, until);
    return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return cond_sleep(cond, mutex, NEVER);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  clockid_t clock, const struct timespec *until)
{
    int64_t reading = until->tv_sec * SECOND + until->tv_nsec;
    (void)clock;
    return cond_sleep(cond, mutex, clock_reach(&os_clocks[running->node], reading));
}

/* Any one of those who sleep on it. */
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    struct thread *chosen = NULL;
    uint64_t many = 0;
    for (int i = 0; i < used; i++)
        if (threads[i].state == ON_COND && threads[i].on == cond &&
            (++many == 1 || dice() % many == 0))
            chosen = &threads[i];
    if (chosen)
        wake(chosen);
    thread_point();
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    for (int i = 0; i < used; i++)
        if (threads[i].state == ON_COND && threads[i].on == cond)
            wake(&threads[i]);
    thread_point();
    return 0;
}

/* ---- threads of the library ------------------------------------------------------ */

static void background(void *arg)
{
    int index = (int)(intptr_t)arg;
    backgrounds[index].start(backgrounds[index].arg);
    backgrounds[index].start = NULL;
}

int __wrap_pthread_create(pthread_t *ret_thread, const pthread_attr_t *attr,
                          void *(*start)(void *), void *arg)
{
    int index = 0;
    (void)attr;
    while (backgrounds[index].start)
        if (++index == BACKGROUNDS)
            return EAGAIN;
    backgrounds[index].start = start;
    backgrounds[index].arg = arg;
    identity_renew(&backgrounds[index].self);
    struct thread *thread =
        thread_start(running ? running->node : os_node(), &backgrounds[index].self,
                     background, (void *)(intptr_t)index);
    thread->joinable = true;
    thread->wake_at = sim_now + dice_spread(20 * US);
    *ret_thread = (pthread_t)(thread->index + 1);
    thread_point();
    return 0;
}

int __wrap_pthread_join(pthread_t number, void **ret_value)
{
    struct thread *thread = &threads[number - 1];
    (void)ret_value;
    while (thread->state != ENDED)
        sleep_in(ON_JOIN, thread, NEVER);
    thread->state = FREE;
    return 0;
}

/* The signals of this process are its own. */
int __wrap_pthread_sigmask(int how, const sigset_t *mask, sigset_t *before)
{
    (void)how;
    (void)mask;
    (void)before;
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int64_t now = os_node_now();
    (void)clock;
    ret_now->tv_sec = now / SECOND;
    ret_now->tv_nsec = now % SECOND;
    return 0;
}
