/* storm CHILDREN AT_ONCE KINDS FILE: children of all kinds that do what is known beforehand.
 *
 * What they have done stands in FILE.truth: nine numbers of 8 bytes, see `struct truth`. FILE, 256 KiB at
 * least, is what they read from and write to past the page cache. It stops itself before it begins, so that
 * it can be moved to a control group. KINDS are digits, taken in turn:
 *
 * 0 one thread, 1 four threads, 2 the leader ends first, 3 a thread calls exec, 4 leaves an orphan,
 * 5 two children that nobody waits for, 6 a thread ends the process, 7 waits for a child of its own */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct truth {
	unsigned long read, written, reads, writes, storage_read, storage_written, tasks, execs, done;
};
static struct truth *truth;
static int zero, null, file = -1;
static const char *path;

#define COUNT(what, amount) __sync_fetch_and_add(&truth->what, amount)

static void spin(long usecs)
{
	struct timespec begun, now;

	clock_gettime(CLOCK_MONOTONIC, &begun);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000 < usecs);
}

static void work(unsigned seed)
{
	static char buffer[65536];

	for (int i = 0; i < 3; i++) {
		size_t size = 1 + (seed * 7919u + i * 104729u) % 5000;

		if (write(null, buffer, size) == (ssize_t)size) {
			COUNT(written, size);
			COUNT(writes, 1);
		}
		if (read(zero, buffer, size / 2 + 1) > 0) {
			COUNT(read, size / 2 + 1);
			COUNT(reads, 1);
		}
		spin((seed * 31 + i) % 100);
	}
}

static void use_storage(unsigned seed)
{
	void *page;

	if (file < 0 || posix_memalign(&page, 4096, 8192))
		return;
	if (pread(file, page, 8192, 0) == 8192) {
		COUNT(read, 8192);
		COUNT(reads, 1);
		COUNT(storage_read, 8192);
	}
	if (pwrite(file, page, 4096, 4096 * (seed % 64)) == 4096) {
		COUNT(written, 4096);
		COUNT(writes, 1);
		COUNT(storage_written, 4096);
	}
}

static void *worker(void *seed)
{
	COUNT(tasks, 1);
	work((unsigned)(long)seed);
	return 0;
}

static void *late_worker(void *seed)
{
	COUNT(tasks, 1);
	usleep(500);
	work((unsigned)(long)seed);
	return 0;
}

static void *execs(void *seed)
{
	char text[24];

	COUNT(tasks, 1);
	COUNT(execs, 1);
	sprintf(text, "%lu", (unsigned long)seed);
	execl("/proc/self/exe", "storm", "worker", path, text, (char *)0);
	_exit(9);
}

static void *ends_all(void *seed)
{
	COUNT(tasks, 1);
	work((unsigned)(long)seed);
	syscall(SYS_exit_group, 0);
	return 0;
}

static void child_works(unsigned seed, int pause_usecs)
{
	COUNT(tasks, 1);
	usleep(pause_usecs);
	work(seed);
	_exit(0);
}

static void child(int kind, unsigned seed)
{
	pthread_t threads[3];

	COUNT(tasks, 1);
	switch (kind) {
	case 1:
		for (int i = 0; i < 3; i++)
			pthread_create(&threads[i], 0, worker, (void *)(long)(seed + i));
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], 0);
		break;
	case 2:
		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], 0, late_worker, (void *)(long)(seed + i));
		work(seed);
		syscall(SYS_exit, 0);
	case 3:
		work(seed);
		pthread_create(&threads[0], 0, execs, (void *)(long)seed);
		pause();
	case 4:
		if (fork() == 0)
			child_works(seed + 1, 300);
		break;
	case 5:
		signal(SIGCHLD, SIG_IGN);
		for (int i = 0; i < 2; i++)
			if (fork() == 0)
				child_works(seed + i, 0);
		break;
	case 6:
		pthread_create(&threads[0], 0, ends_all, (void *)(long)seed);
		pause();
	case 7:
		if (fork() == 0)
			child_works(seed + 1, 0);
		work(seed);
		wait(0);
		break;
	default:
		use_storage(seed);
	}
	work(seed);
	_exit(0);
}

static void share_truth(int flags)
{
	char name[300];

	snprintf(name, sizeof name, "%s.truth", path);
	int shared = open(name, O_RDWR | flags, 0600);

	if (shared < 0 || ftruncate(shared, sizeof *truth))
		_exit(7);
	truth = mmap(0, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
	zero = open("/dev/zero", O_RDONLY);
	null = open("/dev/null", O_WRONLY);
}

int main(int count, char **words)
{
	if (!strcmp(words[1], "worker")) {
		path = words[2];
		share_truth(0);
		work(atoi(words[3]));
		_exit(0);
	}
	int children = atoi(words[1]), at_once = atoi(words[2]), alive = 0, kinds = strlen(words[3]);

	path = words[4];
	share_truth(O_CREAT | O_TRUNC);
	file = open(path, O_RDWR | O_DIRECT); /* not every file system can */
	raise(SIGSTOP);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = 0; i < children; i++) {
		while (alive >= at_once && wait(0) > 0)
			alive--;
		pid_t pid = fork();

		if (pid == 0)
			child(words[3][i % kinds] - '0', i);
		if (pid > 0)
			alive++;
		else
			i--;
	}
	while (wait(0) > 0)
		;
	COUNT(tasks, 1);
	truth->done = 1;
	_exit(count == 0);
}
