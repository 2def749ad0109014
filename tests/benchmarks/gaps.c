/* Counts what a busy job loses: `gaps SECS GAP_USECS` spins on each CPU, and prints for each one the gaps that were
   longer, how many a minute, their milliseconds a minute, and the longest in microseconds. For bench_noise.py. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct loop {
    pthread_t thread;
    int cpu;
    long long gaps, lost_ns, longest_ns;
};

static double secs;
static long long least_ns;

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *spin(void *argument)
{
    struct loop *loop = argument;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(loop->cpu, &only);
    pthread_setaffinity_np(pthread_self(), sizeof only, &only);
    long long last = now(), end = last + (long long)(secs * 1e9);
    while (last < end) {
        long long next = now(), gap = next - last;
        if (gap > least_ns) {
            loop->gaps++;
            loop->lost_ns += gap;
            if (gap > loop->longest_ns)
                loop->longest_ns = gap;
        }
        last = next;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    secs = atof(argv[1]);
    least_ns = atoll(argv[2]) * 1000;
    int cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct loop *loops = calloc(cpus, sizeof *loops);
    for (int each = 0; each < cpus; each++) {
        loops[each].cpu = each;
        pthread_create(&loops[each].thread, NULL, spin, &loops[each]);
    }
    for (int each = 0; each < cpus; each++) {
        pthread_join(loops[each].thread, NULL);
        printf("%d %.1f %.3f %.1f\n", each, loops[each].gaps * 60 / secs, loops[each].lost_ns * 60 / secs / 1e6,
               loops[each].longest_ns / 1e3);
    }
    return 0;
}
