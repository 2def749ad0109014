/* Makes calls of the C library fail, come short or wait, by what they are, by path and at a rate: for LD_PRELOAD.
 *
 * FAULTS_FILE names a file that is shared with whoever switches the rules, see faultrules.py. A rule counts how
 * often it applied. While there is none, calls pass at the cost of one look at memory. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, RENAME = 8, STAT = 16, LIST = 32, MAKE = 64, REMOVE = 128, SYNC = 256 };
enum { SHORT = -1, BLOCK = -2 };

struct rule {
    char pattern[224]; /* of fnmatch(3), of the whole path; its stars match slashes too */
    uint32_t calls;
    int32_t action; /* an error number, or SHORT or BLOCK */
    uint32_t per_thousand;
    uint32_t reserved;
    _Atomic uint64_t hits;
};

struct control {
    _Atomic uint32_t count;
    uint32_t reserved;
    struct rule rules[16];
};

static struct control *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_FILE");
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *memory = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED)
        control = memory;
    syscall(SYS_close, file);
}

static uint32_t chance(void) {
    static _Thread_local uint32_t state;
    if (!state)
        state = (uint32_t)(uintptr_t)&state ^ (uint32_t)time(NULL) ^ 2463534242u;
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
}

/* The path of a descriptor, and what is below it. */
static void path_of(int folder, const char *name, char *path) {
    ssize_t length = 0;
    if (!name || name[0] != '/') {
        char link[64];
        if (folder == AT_FDCWD)
            strcpy(link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
        if (length < 0)
            length = 0;
        path[length] = 0;
    }
    if (name)
        snprintf(path + length, PATH_MAX - (size_t)length, "%s%s", length ? "/" : "", name);
}

/* What becomes of a call: 0 nothing, an error number, or SHORT. One that blocks waits here, until the rules go. */
static int meets(uint32_t call, int folder, const char *name) {
    if (!control || !atomic_load(&control->count))
        return 0;
    int before = errno, found = 0;
    char path[2 * PATH_MAX];
    path_of(folder, name, path);
    uint32_t count = atomic_load(&control->count);
    for (uint32_t each = 0; each < count && each < 16 && !found; each++) {
        struct rule *rule = &control->rules[each];
        if (!(rule->calls & call) || chance() % 1000 >= rule->per_thousand || fnmatch(rule->pattern, path, 0))
            continue;
        atomic_fetch_add(&rule->hits, 1);
        if (rule->action == BLOCK)
            while (atomic_load(&control->count))
                nanosleep(&(struct timespec){0, 5000000}, NULL);
        else
            found = rule->action;
    }
    errno = before;
    return found;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAIL_ON(call, folder, name, failed) \
    do { \
        int error_ = meets(call, folder, name); \
        if (error_ > 0) { \
            errno = error_; \
            return failed; \
        } \
    } while (0)

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

/* Opening to write is a kind of writing: a file system that is full or read-only refuses it, not the reading. */
static uint32_t opening(int flags) { return flags & (O_WRONLY | O_RDWR | O_CREAT) ? OPEN | MAKE : OPEN; }

#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        MODE_OF(flags) \
        FAIL_ON(opening(flags), AT_FDCWD, path, -1); \
        return real(path, flags, mode); \
    }
#define OPENING_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(name); \
        MODE_OF(flags) \
        FAIL_ON(opening(flags), folder, path, -1); \
        return real(folder, path, flags, mode); \
    }
OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)

/* A short transfer is at least one byte long: none would be the end. */
#define SHORTENED(call) \
    int error = size ? meets(call, file, NULL) : 0; \
    if (error > 0) { \
        errno = error; \
        return -1; \
    } \
    if (error == SHORT && size > 1) \
        size = 1 + chance() % (size < 64 ? size - 1 : 63)

ssize_t read(int file, void *buffer, size_t size) {
    REAL(read);
    SHORTENED(READ);
    return real(file, buffer, size);
}
ssize_t pread(int file, void *buffer, size_t size, off_t offset) {
    REAL(pread);
    SHORTENED(READ);
    return real(file, buffer, size, offset);
}
ssize_t pread64(int file, void *buffer, size_t size, off64_t offset) {
    REAL(pread64);
    SHORTENED(READ);
    return real(file, buffer, size, offset);
}
ssize_t write(int file, const void *buffer, size_t size) {
    REAL(write);
    SHORTENED(WRITE);
    return real(file, buffer, size);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    FAIL_ON(RENAME, AT_FDCWD, to, -1);
    return real(from, to);
}
int renameat(int from_folder, const char *from, int folder, const char *to) {
    REAL(renameat);
    FAIL_ON(RENAME, folder, to, -1);
    return real(from_folder, from, folder, to);
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    FAIL_ON(MAKE, AT_FDCWD, path, -1);
    return real(path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(mkdirat);
    FAIL_ON(MAKE, folder, path, -1);
    return real(folder, path, mode);
}
int unlink(const char *path) {
    REAL(unlink);
    FAIL_ON(REMOVE, AT_FDCWD, path, -1);
    return real(path);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(unlinkat);
    FAIL_ON(REMOVE, folder, path, -1);
    return real(folder, path, flags);
}
int fsync(int file) {
    REAL(fsync);
    FAIL_ON(SYNC, file, NULL, -1);
    return real(file);
}

#define ASKING(name, record) \
    int name(const char *path, struct record *status) { \
        REAL(name); \
        FAIL_ON(STAT, AT_FDCWD, path, -1); \
        return real(path, status); \
    }
#define ASKING_FILE(name, record) \
    int name(int file, struct record *status) { \
        REAL(name); \
        FAIL_ON(STAT, file, NULL, -1); \
        return real(file, status); \
    }
#define ASKING_AT(name, record) \
    int name(int folder, const char *path, struct record *status, int flags) { \
        REAL(name); \
        FAIL_ON(STAT, folder, path, -1); \
        return real(folder, path, status, flags); \
    }
ASKING(stat, stat)
ASKING(lstat, stat)
ASKING(stat64, stat64)
ASKING(lstat64, stat64)
ASKING_FILE(fstat, stat)
ASKING_FILE(fstat64, stat64)
ASKING_AT(fstatat, stat)
ASKING_AT(fstatat64, stat64)

DIR *opendir(const char *path) {
    REAL(opendir);
    FAIL_ON(LIST, AT_FDCWD, path, NULL);
    return real(path);
}
DIR *fdopendir(int file) {
    REAL(fdopendir);
    FAIL_ON(LIST, file, NULL, NULL);
    return real(file);
}
struct dirent64 *readdir64(DIR *folder) {
    REAL(readdir64);
    FAIL_ON(LIST, dirfd(folder), NULL, NULL);
    return real(folder);
}
struct dirent *readdir(DIR *folder) {
    REAL(readdir);
    FAIL_ON(LIST, dirfd(folder), NULL, NULL);
    return real(folder);
}
