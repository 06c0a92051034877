# shellcheck shell=bash
#
# What tests of the people's commands share.

# field NAME [DIR]: a number or word out of `status --json`.
field() {
	{ "$TREEWATCH" status --json "${2:-.}" || :; } |
		sed -n 's/^  "'"$1"'": "\{0,1\}\([^",]*\)"\{0,1\},\{0,1\}$/\1/p'
}

is_state() {
	equal "$1" "$(field state "${2:-.}")" state
}

# exits CODE COMMAND...
exits() {
	local want=$1 code=0
	shift
	"$@" || code=$?
	equal "$want" "$code" "exit code of $*"
}

# ends_with CODE PID: the process, a child of this shell, ends by itself, with this code.
ends_with() {
	test_poll 20 has_ended "$2"
	exits "$1" wait "$2"
}

has_ended() {
	! test -e "/proc/$1" || grep -q '^State:.*Z' "/proc/$1/status"
}

plain_repo() {
	git init -q "$1"
	plant "$1"
	commit_all "$1"
}

# in_terminal COMMAND [ARGUMENT...]: run it in a terminal of its own, with what it
# prints, colours and all, to stdout; ends with its exit code.
in_terminal() {
	local line
	printf -v line '%q ' "$@"
	SHELL=/bin/bash TERM=xterm script --quiet --return --echo never --command "$line" /dev/null </dev/null
}

# plain_text FILE: nothing in it that only a terminal understands.
plain_text() {
	if grep -q $'\033' "$1"; then fail "$1 has colours or the like: $(cat -v "$1")"; fi
}
