# shellcheck shell=bash
#
# The frame of every test file: runs its test_* functions one by one, each in a
# directory and with a HOME of its own, stops the watchers it started, and says
# in TAP how it went. t/README.md tells how to write one.

set -uo pipefail
shopt -s inherit_errexit

TEST_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
TOP=${TREEWATCH_TEST_TOP:-$(dirname "$TEST_DIR")}
TEST_FILE=$(cd "$(dirname "$0")" && pwd -P)/$(basename "$0")
TEST_NAME=$(basename "$0" .sh)

# shellcheck source=t/lib-environment.sh
. "$TEST_DIR/lib-environment.sh"
# shellcheck source=t/lib-repo.sh
. "$TEST_DIR/lib-repo.sh"
# shellcheck source=t/lib-oracle.sh
. "$TEST_DIR/lib-oracle.sh"
# shellcheck source=t/lib-answer.sh
. "$TEST_DIR/lib-answer.sh"

BACKENDS=${TREEWATCH_TEST_BACKEND:-inotify}

# Let the file's tests run once over each backend.
each_backend() {
	BACKENDS=${TREEWATCH_TEST_BACKEND:-inotify notify}
}

### What tests call ###########################################################

# What is said about the test itself goes to descriptor 9, so that it is read
# even when it is said by a command whose output the test sends elsewhere.
exec 9>&2

# fail WORDS: say why the test fails, and fail.
fail() {
	printf '%s\n' "$*" >&9
	return 1
}

# skip WORDS: this test cannot run here, and why.
skip() {
	printf '%s\n' "$*" >"$TEST_SKIP"
	exit 77
}

# requires COMMAND...: skip the test where one of them is not installed.
requires() {
	local command
	for command; do
		command -v "$command" >/dev/null || skip "$command is not installed"
	done
}

# must_fail COMMAND...: the command ends with an exit code of its own that is
# not 0. Being killed, or not being there at all, does not count. (128 is git's
# own for what is fatal.)
must_fail() {
	local code=0
	"$@" || code=$?
	if test "$code" = 0; then
		fail "this should have failed: $*"
	elif test "$code" -gt 125 && test "$code" != 128; then
		fail "this should have failed by itself, but ended with $code: $*"
	fi
}

# test_poll SECONDS COMMAND...: try the command again and again until it
# succeeds; fail when it has not within SECONDS. What the last try printed is
# shown.
test_poll() {
	local limit=$1 code said
	shift
	local end=$((SECONDS + limit + 1))
	# A try that fails is nothing to report.
	trap - ERR
	while :; do
		# A subshell with -e of its own, not a condition: a condition would
		# switch -e off for everything called in it.
		set +e
		said=$(trap - ERR; set -e; "$@" 2>&1 9>&1)
		code=$?
		set -e
		if test "$code" = 0; then
			if test -n "$said"; then printf '%s\n' "$said"; fi
			trap say_where ERR
			return 0
		fi
		if test "$SECONDS" -ge "$end"; then
			printf '%s\n' "$said" >&9
			trap say_where ERR
			fail "did not come true within $limit seconds: $*"
			return
		fi
		sleep 0.02 # the step of this poll
	done
}

# same EXPECTED ACTUAL: two files are equal, byte for byte; shows what differs.
same() {
	cmp -s "$1" "$2" && return
	echo "--- $1 and +++ $2 differ (NUL shown as end of line):"
	diff -u <(tr '\0' '\n' <"$1" | cat -v) <(tr '\0' '\n' <"$2" | cat -v) | sed 1,2d
	return 1
}

# equal EXPECTED ACTUAL [WHAT]: two strings are equal.
equal() {
	test "$1" = "$2" || fail "${3:-value}: expected <$1>, got <$2>"
}

# empty FILE: the file holds nothing; shows what it does hold.
empty() {
	test -e "$1" || fail "$1 is not there"
	test ! -s "$1" || fail "$1 should be empty, but holds: $(head -c 400 "$1" | cat -v)"
}

### Running ###################################################################

# The names of the test functions in the file, in the order they are written.
test_functions() {
	sed -n 's/^\(test_[a-z0-9_]*\)().*/\1/p' "$TEST_FILE"
}

# Where in the test a command failed: the trap on ERR.
say_where() {
	local command=$BASH_COMMAND frame
	exec >&9
	echo "failed: $command"
	for ((frame = 1; frame < ${#FUNCNAME[@]} - 1; frame++)); do
		case ${FUNCNAME[frame]} in
		run_one | run_tests) break ;;
		esac
		echo "    in ${FUNCNAME[frame]}, $(basename "${BASH_SOURCE[frame]}") line ${BASH_LINENO[frame - 1]}"
	done
}

# run_one FUNCTION NUMBER BACKEND: run it, clean up after it, print its line.
run_one() {
	local function=$1 number=$2 backend=$3 what code
	what=${function#test_}
	what=${what//_/ }
	test "$BACKENDS" = inotify || what="$what ($backend)"

	local place=$TRASH/$number log=$TRASH/$number.log
	TEST_SKIP=$TRASH/$number.skip
	new_home "$place" "$backend"
	(
		cd "$place/work" || exit
		set -eE
		trap say_where ERR
		"$function"
	) >"$log" 2>&1 9>&1 </dev/null
	code=$?

	if ! stop_watchers "$place" >>"$log" 2>&1 9>&1; then
		test "$code" = 77 && code=1
		test "$code" = 0 && code=1
	fi

	case $code in
	0) echo "ok $number - $what" ;;
	77) echo "ok $number - $what # SKIP $(cat "$TEST_SKIP")" ;;
	*)
		echo "not ok $number - $what"
		failed=$((failed + 1))
		;;
	esac
	if test "$code" != 0 && test "$code" != 77; then
		sed 's/^/# /' "$log" >&2
		echo "# what it left is in $place" >&2
	else
		if test -n "$verbose"; then sed 's/^/# /' "$log"; fi
		remove "$place"
		rm -f "$log" "$TEST_SKIP"
	fi
}

# run_tests [-v] [PATTERN]: run the test functions of this file, all of them or
# those whose name matches PATTERN; ends the process.
run_tests() {
	local verbose='' pattern='*' number=0 failed=0 backend function
	while test $# -gt 0; do
		case $1 in
		-v) verbose=1 ;;
		*) pattern="*$1*" ;;
		esac
		shift
	done
	make_trash
	for backend in $BACKENDS; do
		for function in $(test_functions); do
			# shellcheck disable=SC2254 # a pattern is what it is
			case $function in
			$pattern) ;;
			*) continue ;;
			esac
			number=$((number + 1))
			run_one "$function" "$number" "$backend"
		done
	done
	echo "1..$number"
	if test "$failed" = 0; then
		remove "$TRASH"
		exit 0
	fi
	exit 1
}
