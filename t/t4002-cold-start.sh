#!/usr/bin/env bash
#
# The first command starts a watcher and is not held up by it: neither by the
# walk of the tree nor by anything of the command's that the watcher would hold.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

test_a_pipeline_ends_when_git_ends() {
	cold_repo repo
	bounded 20 bash -c 'git -C repo status 2>&1 | cat >seen'
	grep -q '^nothing to commit' seen
	# Or else there was nobody to hold the pipe.
	at_work repo
}

test_no_descriptor_of_the_starter_stays_open() {
	cold_repo repo
	# The pipe is at an end only when nobody at all holds it.
	bounded 20 bash -c '
		{ git -C repo status >/dev/null; } \
			3>&1 4>&1 5>&1 6>&1 7>&1 8>&1 9>&1 20>&1 63>&1 | cat'
	at_work repo
}

test_it_holds_nothing_but_its_own() {
	cold_repo repo
	(exec 7<repo/file 8>repo/.git/index.lock.test && git -C repo status >/dev/null)
	at_work repo
	pid=$(watcher_of repo)
	for fd in "/proc/$pid/fd"/*; do
		case $(readlink "$fd" || :) in
		socket:* | anon_inode:inotify | anon_inode:\[eventpoll\] | /dev/null | /proc/*/mountinfo) ;;
		*/treewatch/*.lock) ;;
		'') ;; # the connection of a moment ago
		*) fail "the watcher holds $(readlink "$fd")" ;;
		esac
	done
	equal / "$(readlink "/proc/$pid/cwd")" 'working directory'
	# Twelve of its own, and perhaps the connection of a moment ago.
	test "$(find "/proc/$pid/fd" -mindepth 1 | wc -l)" -le 13
}

test_a_session_of_its_own() {
	cold_repo repo
	git -C repo status >/dev/null
	at_work repo
	pid=$(watcher_of repo)
	equal "$pid" "$(stat_field "$pid" 5)" 'process group'
	equal "$pid" "$(stat_field "$pid" 6)" session
	equal 0 "$(stat_field "$pid" 7)" terminal
}

test_started_from_a_terminal_it_has_none_and_outlives_it() {
	requires script
	cold_repo repo
	# When script ends, its terminal hangs up on everybody in the session.
	bounded 30 script -qec 'git -C repo status' /dev/null >seen
	grep -q 'nothing to commit' seen
	at_work repo
	pid=$(watcher_of repo)
	equal 0 "$(stat_field "$pid" 7)" terminal
	equal 1 "$(starts repo)" 'watchers started'
}

test_a_signal_for_the_group_of_the_starter_is_not_for_it() {
	cold_repo repo
	perl -e 'setpgrp; system qw(git -C repo status); $SIG{INT} = $SIG{TERM} = $SIG{HUP} = "IGNORE";
		kill $_ => -$$ for qw(INT TERM HUP)' >/dev/null
	at_work repo
	equal 1 "$(starts repo)" 'watchers started'
}

test_signals_the_starter_ignores_do_no_harm() {
	cold_repo repo
	# Who ignores the end of its children cannot wait for one, such as git.
	git -C repo config treewatch.idleTimeout 2
	perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' git -C repo status >/dev/null
	pid=$(watcher_of repo)
	# That it ends shows that it could read that setting.
	ends "$pid"
}

test_closed_standard_descriptors_are_not_mixed_up() {
	cold_repo repo
	git -C repo status <&- >/dev/null
	at_work repo
	"$PEER" stop repo
	(cd repo && "$TREEWATCH" 2 x <&- 2>&- >"$HOME/answer")
	assert_well_formed
	# Nowhere to put the answer: an error, and nothing in the watcher's ears.
	at_work repo
	(cd repo && must_fail "$TREEWATCH" 2 x >&- 2>/dev/null)
	at_work repo
}

# Best of three, in milliseconds.
best_of_three() {
	local best=999999 took _
	for _ in 1 2 3; do
		took=$("$@")
		test "$took" -ge "$best" || best=$took
	done
	echo "$best"
}

milliseconds() {
	local before=$EPOCHREALTIME
	"$@" >/dev/null
	local after=$EPOCHREALTIME
	echo $(((${after/./} - ${before/./}) / 1000))
}

plain_time() { milliseconds git -C repo -c core.fsmonitor=false status; }

cold_time() {
	"$PEER" stop repo 2>/dev/null || :
	milliseconds git -C repo status
}

# A ratio with much room, and tried again: what is looked for is a first command
# that takes as long as the walk on top.
not_much_slower_cold() {
	local plain cold
	plain=$(best_of_three plain_time)
	cold=$(best_of_three cold_time)
	echo "on 20,000 directories: status without monitor $plain ms, with a cold start $cold ms"
	test "$cold" -le $((plain * 3 / 2 + 300))
}

test_the_first_command_does_not_wait_for_the_walk() {
	git init -q repo
	directories 20000 repo/tree
	commit_all repo
	git -C repo config core.fsmonitor "$(fsmonitor_value)"
	test_poll 60 not_much_slower_cold
	at_work repo
	test "$(status_of repo directories)" -gt 19000
}

# autogroup PID: the niceness of its session.
autogroup() { sed 's/.* //' "/proc/$1/autogroup"; }

session_is_like_others() {
	equal 0 "$(autogroup "$1")" 'niceness of its session'
}

# traced_start REPO: a first call, and what it writes (with its watcher) in calls.
traced_start() {
	requires strace
	strace -o /dev/null true 2>/dev/null || skip 'strace may not trace here'
	test -w /proc/self/autogroup || skip 'no niceness of sessions here'
	(cd "$1" && exec strace -f -e trace=write -o ../calls "$TREEWATCH" 2 x >../answer) &
	tracer=$!
	test_poll 60 test -s answer
	test_poll 60 at_work "$1"
	pid=$(watcher_of "$1")
}

# As root, who is not held back by how often that may be changed, and as anybody.
test_a_long_walk_gives_way_but_not_for_long() {
	git init -q repo
	directories 10000 repo/tree
	traced_start repo
	test_poll 20 session_is_like_others "$pid"
	"$PEER" stop repo
	wait "$tracer"
	assert_well_formed
	grep -o 'write([0-9]*, "[0-9]*", [0-9]*) *= [0-9]*$' calls | sed 's/.*"\([0-9]*\)".*/\1/' >given
	same <(printf '10\n0\n') given
}

test_a_short_walk_need_not_give_way() {
	cold_repo repo
	traced_start repo
	session_is_like_others "$pid"
	"$PEER" stop repo
	wait "$tracer"
	if grep 'write([0-9]*, "10*", [0-9]*)' calls; then fail 'it gave way'; fi
}

run_tests "$@"
