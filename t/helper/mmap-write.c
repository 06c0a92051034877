/*
 * mmap-write FILE [BYTE]: change the first byte of FILE through a shared mapping.
 *
 * Says "ready" once the file is mapped and its descriptor closed, waits for a line (or
 * the end) on standard input, writes, unmaps, ends. The kernel queues no IN_MODIFY for
 * such a write; IN_CLOSE_WRITE comes when the mapping, which still holds the file, goes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char line[16], *map;
	int fd;

	if (argc < 2 || (fd = open(argv[1], O_RDWR | O_NOFOLLOW | O_NONBLOCK)) < 0)
		return 1;
	if (lseek(fd, 0, SEEK_END) < 1)
		return 1;
	map = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return 1;
	puts("ready");
	fflush(stdout);
	if (read(0, line, sizeof(line)) < 0)
		return 1;
	*map = argc > 2 ? argv[2][0] : *map + 1;
	munmap(map, 1);
	return 0;
}
