/* The C loops of bench_scan.py: keep, schedule, reopen. One scan for each byte on standard input, answered with its nanoseconds. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST_PIDS 4194304

static int *kept, *schedules;
static char (*scheduled)[64]; /* what schedstat said last */

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Tell whether a process has not been on a CPU since the last scan, by its kept schedstat. */
static int sleeps(int pid, const char *name)
{
    char path[64], data[64] = "";
    int fd = schedules[pid] - 1;
    if (fd < 0 || pread(fd, data, sizeof data, 0) <= 0) {
        if (fd >= 0)
            close(fd);
        snprintf(path, sizeof path, "/proc/%s/schedstat", name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        schedules[pid] = fd + 1;
        if (fd < 0 || pread(fd, data, sizeof data, 0) <= 0)
            return 0;
    }
    int same = !memcmp(data, scheduled[pid], sizeof data);
    memcpy(scheduled[pid], data, sizeof data);
    return same;
}

static long scan(int keep, int by_schedule)
{
    char path[64], data[1024];
    long sum = 0;
    struct dirent *entry;
    DIR *proc = opendir("/proc");
    if (!proc)
        exit(1);
    while ((entry = readdir(proc))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        int pid = atoi(entry->d_name);
        if (by_schedule && pid < MOST_PIDS && sleeps(pid, entry->d_name))
            continue;
        int fd = keep && pid < MOST_PIDS ? kept[pid] - 1 : -1;
        long n = fd >= 0 ? pread(fd, data, sizeof data, 0) : -1;
        if (n < 0) {
            if (fd >= 0)
                close(fd);
            snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
            fd = open(path, O_RDONLY | O_CLOEXEC);
            n = fd >= 0 ? read(fd, data, sizeof data) : -1;
            if (keep && pid < MOST_PIDS)
                kept[pid] = fd + 1;
            else if (fd >= 0)
                close(fd);
        }
        if (n > 0)
            sum += n;
    }
    closedir(proc);
    return sum;
}

int main(int argc, char **argv)
{
    int by_schedule = argc > 1 && !strcmp(argv[1], "schedule");
    int keep = by_schedule || (argc > 1 && !strcmp(argv[1], "keep"));
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    kept = calloc(MOST_PIDS, sizeof *kept);
    schedules = calloc(MOST_PIDS, sizeof *schedules);
    scheduled = calloc(MOST_PIDS, sizeof *scheduled);
    while (getchar() != EOF) {
        long long started = now();
        if (scan(keep, by_schedule) < 0)
            return 1;
        printf("%lld\n", now() - started);
        fflush(stdout);
    }
    return 0;
}
