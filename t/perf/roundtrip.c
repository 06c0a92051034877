/*
 * The least a program can do that asks a server something over a Unix socket: the
 * reference for "the hook as a process".
 *
 *   roundtrip SOCKET HEADER-HEX TOKEN   client: connect, send, read, print, exit
 *   roundtrip -s SOCKET                 toy server: answers any request with its token
 *
 * Why it is fair: static C, no argument parsing to speak of, one connection, one
 * request and one answer of the same bytes as treewatch sends (32 bytes and a token
 * there, 16 bytes and the token back, see src/wire.rs), one write to stdout. The same
 * client can be pointed at the toy server or at a treewatch watcher.
 * What it does not do: find the worktree or the socket, check who answers, keep a
 * deadline, start anything. A real hook must, and pays for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEAD_OUT 32
#define HEAD_BACK 16
#define TOKEN_MAX_LEN 512

static int address(struct sockaddr_un *sa, const char *path)
{
	size_t n = strlen(path);

	if (n >= sizeof(sa->sun_path))
		return -1;
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path, path, n + 1);
	return 0;
}

static int digit(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static int client(const char *path, const char *hex, const char *token)
{
	struct sockaddr_un sa;
	char request[HEAD_OUT + TOKEN_MAX_LEN], answer[65536];
	size_t n = strlen(token), have = 0, i;
	ssize_t got;
	int fd;

	if (n > TOKEN_MAX_LEN || strlen(hex) != 2 * HEAD_OUT || address(&sa, path))
		return 2;
	for (i = 0; i < HEAD_OUT; i++)
		request[i] = (char)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
	request[4] = (char)(n & 255);
	request[5] = (char)(n >> 8);
	memcpy(request + HEAD_OUT, token, n);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return 1;
	if (write(fd, request, HEAD_OUT + n) != (ssize_t)(HEAD_OUT + n))
		return 1;
	for (;;) {
		unsigned long long length;

		got = read(fd, answer + have, sizeof(answer) - have);
		if (got <= 0)
			return 1;
		have += (size_t)got;
		if (have < HEAD_BACK)
			continue;
		memcpy(&length, answer + 8, sizeof(length));
		if (length > sizeof(answer) - HEAD_BACK)
			return 1;
		if (have >= HEAD_BACK + length)
			break;
	}
	return write(1, answer + HEAD_BACK, have - HEAD_BACK) != (ssize_t)(have - HEAD_BACK);
}

static int server(const char *path)
{
	struct sockaddr_un sa;
	int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (l < 0 || address(&sa, path))
		return 2;
	unlink(path);
	if (bind(l, (struct sockaddr *)&sa, sizeof(sa)) || listen(l, 128))
		return 1;
	for (;;) {
		char in[HEAD_OUT + TOKEN_MAX_LEN + 1], out[HEAD_BACK + TOKEN_MAX_LEN + 1];
		unsigned long long length;
		ssize_t got;
		size_t n;
		int fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EINTR)
				continue;
			return 1;
		}
		got = read(fd, in, sizeof(in) - 1);
		if (got > HEAD_OUT) {
			n = (size_t)got - HEAD_OUT;
			length = n + 1;
			memset(out, 0, HEAD_BACK);
			memcpy(out, "TW\1", 3);
			memcpy(out + 8, &length, sizeof(length));
			memcpy(out + HEAD_BACK, in + HEAD_OUT, n);
			out[HEAD_BACK + n] = 0;
			got = write(fd, out, HEAD_BACK + n + 1);
		}
		close(fd);
	}
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "-s"))
		return server(argv[2]);
	if (argc == 4)
		return client(argv[1], argv[2], argv[3]);
	return 2;
}
