#!/usr/bin/env bash
#
# make demo: shows both times, and leaves nothing behind.
. "$(dirname "$0")/test-lib.sh"

# tree_of DIR: everything there, with modes, sizes, times and content; but for
# the time of .git, in which the watcher's own directory comes and goes.
tree_of() {
	(cd "$1" && find . ! -path ./.git -printf '%p %y %m %s %T@\n' | sort && find . -type f -exec cksum {} + | sort)
}

test_on_a_tree_of_its_own() {
	mkdir tmp
	TMPDIR=$PWD/tmp DEMO_FILES=2000 DEMO_RUNS=3 "$TOP/t/demo.sh" >out 2>err
	empty err
	grep -q 'git status without treewatch *[0-9.]* ms' out
	grep -q 'git status with treewatch *[0-9.]* ms' out
	grep -q '^   M d0/d0/file0$' out
	grep -q '^  ?? d0/new$' out
	equal '' "$(ls tmp)" 'left behind'
	no_process_left
}

test_on_a_repository_given() {
	mkdir tmp
	git init -q repo
	plant repo
	commit_all repo
	git -C repo config core.fsmonitor /somebody/elses
	echo more >>repo/file
	tree_of repo >before
	TMPDIR=$PWD/tmp DEMO_RUNS=3 "$TOP/t/demo.sh" repo >out 2>err
	empty err
	grep -q 'git status with treewatch *[0-9.]* ms' out
	tree_of repo >after
	same before after
	equal '' "$(ls tmp)" 'left behind'
	no_process_left
}

test_on_a_repository_that_is_watched_already() {
	make_repo repo
	local pid
	pid=$(our_processes)
	DEMO_RUNS=3 "$TOP/t/demo.sh" repo >out 2>err
	empty err
	equal "$pid" "$(our_processes)" 'pid of the watcher'
	oracle repo
}

test_on_what_is_no_repository() {
	mkdir plain
	must_fail "$TOP/t/demo.sh" plain >out 2>err
	test -s err
}

run_tests "$@"
