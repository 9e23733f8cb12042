/* A clock for programs under test, between them and the C library: it runs faster than real time, and may jump.
 *
 * The file that FAST_CLOCK names holds the time (struct file), and programs map it: they see a change at once. Two clocks
 * are told apart, as the kernel does: monotonic time (with CLOCK_BOOTTIME), which only runs, and the wall clock, which
 * may also be set. Waits follow: a wait of a minute at sixty times the speed takes a second. (Debian's libfaketime has
 * no sem_clockwait, with which Python waits for its locks.)
 *
 * 1. A wait never ends before its deadline by this clock. It sleeps in slices, and asks the clock after each, so that a
 *    change of the speed or of the wall clock reaches waits that have begun.
 * 2. A wait for a condition variable may end too early, with 0: POSIX calls that spurious, and callers wait again. It
 *    takes at least MINIMUM_NS of real time: Python hands its interpreter's lock over after 5 ms, which would be 35 us.
 *    A sleep, and a wait for files or a semaphore, takes at least `least`: who looks for work four times a second would
 *    do nothing else.
 * 3. CPU clocks, file times, and what the kernel times by itself (TCP, SO_RCVTIMEO, timerfd, alarm) are real.
 * 4. The kernel's answer whether a time service has the wall clock in hand is `synchronised`, unless that is -1.
 * 5. Programs that make system calls themselves, as those in Go do, see the real time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL
#define SLICE_NS 50000000LL
#define MINIMUM_NS 1000000LL
#define CONDITION_IS_MONOTONIC 2 /* of __wrefs: glibc, nptl/pthreadP.h */

/* What holds since some moment: the real monotonic time then, both clocks then, and the speed. */
struct pace {
    int64_t since, monotonic, wall;
    double speed;
};
/* The writer fills the next pace, then says that it is the current one; a reader is never eight changes behind. */
struct file {
    uint64_t changes;
    int64_t least, synchronised;
    struct pace paces[8];
};

static const struct file real_time = {0, 0, -1, {{0, 0, 0, 1.0}}};
static const volatile struct file *file = &real_time;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_clock_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
static int (*real_pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *);
static int (*real_epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
static int (*real_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void) {
    const char *name = getenv("FAST_CLOCK");
    int opened = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (opened >= 0) {
        void *mapped = mmap(NULL, sizeof *file, PROT_READ, MAP_SHARED, opened, 0);
        if (mapped != MAP_FAILED) file = mapped;
        close(opened);
    }
    real_clock_nanosleep = dlsym(RTLD_NEXT, "clock_nanosleep");
    real_ppoll = dlsym(RTLD_NEXT, "ppoll");
    real_pselect = dlsym(RTLD_NEXT, "pselect");
    real_epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
    real_sem_clockwait = dlsym(RTLD_NEXT, "sem_clockwait");
    real_cond_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

static int64_t in_ns(const struct timespec *time) { return time->tv_sec * SECOND_NS + time->tv_nsec; }

static struct timespec from_ns(int64_t ns) {
    struct timespec time = {ns / SECOND_NS, ns % SECOND_NS};
    if (time.tv_nsec < 0) time.tv_sec--, time.tv_nsec += SECOND_NS;
    return time;
}

static int64_t real_ns(void) {
    struct timespec now;
    pthread_once(&once, prepare);
    real_clock_gettime(CLOCK_MONOTONIC, &now);
    return in_ns(&now);
}

static struct pace current(void) {
    const volatile struct pace *pace = &file->paces[file->changes % 8];
    return (struct pace){pace->since, pace->monotonic, pace->wall, pace->speed};
}

static int is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

static int is_monotonic(clockid_t clock) {
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE ||
           clock == CLOCK_BOOTTIME;
}

static int64_t now_ns(clockid_t clock) {
    int64_t real = real_ns();
    struct pace pace = current();
    return (is_wall(clock) ? pace.wall : pace.monotonic) + (int64_t)((double)(real - pace.since) * pace.speed);
}

/* How long to sleep, in real time, towards a deadline of this clock: a slice at most; 0 when it has come. */
static int64_t slice_of(clockid_t clock, int64_t deadline, int64_t least) {
    int64_t left = deadline - now_ns(clock);
    if (left <= 0) return 0;
    double real = (double)left / current().speed;
    int64_t piece = real < SLICE_NS ? (int64_t)real + 1 : SLICE_NS;
    return piece < least ? least : piece;
}

static int64_t slice(clockid_t clock, int64_t deadline) { return slice_of(clock, deadline, file->least); }

/* The end of a slice that begins now, by the real monotonic clock. */
static struct timespec end_of(int64_t slice_ns) { return from_ns(real_ns() + slice_ns); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    pthread_once(&once, prepare);
    if (file == &real_time || !(is_wall(clock) || is_monotonic(clock))) return real_clock_gettime(clock, now);
    *now = from_ns(now_ns(clock));
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    if (zone) memset(zone, 0, sizeof(struct timezone));
    *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
    return result;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    if (base != TIME_UTC) return 0;
    return clock_gettime(CLOCK_REALTIME, now) ? 0 : base;
}

int adjtimex(struct timex *time) {
    pthread_once(&once, prepare);
    int state = (int)syscall(SYS_adjtimex, time);
    if (state < 0 || file->synchronised < 0) return state;
    time->status = file->synchronised ? time->status & ~STA_UNSYNC : time->status | STA_UNSYNC;
    return file->synchronised ? TIME_OK : TIME_ERROR;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left) {
    pthread_once(&once, prepare);
    if (file == &real_time || !(is_wall(clock) || is_monotonic(clock)))
        return real_clock_nanosleep(clock, flags, wanted, left);
    if (wanted->tv_nsec < 0 || wanted->tv_nsec >= SECOND_NS || wanted->tv_sec < 0) return EINVAL;
    clockid_t by = flags & TIMER_ABSTIME ? clock : CLOCK_MONOTONIC; /* a set wall clock moves no relative wait */
    int64_t deadline = in_ns(wanted) + (flags & TIMER_ABSTIME ? 0 : now_ns(by));
    for (int64_t piece; (piece = slice(by, deadline)) > 0;) {
        struct timespec end = end_of(piece);
        int result = real_clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
        if (result) {
            int64_t rest = deadline - now_ns(by);
            if (left && !(flags & TIMER_ABSTIME)) *left = from_ns(rest > 0 ? rest : 0);
            return result;
        }
    }
    return 0;
}

int nanosleep(const struct timespec *wanted, struct timespec *left) {
    int result = clock_nanosleep(CLOCK_MONOTONIC, 0, wanted, left);
    if (!result) return 0;
    errno = result;
    return -1;
}

int usleep(useconds_t microseconds) {
    struct timespec wanted = from_ns((int64_t)microseconds * 1000);
    return nanosleep(&wanted, NULL);
}

unsigned int sleep(unsigned int seconds) {
    struct timespec wanted = {seconds, 0}, left = {0, 0};
    return nanosleep(&wanted, &left) ? (unsigned int)left.tv_sec + (left.tv_nsec > 0) : 0;
}

int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    pthread_once(&once, prepare);
    if (timeout == NULL || file == &real_time) return real_ppoll(polled, count, timeout, mask);
    int64_t deadline = now_ns(CLOCK_MONOTONIC) + in_ns(timeout);
    for (;;) {
        int64_t piece = slice(CLOCK_MONOTONIC, deadline);
        struct timespec wait = from_ns(piece);
        int result = real_ppoll(polled, count, &wait, mask);
        if (result || piece == 0) return result;
    }
}

int poll(struct pollfd *polled, nfds_t count, int timeout_ms) {
    struct timespec timeout = from_ns(timeout_ms * 1000000LL);
    return ppoll(polled, count, timeout_ms < 0 ? NULL : &timeout, NULL);
}

int epoll_pwait(int set, struct epoll_event *events, int count, int timeout_ms, const sigset_t *mask) {
    pthread_once(&once, prepare);
    if (timeout_ms > 0 && file != &real_time) { /* epoll knows only milliseconds: wait until the set is readable */
        struct pollfd polled = {set, POLLIN, 0};
        struct timespec timeout = from_ns(timeout_ms * 1000000LL);
        if (ppoll(&polled, 1, &timeout, mask) < 0) return -1;
        timeout_ms = 0;
    }
    return real_epoll_pwait(set, events, count, timeout_ms, mask);
}

int epoll_wait(int set, struct epoll_event *events, int count, int timeout_ms) {
    return epoll_pwait(set, events, count, timeout_ms, NULL);
}

/* A set may be missing. Each slice gets the caller's sets again, because the kernel clears them at a timeout. Callers may
 * have sets larger than fd_set; only the words up to `count` are theirs. */
static void copy(fd_set *to, const fd_set *from, int count) {
    if (to && from) memcpy(to, from, ((size_t)count + NFDBITS - 1) / NFDBITS * sizeof(fd_mask));
}

int pselect(int count, fd_set *reads, fd_set *writes, fd_set *excepts, const struct timespec *timeout,
            const sigset_t *mask) {
    pthread_once(&once, prepare);
    if (timeout == NULL || file == &real_time || count < 0 || count > FD_SETSIZE)
        return real_pselect(count, reads, writes, excepts, timeout, mask);
    fd_set asked_reads, asked_writes, asked_excepts;
    copy(&asked_reads, reads, count);
    copy(&asked_writes, writes, count);
    copy(&asked_excepts, excepts, count);
    int64_t deadline = now_ns(CLOCK_MONOTONIC) + in_ns(timeout);
    for (;;) {
        int64_t piece = slice(CLOCK_MONOTONIC, deadline);
        struct timespec wait = from_ns(piece);
        int result = real_pselect(count, reads, writes, excepts, &wait, mask);
        if (result || piece == 0) return result;
        copy(reads, &asked_reads, count);
        copy(writes, &asked_writes, count);
        copy(excepts, &asked_excepts, count);
    }
}

int select(int count, fd_set *restrict reads, fd_set *restrict writes, fd_set *restrict excepts,
           struct timeval *restrict timeout) {
    struct timespec wanted;
    if (timeout) wanted = from_ns(timeout->tv_sec * SECOND_NS + timeout->tv_usec * 1000LL);
    return pselect(count, reads, writes, excepts, timeout ? &wanted : NULL, NULL);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline) {
    pthread_once(&once, prepare);
    if (file == &real_time) return real_sem_clockwait(semaphore, clock, deadline);
    for (;;) {
        int64_t piece = slice(clock, in_ns(deadline));
        struct timespec end = end_of(piece);
        int result = real_sem_clockwait(semaphore, CLOCK_MONOTONIC, &end);
        if (result == 0 || errno != ETIMEDOUT || piece == 0) return result;
    }
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    return sem_clockwait(semaphore, CLOCK_REALTIME, deadline);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict deadline) {
    pthread_once(&once, prepare);
    if (file == &real_time) return real_cond_clockwait(condition, mutex, clock, deadline);
    int64_t left = in_ns(deadline) - now_ns(clock), piece = slice_of(clock, in_ns(deadline), 0);
    int64_t least = left < MINIMUM_NS ? left : MINIMUM_NS;
    struct timespec end = end_of(piece < least ? least : piece);
    int result = real_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &end);
    return result == ETIMEDOUT && slice(clock, in_ns(deadline)) > 0 ? 0 : result;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    int monotonic = condition->__data.__wrefs & CONDITION_IS_MONOTONIC;
    return pthread_cond_clockwait(condition, mutex, monotonic ? CLOCK_MONOTONIC : CLOCK_REALTIME, deadline);
}
