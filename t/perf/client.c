/*
 * Speaks to a watcher (or to the toy server) as the hook does, without being a process
 * for each query: shows the watcher's part of a query alone.
 *
 *   client header TOP                 the request's 32 bytes as hexadecimal digits
 *   client once   TOP SOCKET TOKEN    the answer's body, on stdout
 *   client status TOP SOCKET          what the watcher says of itself (JSON)
 *   client stop   TOP SOCKET          ends the watcher
 *   client lat    TOP SOCKET TOKEN N [WARMUPS]   N queries in turn, after 20 not counted;
 *                                     a line each: "SEND_NS ALL_NS BYTES"
 *   client many   TOP SOCKET TOKEN CLIENTS N   CLIENTS processes at once, N queries each;
 *                                     a line each: "ALL_NS ok|fail"
 *   client exact  TOP SOCKET T0_NS    asks until an answer is exact; nanoseconds since T0
 *   client now                        CLOCK_MONOTONIC in nanoseconds
 *
 * SEND_NS is from the request's write to the last byte of the answer; ALL_NS counts the
 * connect as well. Each query has a connection of its own, as each hook has.
 *
 * Why it is fair: it waits in read(2), so the time has both wake-ups in it (the
 * watcher's and ours); against the toy server the same client shows what of it is the
 * kernel's. What it does not show: git, and the start of the hook's process.
 * The frames are described in src/wire.rs.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEAD_OUT 32
#define HEAD_BACK 16
#define TOKEN_LIMIT 512

static unsigned char head[HEAD_OUT];
static char *body;
static size_t room = 1 << 22;
static struct sockaddr_un sa;

struct shared {
	volatile int go;
	long long ns[];
};

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static int prepare_header(const char *top)
{
	struct stat t, ns;
	unsigned long long words[3];

	if (stat(top, &t))
		return -1;
	words[0] = t.st_dev;
	words[1] = t.st_ino;
	words[2] = stat("/proc/self/ns/mnt", &ns) ? 0 : ns.st_ino;
	memcpy(head, "TW\1\1", 4);
	memcpy(head + 8, words, sizeof(words));
	return 0;
}

/* Returns the number of bytes in body, or -1. */
static long query(const char *token, long long *send_ns, long long *all_ns)
{
	unsigned char request[HEAD_OUT + TOKEN_LIMIT];
	size_t n = strlen(token), have = 0;
	unsigned long long length;
	long long start = now(), sent;
	ssize_t got;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || n > TOKEN_LIMIT)
		return -1;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(fd);
		return -1;
	}
	memcpy(request, head, HEAD_OUT);
	request[4] = (unsigned char)(n & 255);
	request[5] = (unsigned char)(n >> 8);
	memcpy(request + HEAD_OUT, token, n);
	sent = now();
	if (write(fd, request, HEAD_OUT + n) != (ssize_t)(HEAD_OUT + n)) {
		close(fd);
		return -1;
	}
	for (;;) {
		got = read(fd, body + have, room - have);
		if (got <= 0) {
			close(fd);
			return -1;
		}
		have += (size_t)got;
		if (have < HEAD_BACK)
			continue;
		memcpy(&length, body + 8, sizeof(length));
		if (length > room - HEAD_BACK) {
			close(fd);
			return -1;
		}
		if (have >= HEAD_BACK + length)
			break;
	}
	*all_ns = now() - start;
	*send_ns = *all_ns + start - sent;
	close(fd);
	if (body[0] != 'T' || body[1] != 'W' || body[3] != 0)
		return -1;
	memmove(body, body + HEAD_BACK, (size_t)length);
	return (long)length;
}

static int lat(const char *token, int count, int warmups)
{
	int i;
	long long *got = calloc((size_t)count * 3, sizeof(*got));

	for (i = -warmups; i < count; i++) {
		long long send_ns, all_ns;
		long n = query(token, &send_ns, &all_ns);

		if (n < 0) {
			fprintf(stderr, "client: query failed\n");
			return 1;
		}
		if (i < 0)
			continue;
		got[3 * i] = send_ns;
		got[3 * i + 1] = all_ns;
		got[3 * i + 2] = n;
	}
	for (i = 0; i < count; i++)
		printf("%lld %lld %lld\n", got[3 * i], got[3 * i + 1], got[3 * i + 2]);
	return 0;
}

static int many(const char *token, int clients, int count)
{
	size_t bytes = sizeof(struct shared) + (size_t)clients * (size_t)count * sizeof(long long);
	struct shared *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct timespec a_bit = { 0, 1000000 };
	int c, i;

	if (s == MAP_FAILED)
		return 1;
	for (c = 0; c < clients; c++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid)
			continue;
		while (!s->go) /* all begin at once */
			nanosleep(&a_bit, NULL);
		for (i = 0; i < count; i++) {
			long long send_ns, all_ns;
			long n = query(token, &send_ns, &all_ns);

			s->ns[c * count + i] = n < 0 ? -1 : all_ns;
		}
		_exit(0);
	}
	s->go = 1;
	for (c = 0; c < clients; c++)
		wait(NULL);
	for (i = 0; i < clients * count; i++)
		printf("%lld %s\n", s->ns[i], s->ns[i] > 0 ? "ok" : "fail");
	return 0;
}

static int exact(long long t0)
{
	struct timespec a_bit = { 0, 5000000 };
	char token[TOKEN_LIMIT + 1] = "none";
	long long limit = now() + 120000000000LL;

	while (now() < limit) {
		long long send_ns, all_ns;
		long n = query(token, &send_ns, &all_ns);

		if (n > 0) {
			size_t t = strnlen(body, (size_t)n);

			if ((size_t)n == t + 1 && strcmp(token, "none")) {
				printf("%lld\n", now() - t0);
				return 0;
			}
			if (t && t <= TOKEN_LIMIT) {
				memcpy(token, body, t);
				token[t] = 0;
			}
		}
		nanosleep(&a_bit, NULL);
	}
	fprintf(stderr, "client: no exact answer within two minutes\n");
	return 1;
}

int main(int argc, char **argv)
{
	long long a, b;
	long n;
	int i;

	if (argc == 2 && !strcmp(argv[1], "now"))
		return printf("%lld\n", now()) < 0;
	if (argc < 3 || prepare_header(argv[2]))
		return 2;
	if (!strcmp(argv[1], "header")) {
		for (i = 0; i < HEAD_OUT; i++)
			printf("%02x", head[i]);
		return putchar('\n') < 0;
	}
	if (argc < 4 || strlen(argv[3]) >= sizeof(sa.sun_path))
		return 2;
	sa.sun_family = AF_UNIX;
	strcpy(sa.sun_path, argv[3]);
	body = malloc(room);
	if (!body)
		return 1;
	memset(body, 0, room); /* fault the pages in now, not in the first query */
	if (!strcmp(argv[1], "status") || !strcmp(argv[1], "stop")) {
		head[3] = argv[1][2] == 'a' ? 2 : 3; /* Kind in src/wire.rs */
		n = query("", &a, &b);
		return n < 0 || fwrite(body, 1, (size_t)n, stdout) != (size_t)n;
	}
	if (argc < 5)
		return 2;
	if (!strcmp(argv[1], "once")) {
		n = query(argv[4], &a, &b);
		return n < 0 || fwrite(body, 1, (size_t)n, stdout) != (size_t)n;
	}
	if (!strcmp(argv[1], "lat") && argc >= 6)
		return lat(argv[4], atoi(argv[5]), argc > 6 ? atoi(argv[6]) : 20);
	if (!strcmp(argv[1], "many") && argc == 7)
		return many(argv[4], atoi(argv[5]), atoi(argv[6]));
	if (!strcmp(argv[1], "exact"))
		return exact(atoll(argv[4]));
	return 2;
}
