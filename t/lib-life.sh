# shellcheck shell=bash
#
# What the tests of a watcher's life share: asking a watcher, misbehaving
# towards it, measuring what it holds. helper/peer speaks to it on its own.

PEER=$TEST_DIR/helper/peer

# cold_repo DIR: turned on, but nothing started yet.
cold_repo() {
	git init -q "$1"
	plant "$1"
	commit_all "$1"
	git -C "$1" config core.fsmonitor "$(fsmonitor_value)"
}

# status_of REPO FIELD: one field of a running watcher's state.
status_of() {
	"$PEER" status "$1" "$2"
}

# watcher_of REPO: its process id, as the kernel has it at the other end of the
# socket.
watcher_of() {
	"$PEER" pid "$1"
}

status_is() {
	equal "$3" "$(status_of "$1" "$2")" "$2 of the watcher of $1"
}

# at_work REPO: a watcher that has walked the tree and answers exactly.
at_work() {
	exact_token "$1" >/dev/null
}

# is_gone PID
is_gone() {
	# A process that has ended and was not waited for yet is gone all the same.
	if test ! -e "/proc/$1/exe" && ! test -s "/proc/$1/cmdline"; then return; fi
	fail "process $1 is still there: $(tr '\0' ' ' <"/proc/$1/cmdline")"
}

# ends PID
ends() {
	test_poll 30 is_gone "$1"
}

# bounded SECONDS COMMAND...: the command ends by itself. The limit is far above
# what it takes, and far below what it would take to wait for what never comes.
bounded() {
	local limit=$1 code=0
	shift
	timeout --signal=KILL "$limit" "$@" || code=$?
	test "$code" != 137 || fail "did not end within $limit seconds: $*"
	return "$code"
}

# patient_hook MILLISECONDS REPO TOKEN: the hook with that deadline, into answer.
patient_hook() {
	(cd "$2" && TREEWATCH_TIMEOUT_MS=$1 exec timeout --signal=KILL 30 "$TREEWATCH" 2 "$3") >"$HOME/answer" ||
		fail "the hook ended with $? (137: it had to be killed)" || return
	assert_well_formed
}

# pretend HOW REPO [N]: start something that sits in the place of the watcher.
# Ends with the test.
pretend() {
	coproc PRETENDER { exec "$PEER" pretend "$@" 2>"$HOME/pretend.err"; }
	local word
	read -r word <&"${PRETENDER[0]}" || fail "cannot pretend: $(cat "$HOME/pretend.err")" || return
	pretender=$PRETENDER_PID
	at_end "kill $pretender"
}

# crowd HOW REPO N: N connections that misbehave, until the test ends or
# disperse is called.
crowd() {
	coproc CROWD { exec "$PEER" crowd "$@" 2>"$HOME/crowd.err"; }
	local word
	read -r word <&"${CROWD[0]}" || fail "no crowd: $(cat "$HOME/crowd.err")" || return
	crowd=$CROWD_PID
	echo "crowd: $* $word"
	at_end "kill $crowd"
}

disperse() {
	kill "$crowd"
	wait "$crowd" 2>/dev/null || :
}

# at_end COMMAND: to be run when the test is over, however it went. Only what
# this test has started itself may be killed there.
AT_END=
at_end() {
	AT_END="$1 2>/dev/null; $AT_END"
	# shellcheck disable=SC2064 # as it is now
	trap "set +eE; trap - ERR; $AT_END" EXIT
}

# starts REPO: how many times its log says that a watcher was started.
starts() {
	cat "$1"/.git/treewatch/*.log 2>/dev/null | grep -c 'started for' || :
}

# inotify_watches PID: how many the kernel counts for this process.
inotify_watches() {
	cat "/proc/$1"/fdinfo/* 2>/dev/null | grep -c '^inotify wd:' || :
}

# directories COUNT DIR: make COUNT/100 with a file and 100 directories in each.
directories() {
	perl -e '
		my ($count, $dir) = @ARGV;
		mkdir $dir;
		for my $i (0 .. $count / 100 - 1) {
			mkdir "$dir/$i" or die "$dir/$i: $!";
			mkdir "$dir/$i/$_" or die for 1 .. 100;
			open my $file, ">", "$dir/$i/file" or die;
			print $file "$i\n";
		}' "$1" "$2"
}

# stat_field PID N: a field of /proc/PID/stat, counted as in proc(5).
stat_field() {
	# The second field is the name in parentheses, and may hold anything.
	sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f$(($2 - 2))
}

# in_namespace FUNCTION [UNSHARE-OPTION...]: run it with mounts and limits of its
# own, as the root of a user namespace. The file must end with `run "$@"`.
in_namespace() {
	local function=$1
	shift
	requires unshare
	local namespaces=${NAMESPACES:--Urm}
	unshare "$namespaces" "$@" true 2>/dev/null || skip 'no namespaces here'
	export TRASH TEST_SKIP
	unshare "$namespaces" "$@" bash "$TEST_FILE" --inside "$function"
}

# The end of a file that uses in_namespace.
run() {
	if test "${1:-}" = --inside; then
		set -eE
		trap say_where ERR
		# Nobody outside has the same mounts, so nobody outside can stop them.
		at_end "stop_watchers '$(dirname "$HOME")' || exit 1"
		"$2"
		exit
	fi
	run_tests "$@"
}

# private_tmp MOUNT-OPTIONS: in a namespace, a /tmp that nobody else has, with
# the directories of this test still in it.
private_tmp() {
	local here=$PWD
	exec 8<"$TEST_DIR" 9<"$TRASH"
	mount -t tmpfs -o "$1" tmpfs /tmp
	keep_in_tmp 8 "$TEST_DIR"
	keep_in_tmp 9 "$TRASH"
	exec 8<&- 9<&-
	cd "$here" || return
}
keep_in_tmp() {
	case $2 in
	/tmp/*)
		mkdir -p "$2"
		mount --no-canonicalize --bind "/proc/self/fd/$1" "$2"
		;;
	esac
}

# skip_inside WHY: like skip, in a function run by in_namespace.
skip_inside() {
	printf '%s\n' "$*" >"$TEST_SKIP"
	exit 77
}

# right REPO: git status with the watcher is what it is without, whether or not
# the answer was exact.
right() {
	local index
	index=$(index_of "$1")
	cp -p "$index" "$HOME/index-before"
	status_watched "$1" all >"$HOME/watched-status"
	status_plain "$1" "$HOME/index-before" all >"$HOME/plain-status"
	same "$HOME/plain-status" "$HOME/watched-status"
}

# but_the_log DIR: what else a watcher has left in the directory of its files.
but_the_log() {
	find "$1" -mindepth 1 ! -name '*.log' 2>/dev/null || :
}
