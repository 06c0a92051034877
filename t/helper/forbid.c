/*
 * forbid WHAT COMMAND...: runs a command, and all that it starts, without some
 * system calls: they fail with EPERM, as in a sandbox. Needs no privilege.
 *
 * WHAT is one of: socket, fork, inotify, flock.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *what;
	int calls[6];
} FORBIDDEN[] = {
	{ "socket", { SYS_socket, SYS_socketpair, -1 } },
	{ "fork",
	  {
#ifdef SYS_fork
		  SYS_fork,
		  SYS_vfork,
#endif
		  SYS_clone,
		  SYS_clone3,
		  -1 } },
	{ "inotify", {
#ifdef SYS_inotify_init
			     SYS_inotify_init,
#endif
			     SYS_inotify_init1,
			     -1 } },
	{ "flock", { SYS_flock, -1 } },
};

static int forbid(const int *calls)
{
	struct sock_filter program[32];
	struct sock_fprog filter = { 0, program };
	size_t n = 0;

	program[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						     offsetof(struct seccomp_data, nr));
	for (; *calls >= 0; calls++) {
		/* Who may not use clone3 falls back on clone only if told that
		 * there is none. */
		int error = *calls == SYS_clone3 ? ENOSYS : EPERM;
		program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *calls, 0, 1);
		program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							     SECCOMP_RET_ERRNO | error);
	}
	program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter.len = n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv)
{
	size_t i;

	for (i = 0; argc > 2 && i < sizeof(FORBIDDEN) / sizeof(*FORBIDDEN); i++) {
		if (strcmp(FORBIDDEN[i].what, argv[1]))
			continue;
		if (forbid(FORBIDDEN[i].calls)) {
			perror("forbid");
			return 125;
		}
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		return 127;
	}
	fprintf(stderr, "usage: forbid socket|fork|inotify|flock COMMAND...\n");
	return 125;
}
