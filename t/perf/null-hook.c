/*
 * A fsmonitor hook that does nothing: says "nothing changed" for any token.
 *
 * Why it is here: it costs what git itself pays for having a hook at all (fork, exec,
 * a pipe, wait) and nothing else, so it is the floor no hook can get below.
 * What it is not: a monitor. Its answers are wrong as soon as a file changes; figures
 * of it for a dirty tree are a floor too, with a wrong status.
 *
 * Static, so that no dynamic loader is in the figure.
 */
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	size_t n;

	if (argc < 3)
		return 1;
	n = strlen(argv[2]) + 1; /* the token and its NUL: no paths */
	return write(1, argv[2], n) != (ssize_t)n;
}
