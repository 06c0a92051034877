/*
 * The least that any watcher on inotify has to do: the floor for two of the figures.
 *
 *   floor walk            for each directory named on stdin (find . -type d) a watch and a
 *                         look at its link count, those in one directory together and from
 *                         there; prints the nanoseconds that took
 *   floor follow TOP      watches TOP and each directory made below it, reads every event,
 *                         looks once at each file that was written (it may have other
 *                         names); at SIGTERM prints the nanoseconds of CPU used
 *
 * Why it is fair: the same mask as treewatch's (src/backend/inotify.rs), static C, and
 * nothing is remembered. What it does not do: find the directories, keep a tree or a
 * journal, answer anybody, notice what came before a watch.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MASK (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_MODIFY | \
	IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR | IN_DONT_FOLLOW)
#define DIRS_MAX (1 << 20)

static volatile sig_atomic_t ended;
static char *paths[DIRS_MAX];

static void end(int signal)
{
	(void)signal;
	ended = 1;
}

static long long now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The bytes before the last slash: what leads to the directory it is in. */
static int above(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash - path : 0;
}

static int by_above(const void *a, const void *b)
{
	const char *one = *(char *const *)a, *other = *(char *const *)b;
	int n = above(one), m = above(other);
	int order = memcmp(one, other, n < m ? n : m);

	return order ? order : n != m ? n - m : strcmp(one, other);
}

static int walk(int fd)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	int count = 0, i, top, in;
	long long begun;
	struct stat st;
	const char *last = "", *name;

	while (count < DIRS_MAX && (n = getline(&line, &size, stdin)) > 0) {
		line[n - 1] = 0;
		paths[count++] = strdup(line);
	}
	top = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	qsort(paths, count, sizeof(*paths), by_above);
	begun = now(CLOCK_MONOTONIC);
	for (i = 0; i < count; i++) {
		in = above(paths[i]);
		name = in ? paths[i] + in + 1 : paths[i];
		if (above(last) != in || memcmp(last, paths[i], in)) {
			if (in)
				paths[i][in] = 0;
			if (fchdir(top) < 0 || (in && chdir(paths[i]) < 0)) {
				perror(paths[i]);
				return 1;
			}
			if (in)
				paths[i][in] = '/';
		}
		last = paths[i];
		if (inotify_add_watch(fd, name, MASK) < 0 || lstat(name, &st) < 0) {
			perror(paths[i]);
			return 1;
		}
	}
	printf("%lld\n", now(CLOCK_MONOTONIC) - begun);
	return 0;
}

static int watch(int fd, const char *path)
{
	int id = inotify_add_watch(fd, path, MASK);

	if (id >= 0 && id < DIRS_MAX) {
		free(paths[id]);
		paths[id] = strdup(path);
	}
	return id;
}

static int follow(int fd, const char *top)
{
	static char buffer[64 << 10] __attribute__((aligned(8)));
	char path[4096];
	struct sigaction action = { .sa_handler = end };
	struct stat st;
	ssize_t n;
	char *at;

	sigaction(SIGTERM, &action, NULL);
	if (watch(fd, top) < 0) {
		perror(top);
		return 1;
	}
	while (!ended && (n = read(fd, buffer, sizeof(buffer))) > 0) {
		for (at = buffer; at < buffer + n;) {
			struct inotify_event *event = (void *)at;

			at += sizeof(*event) + event->len;
			if (event->wd < 0 || event->wd >= DIRS_MAX || !paths[event->wd])
				continue;
			snprintf(path, sizeof(path), "%s/%s", paths[event->wd],
				 event->len ? event->name : "");
			if ((event->mask & IN_CREATE) && (event->mask & IN_ISDIR))
				watch(fd, path);
			else if (event->mask & IN_CLOSE_WRITE)
				lstat(path, &st);
		}
		/* As treewatch does: it costs less to take many events at once. */
		if ((size_t)n < sizeof(buffer) / 2)
			usleep(10000);
	}
	printf("%lld\n", now(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}

int main(int argc, char **argv)
{
	int fd = inotify_init1(IN_CLOEXEC);

	if (fd < 0) {
		perror("inotify_init1");
		return 1;
	}
	if (argc == 2 && !strcmp(argv[1], "walk"))
		return walk(fd);
	if (argc == 3 && !strcmp(argv[1], "follow"))
		return follow(fd, argv[2]);
	return 2;
}
