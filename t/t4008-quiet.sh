#!/usr/bin/env bash
#
# In normal work nobody hears of it; who wants to know finds out what it is.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

test_not_a_word_on_stderr_in_a_day_of_work() {
	git init -q repo
	plant repo
	git -C repo config core.fsmonitor "$(fsmonitor_value)"
	{
		git -C repo add -A
		git -C repo commit -q -m one
		git -C repo status
		git -C repo checkout -q -b topic
		echo more >>repo/file
		git -C repo commit -q -a -m two
		git -C repo checkout -q main
		git -C repo merge -q topic
		git -C repo stash
		git -C repo worktree add -q ../linked
		git -C linked status
		rm -rf repo/dir
		git -C repo status
		git -C repo reset -q --hard
		kill -KILL "$(watcher_of repo)"
		git -C repo status
		rm -rf repo/.git/treewatch
		git -C repo status
	} >out 2>err
	empty err
	must_fail grep -i treewatch out
}

test_the_command_line_names_the_worktree() {
	make_repo 'a repo'
	at_work 'a repo'
	line=$(tr '\0' ' ' <"/proc/$(watcher_of 'a repo')/cmdline")
	case $line in
	treewatch\ serve\ "$PWD/a repo "*) ;;
	*) fail "command line: $line" ;;
	esac
	equal treewatch "$(cat "/proc/$(watcher_of 'a repo')/comm")"
}

test_status_names_the_log_and_it_tells_the_story() {
	make_repo repo
	at_work repo
	log=$(status_of repo log)
	grep -q 'started for' "$log"
	grep -q 'watching [0-9]* directories' "$log"
	"$TREEWATCH" stop repo >/dev/null
	grep -q 'ended: told to stop' "$log"
}

test_the_log_is_bounded() {
	make_repo repo
	at_work repo
	log=$(status_of repo log)
	"$TREEWATCH" stop repo >/dev/null
	# Long ago it grew to what it may be, and so did the one before.
	yes 'a line of the log of long ago' 2>/dev/null | head -c 70000 >"$log" || :
	yes 'older yet' 2>/dev/null | head -c 70000 >"$log.1" || :
	for _ in 1 2 3 4 5 6; do
		at_work repo
		"$TREEWATCH" stop repo >/dev/null
	done
	test "$(stat -c %s "$log")" -lt 10000
	grep -q 'long ago' "$log.1"
	equal 2 "$(find repo/.git/treewatch -name "*.log*" | wc -l)" 'log files'
}

test_it_sleeps_when_nothing_happens() {
	make_repo repo
	at_work repo
	pid=$(watcher_of repo)
	# It may still be letting go of the last connection: look twice at the count
	# of times it went to sleep, until it stays the same over a hundred of ours.
	test_poll 30 sleeps_on
}
sleeps_on() {
	local before
	before=$(grep voluntary "/proc/$pid/status")
	for _ in $(seq 100); do cat /dev/null; done
	equal "$before" "$(grep voluntary "/proc/$pid/status")" 'context switches'
}

test_nothing_is_written_below_the_git_directory_by_a_query() {
	make_repo repo
	token=$(exact_token repo)
	find repo/.git -printf '%p %T@ %s\n' | sort >before
	for _ in 1 2 3 4 5; do ask repo "$token"; done
	find repo/.git -printf '%p %T@ %s\n' | sort >after
	same before after
}

test_version_1_starts_nothing() {
	make_repo repo
	"$TREEWATCH" stop repo >/dev/null
	hook 1 1234567890123456789 repo >out
	same <(printf '/\0') out
	test -z "$(our_processes)"
}

run_tests "$@"
