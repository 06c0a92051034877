#!/usr/bin/env bash
#
# TREEWATCH_TRACE and GIT_TRACE_FSMONITOR: what the hook did, never on standard output.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

test_no_trace_unless_asked_for() {
	plain_repo repo
	for value in '' 0 false; do
		TREEWATCH_TRACE=$value hook 2 x repo >/dev/null 2>err
		empty err
	done
	hook 2 x repo >/dev/null 2>err
	empty err
}

test_each_step_is_named_with_its_time() {
	plain_repo repo
	"$TREEWATCH" start repo
	token=$(exact_token repo)
	echo more >>repo/file
	hook 2 "$token" repo >expected
	for name in TREEWATCH_TRACE GIT_TRACE_FSMONITOR; do
		(export "$name"=1 && hook 2 "$token" repo) >answer 2>err
		same expected answer
		grep 'asked for changes since {"v":2' err
		grep -E '[0-9]+\.[0-9]{3} ms  connected to the watcher' err
		grep 'the watcher has answered' err
		grep 'printed 1 paths' err
	done
}

test_a_file_or_a_descriptor_can_take_it() {
	plain_repo repo
	TREEWATCH_TRACE=$PWD/trace hook 2 x repo >/dev/null 2>err
	TREEWATCH_TRACE=$PWD/trace hook 2 x repo >/dev/null 2>>err
	TREEWATCH_TRACE=5 hook 2 x repo >/dev/null 2>>err 5>five
	empty err
	equal 2 "$(grep -c 'asked for changes' trace)" 'calls traced'
	grep 'connected' five
	# One that cannot be written is no reason for anything.
	TREEWATCH_TRACE=/nowhere/trace hook 2 x repo >answer 2>err
	empty err
	TREEWATCH_TRACE=1 hook 2 x repo >answer 2>/dev/full
	TREEWATCH_TRACE=7 hook 2 x repo >answer 2>err 7>&-
	empty err
	test -s answer
}

test_git_shows_both_sides_in_one_trace() {
	plain_repo repo
	turn_on repo
	GIT_TRACE_FSMONITOR=$PWD/trace git -C repo status >out
	grep 'fsmonitor.c' trace
	grep 'treewatch\[[0-9]*\]: .* the watcher has answered' trace
}

test_trouble_is_in_the_trace() {
	plain_repo repo
	"$TREEWATCH" start repo
	kill -STOP "$(field pid repo)"
	TREEWATCH_TIMEOUT_MS=100 TREEWATCH_TRACE=1 hook 2 x repo >answer 2>err
	grep 'no answer: the watcher does not answer' err
	grep 'socket was taken away' err
	grep 'look at everything' err
}

run_tests "$@"
