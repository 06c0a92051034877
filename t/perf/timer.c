/*
 * Times short commands: fork, exec, read their stdout to the end, wait; as git does
 * with a hook.
 *
 *   timer [-n RUNS] [-w WARMUPS] [-o pipe|null|FILE] [-t turns|same] COMMAND [ARG...]
 *         [::: COMMAND [ARG...]]...
 *
 * prints one line a run: "INDEX WALL_NS USER_US SYS_US MINOR_FAULTS MAJOR_FAULTS", INDEX
 * being the command's place in the arguments.
 *
 * Why not hyperfine: it cannot interleave two commands, keeps no page faults, and its
 * own work between runs is of the size of what is measured here (half a millisecond).
 * Why it is fair: the commands take turns within every round, each round begins with
 * another one (unless "-t same": commands that undo each other), and nothing but the clock
 * is read between start and end. posix_spawn (vfork) makes the start cost the same
 * whatever the timer has in memory.
 * What it does not show: git's own fork, which copies page tables of a big index; see
 * the part "query".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct sample {
	long long wall;
	struct rusage use;
};

static char buffer[1 << 17];

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void run(char **argv, const char *out, struct sample *s)
{
	posix_spawn_file_actions_t fa;
	int piped = !strcmp(out, "pipe"), p[2] = { -1, -1 }, fd = -1, status;
	long long start;
	pid_t pid;

	posix_spawn_file_actions_init(&fa);
	if (!piped) {
		fd = open(!strcmp(out, "null") ? "/dev/null" : out,
			  O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0)
			die(out);
		posix_spawn_file_actions_adddup2(&fa, fd, 1);
	}
	start = now();
	if (piped) {
		if (pipe2(p, O_CLOEXEC))
			die("pipe2");
		posix_spawn_file_actions_adddup2(&fa, p[1], 1);
	}
	if (posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ)) {
		fprintf(stderr, "timer: cannot start %s\n", argv[0]);
		exit(1);
	}
	if (piped) {
		close(p[1]);
		while (read(p[0], buffer, sizeof(buffer)) > 0)
			;
		close(p[0]);
	}
	if (wait4(pid, &status, 0, &s->use) != pid)
		die("wait4");
	s->wall = now() - start;
	if (fd >= 0)
		close(fd);
	posix_spawn_file_actions_destroy(&fa);
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "timer: %s ended with status 0x%x\n", argv[0], status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int runs = 10, warmups = 2, turns = 1, count = 0, i, k, at;
	const char *out = "pipe";
	char ***commands = calloc((size_t)argc + 1, sizeof(*commands));
	struct sample *all;

	for (at = 1; at < argc && argv[at][0] == '-'; at += 2) {
		if (at + 1 >= argc)
			return 2;
		if (argv[at][1] == 'n')
			runs = atoi(argv[at + 1]);
		else if (argv[at][1] == 'w')
			warmups = atoi(argv[at + 1]);
		else if (argv[at][1] == 'o')
			out = argv[at + 1];
		else if (argv[at][1] == 't')
			turns = strcmp(argv[at + 1], "same");
		else
			return 2;
	}
	while (at < argc) {
		commands[count++] = argv + at;
		while (at < argc && strcmp(argv[at], ":::"))
			at++;
		if (at < argc)
			argv[at++] = NULL;
	}
	if (!count)
		return 2;
	all = calloc((size_t)(runs * count), sizeof(*all));
	if (!all)
		die("calloc");
	for (i = -warmups; i < runs; i++)
		for (k = 0; k < count; k++) {
			int which = turns ? (k + i + warmups) % count : k;
			struct sample s;

			run(commands[which], out, &s);
			if (i >= 0)
				all[i * count + which] = s;
		}
	for (i = 0; i < runs; i++)
		for (k = 0; k < count; k++) {
			struct sample *s = all + i * count + k;

			printf("%d %lld %lld %lld %ld %ld\n", k, s->wall,
			       s->use.ru_utime.tv_sec * 1000000LL + s->use.ru_utime.tv_usec,
			       s->use.ru_stime.tv_sec * 1000000LL + s->use.ru_stime.tv_usec,
			       s->use.ru_minflt, s->use.ru_majflt);
		}
	return 0;
}
