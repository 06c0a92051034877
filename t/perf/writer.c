/*
 * Writes many small files: the stand-in for a build, and the maker of a million changes.
 *
 *   writer TOP DIRS FILES PROCESSES [unlink]
 *
 * makes DIRS directories below TOP with FILES files of 100 bytes in each, shared out
 * among PROCESSES processes; with "unlink" each file is removed again at once.
 *
 * Why it is fair: it does nothing but the system calls a writer cannot do without
 * (mkdir, open, write, close), so the watcher's share of CPU against it is the largest
 * any build could show. What it does not show: a compiler, which works a hundred times
 * longer for each file that it writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char data[100], path[4096];
	int dirs, files, processes, p, d, f, status, bad = 0;

	if (argc < 5)
		return 2;
	dirs = atoi(argv[2]);
	files = atoi(argv[3]);
	processes = atoi(argv[4]);
	memset(data, 'x', sizeof(data));
	if (mkdir(argv[1], 0777) && errno != EEXIST)
		return 1;
	for (p = 0; p < processes; p++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid)
			continue;
		for (d = p; d < dirs; d += processes) {
			snprintf(path, sizeof(path), "%s/d%d", argv[1], d);
			if (mkdir(path, 0777) && errno != EEXIST)
				_exit(1);
			for (f = 0; f < files; f++) {
				int fd;

				snprintf(path, sizeof(path), "%s/d%d/file%d.o", argv[1], d, f);
				fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
				if (fd < 0 || write(fd, data, sizeof(data)) != sizeof(data))
					_exit(1);
				close(fd);
				if (argc > 5 && unlink(path))
					_exit(1);
			}
		}
		_exit(0);
	}
	for (p = 0; p < processes; p++)
		if (wait(&status) < 0 || status)
			bad = 1;
	return bad;
}
