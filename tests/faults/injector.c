// Faults in the calls that a process makes on files below one folder, and in its clock. Preloaded (LD_PRELOAD), and idle until
// faults_arm is called (tests/faults/injector.py). Calls are counted from 1: those that write, or those that read.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { IDLE, COUNT, KILL, FAIL, SLOW, CLOCK };

static char folder[PATH_MAX];
static size_t folder_length;
static atomic_int mode, code, reads;       // code: an errno, or the pause of a call in ms
static atomic_long first, last, calls, shift_s;  // calls first..last get the fault; shift_s: of the clock

void faults_arm(const char *below, int fault, int on_reads, long from, long to, int value, long shift) {
  snprintf(folder, sizeof folder, "%s", below);
  folder_length = strlen(folder);
  reads = on_reads;
  first = from;
  last = to;
  code = value;
  shift_s = shift;
  calls = 0;
  mode = fault;
}

long faults_calls(void) { return calls; }

static void *next_of(const char *name) { return dlsym(RTLD_NEXT, name); }
#define NEXT(type, name) ((type)next_of(name))

static int below(const char *path) {
  return path && !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

static int is_open_below(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path);
}

// Whether the call fails; errno is set then. A killed process does not return.
static int strikes(int is_read) {
  if (is_read != reads) return 0;
  long call = ++calls;
  if (mode == COUNT || mode == CLOCK || call < first || call > last) return 0;
  if (mode == KILL) kill(getpid(), SIGKILL);
  if (mode == SLOW) {
    struct timespec pause = {code / 1000, code % 1000 * 1000000L};
    nanosleep(&pause, NULL);
    return 0;
  }
  errno = code;
  return mode == FAIL;
}

#define ON_PATH(path, is_read) (mode && below(path) && strikes(is_read))
#define ON_FILE(fd, is_read) (mode && is_open_below(fd) && strikes(is_read))

#define OPEN(name)                                                                      \
  int name(const char *path, int flags, ...) {                                          \
    va_list rest;                                                                       \
    va_start(rest, flags);                                                              \
    mode_t bits = va_arg(rest, mode_t);                                                 \
    va_end(rest);                                                                       \
    if (ON_PATH(path, (flags & O_ACCMODE) == O_RDONLY)) return -1;                      \
    return NEXT(int (*)(const char *, int, mode_t), #name)(path, flags, bits);          \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                    \
  int name(int at, const char *path, int flags, ...) {                                  \
    va_list rest;                                                                       \
    va_start(rest, flags);                                                              \
    mode_t bits = va_arg(rest, mode_t);                                                 \
    va_end(rest);                                                                       \
    if (ON_PATH(path, (flags & O_ACCMODE) == O_RDONLY)) return -1;                      \
    return NEXT(int (*)(int, const char *, int, mode_t), #name)(at, path, flags, bits); \
  }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *data, size_t count) {
  if (ON_FILE(fd, 0)) return -1;
  return NEXT(ssize_t (*)(int, const void *, size_t), "write")(fd, data, count);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (ON_FILE(fd, 0)) return -1;
  return NEXT(ssize_t (*)(int, const struct iovec *, int), "writev")(fd, parts, count);
}
ssize_t read(int fd, void *data, size_t count) {
  if (ON_FILE(fd, 1)) return -1;
  return NEXT(ssize_t (*)(int, void *, size_t), "read")(fd, data, count);
}

#define POSITIONED(name, constant, offset, is_read)                                     \
  ssize_t name(int fd, constant void *data, size_t count, offset at) {                  \
    if (ON_FILE(fd, is_read)) return -1;                                                \
    return NEXT(ssize_t (*)(int, constant void *, size_t, offset), #name)(fd, data, count, at); \
  }
POSITIONED(pwrite, const, off_t, 0)
POSITIONED(pwrite64, const, off64_t, 0)
POSITIONED(pread, , off_t, 1)
POSITIONED(pread64, , off64_t, 1)

#define OF_FILE(name)                                                                   \
  int name(int fd) {                                                                    \
    if (ON_FILE(fd, 0)) return -1;                                                      \
    return NEXT(int (*)(int), #name)(fd);                                               \
  }
OF_FILE(fsync)
OF_FILE(fdatasync)

#define OF_TWO(name)                                                                    \
  int name(const char *from, const char *to) {                                          \
    if (ON_PATH(to, 0)) return -1;                                                      \
    return NEXT(int (*)(const char *, const char *), #name)(from, to);                  \
  }
OF_TWO(rename)
OF_TWO(link)

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
  if (ON_PATH(to, 0)) return -1;
  return NEXT(int (*)(int, const char *, int, const char *, int), "linkat")(from_fd, from, to_fd, to, flags);
}
int unlink(const char *path) {
  if (ON_PATH(path, 0)) return -1;
  return NEXT(int (*)(const char *), "unlink")(path);
}
int mkdir(const char *path, mode_t bits) {
  if (ON_PATH(path, 0)) return -1;
  return NEXT(int (*)(const char *, mode_t), "mkdir")(path, bits);
}

// The clock of the day jumps at the first call, and jumps back after the last one.
static long jump(void) { return mode == CLOCK && calls >= first && calls <= last ? shift_s : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = NEXT(int (*)(clockid_t, struct timespec *), "clock_gettime")(clock, now);
  if (!result && clock == CLOCK_REALTIME) now->tv_sec += jump();
  return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int result = NEXT(int (*)(struct timeval *, void *), "gettimeofday")(now, zone);
  if (!result) now->tv_sec += jump();
  return result;
}
time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}
