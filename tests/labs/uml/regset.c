/* Lets User Mode Linux run on processors whose extended state is larger than it knows (AMX, for one).
 *
 * It hands ptrace as many bytes of a process' floating-point state as it has room for; the host takes all of
 * them or answers EFAULT. So what is missing is taken from the process itself. To be preloaded. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char whole[65536]; /* one process traces: the stacks of User Mode Linux are too small for this */

long ptrace(enum __ptrace_request request, ...)
{
	va_list rest;
	va_start(rest, request);
	pid_t pid = va_arg(rest, pid_t);
	void *address = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);
	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
		struct iovec *given = data, all = {whole, sizeof whole};
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) == 0 && all.iov_len > given->iov_len) {
			memcpy(whole, given->iov_base, given->iov_len);
			return syscall(SYS_ptrace, request, pid, address, &all);
		}
	}
	if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER) { /* as the C library does it */
		long found;
		long result = syscall(SYS_ptrace, request, pid, address, &found);
		if (result < 0)
			return result;
		errno = 0;
		return found;
	}
	return syscall(SYS_ptrace, request, pid, address, data);
}
