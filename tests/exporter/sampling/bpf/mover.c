/* mover THREADS: each of its threads writes 1000 times 100 bytes, then, when told by a byte, 500 times.
 *
 * It writes a byte itself when each part is done. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t barrier;
static int null;

static void write_times(int count)
{
	static char text[100];

	while (count--)
		if (write(null, text, sizeof text) < 0)
			_exit(1);
}

static void *writer(void *unused)
{
	write_times(1000);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	write_times(500);
	pthread_barrier_wait(&barrier);
	pause();
	return unused;
}

int main(int count, char **words)
{
	int others = count > 1 ? atoi(words[1]) - 1 : 0;
	char byte = 'x';
	pthread_t thread;

	null = open("/dev/null", O_WRONLY);
	pthread_barrier_init(&barrier, 0, others + 1);
	for (int i = 0; i < others; i++)
		pthread_create(&thread, 0, writer, 0);
	write_times(1000);
	pthread_barrier_wait(&barrier);
	if (write(1, &byte, 1) < 0 || read(0, &byte, 1) < 0)
		_exit(2);
	pthread_barrier_wait(&barrier);
	write_times(500);
	pthread_barrier_wait(&barrier);
	if (write(1, &byte, 1) < 0 || read(0, &byte, 1) < 0)
		_exit(3);
	_exit(0);
}
