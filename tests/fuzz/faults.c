/* Loaded before the C library: lets the n-th call of the system on files of one folder fail, or end the process.

   What is counted, and what is to happen, is shared by all processes that begin with this loaded (compilers,
   too): a file of the size of `struct plan`, named by $FAULTS_PLAN. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct plan {
    long count, at;   /* calls so far; the one that fails, from 1; 0: none */
    long error;       /* its errno; 0: the process is killed instead */
    char call[32];    /* which one it was */
    char folder[976]; /* absolute */
};

static struct plan *plan;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULTS_PLAN");
    int file = name ? open(name, O_RDWR) : -1;
    void *found =
        file < 0 ? MAP_FAILED : mmap(0, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    plan = found == MAP_FAILED ? 0 : found;
}

static int fails(const char *call) {
    if (!plan->at || __atomic_add_fetch(&plan->count, 1, __ATOMIC_SEQ_CST) != plan->at) return 0;
    strncpy(plan->call, call, sizeof plan->call - 1);
    if (!plan->error) kill(getpid(), SIGKILL);
    errno = (int)plan->error;
    return 1;
}

static int path_fails(const char *call, int at, const char *path) {
    char link[32], full[4096];
    size_t length;
    if (!plan || !plan->at || !path) return 0;
    length = strlen(plan->folder);
    if (path[0] == '/') return !strncmp(path, plan->folder, length) && fails(call);
    snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
    ssize_t n = readlink(link, full, sizeof full - 1);
    return n > 0 && !strncmp(full, plan->folder, length) && fails(call);
}

static int file_fails(const char *call, int file) { return path_fails(call, file, ""); }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        return path_fails(#name, AT_FDCWD, path) ? -1 : NEXT(name)(path, flags, mode); \
    }
#define OPENING_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        return path_fails(#name, at, path) ? -1 : NEXT(name)(at, path, flags, mode); \
    }
#define STREAM(name) \
    FILE *name(const char *path, const char *mode) { \
        return path_fails(#name, AT_FDCWD, path) ? 0 : NEXT(name)(path, mode); \
    }
#define ON_PATH(name, parameters, path, ...) \
    int name parameters { return path_fails(#name, AT_FDCWD, path) ? -1 : NEXT(name)(__VA_ARGS__); }
#define ON_FILE(type, name, parameters, ...) \
    type name parameters { return file_fails(#name, file) ? -1 : NEXT(name)(__VA_ARGS__); }

OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)
STREAM(fopen)
STREAM(fopen64)
ON_PATH(rename, (const char *from, const char *to), to, from, to)
ON_PATH(link, (const char *from, const char *to), to, from, to)
ON_PATH(symlink, (const char *from, const char *to), to, from, to)
ON_PATH(mkdir, (const char *path, mode_t mode), path, path, mode)
ON_PATH(rmdir, (const char *path), path, path)
ON_PATH(unlink, (const char *path), path, path)
ON_PATH(chmod, (const char *path, mode_t mode), path, path, mode)
ON_PATH(truncate, (const char *path, off_t length), path, path, length)
ON_FILE(ssize_t, write, (int file, const void *from, size_t n), file, from, n)
ON_FILE(ssize_t, read, (int file, void *to, size_t n), file, to, n)
ON_FILE(ssize_t, pwrite, (int file, const void *from, size_t n, off_t at), file, from, n, at)
ON_FILE(ssize_t, pwrite64, (int file, const void *from, size_t n, off_t at), file, from, n, at)
ON_FILE(ssize_t, pread, (int file, void *to, size_t n, off_t at), file, to, n, at)
ON_FILE(ssize_t, pread64, (int file, void *to, size_t n, off_t at), file, to, n, at)
ON_FILE(int, fsync, (int file), file)
ON_FILE(int, fdatasync, (int file), file)
ON_FILE(int, ftruncate, (int file, off_t length), file, length)
ON_FILE(int, ftruncate64, (int file, off_t length), file, length)
ON_FILE(int, fchmod, (int file, mode_t mode), file, mode)

int unlinkat(int at, const char *path, int flags) {
    return path_fails("unlinkat", at, path) ? -1 : NEXT(unlinkat)(at, path, flags);
}
