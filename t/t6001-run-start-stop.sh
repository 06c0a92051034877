#!/usr/bin/env bash
#
# treewatch run, start and stop: alone, twice over, and with a watcher that is wedged.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

test_start_is_reachable_when_it_returns_and_stop_leaves_nothing() {
	plain_repo repo
	"$TREEWATCH" start repo
	is_state watching repo
	"$TREEWATCH" stop repo
	no_process_left
	is_state not-running repo
	test -z "$(find repo/.git/treewatch ! -name '*.log' -type f -o -type s)"
}

test_start_twice_keeps_the_first_one() {
	plain_repo repo
	"$TREEWATCH" start repo
	first=$(field pid repo)
	"$TREEWATCH" start repo >out
	equal "$first" "$(field pid repo)" pid
	grep "running already.*$first" out
}

test_stop_with_nothing_to_stop_is_no_error() {
	plain_repo repo
	"$TREEWATCH" stop repo >out 2>err
	grep 'no watcher' out
	empty err
	must_fail test -e repo/.git/treewatch
}

test_any_directory_in_the_worktree_will_do() {
	plain_repo repo
	(cd repo/dir/sub && "$TREEWATCH" start)
	equal "$PWD/repo" "$(field root repo/dir/sub/deep)" root
	"$TREEWATCH" stop repo/other
	is_state not-running repo
}

test_linked_worktrees_and_submodules_have_watchers_of_their_own() {
	plain_repo repo
	plain_repo part
	git -C repo worktree add -q ../linked
	git -C repo submodule --quiet add ../part
	for top in repo linked repo/part; do
		"$TREEWATCH" start "$top"
		equal "$PWD/$top" "$(field root "$top")" root
	done
	# git sets GIT_DIR for its hook there, which must find the same one.
	pid=$(field pid linked)
	git -C linked -c core.fsmonitor="$(fsmonitor_value)" status >/dev/null
	equal "$pid" "$(field pid linked)" pid
	equal 1 "$(field queries linked)" queries
	equal 3 "$(our_processes | wc -l)" watchers
	for top in repo linked repo/part; do "$TREEWATCH" stop "$top"; done
	no_process_left
}

test_a_git_directory_elsewhere_is_found_by_the_environment() {
	mkdir tree
	plant tree
	git --git-dir="$PWD/elsewhere" --work-tree="$PWD/tree" init -q
	(
		# shellcheck disable=SC2031 # it is meant to be lost with the subshell
		export GIT_DIR=$PWD/elsewhere GIT_WORK_TREE=$PWD/tree
		"$TREEWATCH" start tree/dir
		is_state watching tree
		equal "$PWD/elsewhere" "$(field git_dir tree)" "git directory"
		"$TREEWATCH" stop tree
	)
	no_process_left
}

test_outside_and_bare_are_said_and_start_nothing() {
	mkdir outside
	git init -q --bare bare
	for command in run start stop status query; do
		exits 4 "$TREEWATCH" "$command" outside >out 2>err
		empty out
		grep "no worktree at $PWD/outside" err
		exits 4 "$TREEWATCH" "$command" bare >out 2>err
		empty out
		grep 'bare repository' err
	done
	exits 4 "$TREEWATCH" status nowhere 2>err
	grep nowhere err
	no_process_left
}

test_run_shows_paths_and_ends_with_a_signal() {
	plain_repo repo
	(cd repo/dir && exec "$TREEWATCH" run 2>"$HOME/err") &
	run=$!
	test_poll 10 is_state watching repo
	equal "$run" "$(field pid repo)" pid
	tr '\0' ' ' <"/proc/$run/cmdline" | grep "run $PWD/repo"
	equal treewatch "$(cat "/proc/$run/comm")" "process name"
	echo more >>repo/dir/sub/deep/file
	test_poll 10 grep -x 'changed dir/sub/deep/file' "$HOME/err"
	# A name cannot steer the terminal: not by U+009B either.
	touch "repo/$(printf 'a\033b\302\233c')"
	test_poll 10 grep -x 'changed a?b?c' "$HOME/err"
	kill -INT "$run"
	ends_with 0 "$run"
	is_state not-running repo
	grep 'ended: told to stop by a signal' "$HOME/err"
}

test_run_says_that_one_is_running_already() {
	plain_repo repo
	"$TREEWATCH" start repo
	exits 6 "$TREEWATCH" run repo 2>err
	grep "process $(field pid repo)" err
	is_state watching repo
}

test_stop_ends_a_watcher_that_was_stopped_by_a_signal() {
	plain_repo repo
	"$TREEWATCH" start repo
	pid=$(field pid repo)
	kill -STOP "$pid"
	exits 1 "$TREEWATCH" status repo >out
	grep 'does not answer' out
	"$TREEWATCH" stop repo >out
	grep "process $pid" out
	no_process_left
	"$TREEWATCH" start repo
	is_state watching repo
}

test_stop_ends_a_wedged_watcher_whose_socket_was_removed() {
	plain_repo repo
	"$TREEWATCH" start repo
	pid=$(field pid repo)
	kill -STOP "$pid"
	# The hook does this to one that does not answer.
	hook 2 x repo >/dev/null
	test -z "$(find repo/.git/treewatch -type s)"
	equal "$pid" "$(field pid repo)" pid
	"$TREEWATCH" stop repo
	no_process_left
}

test_stop_ends_a_wedged_watcher_of_which_every_file_was_removed() {
	plain_repo repo
	"$TREEWATCH" start repo
	kill -STOP "$(field pid repo)"
	rm -rf repo/.git/treewatch
	"$TREEWATCH" stop repo
	no_process_left
}

test_stop_touches_no_other_process() {
	plain_repo repo
	plain_repo other
	"$TREEWATCH" start repo
	"$TREEWATCH" start other
	kept=$(field pid other)
	kill -KILL "$(field pid repo)"
	# Something that holds a file of the right name, without being a watcher.
	lock=$(find repo/.git/treewatch -name '*.lock')
	"$TREEWATCH" stop repo
	is_state watching other
	equal "$kept" "$(field pid other)" pid
	mkdir -p repo/.git/treewatch
	chmod 700 repo/.git/treewatch
	: >"$lock"
	# This very shell is the holder, and lives on.
	exec 6<"$lock"
	flock 6
	exits 5 "$TREEWATCH" stop repo 2>err 6<&-
	grep 'held by a process that is no watcher' err
	exec 6<&-
	"$TREEWATCH" stop repo
	"$TREEWATCH" stop other
}

test_stop_never_touches_another_users_watcher() {
	test "$(id -u)" = 0 || skip 'not root: there is nobody to be another user'
	plain_repo repo
	give_to_user repo
	chmod 755 "$HOME" "$HOME/.." .
	git config --global --add safe.directory '*'
	chmod 644 "$GIT_CONFIG_GLOBAL"
	as_user "$TREEWATCH" start repo
	pid=$(as_user "$TREEWATCH" status --json repo | sed -n 's/^  "pid": \(.*\),/\1/p')
	exits 5 "$TREEWATCH" stop repo 2>err
	grep "user $ORDINARY_UID" err
	kill -STOP "$pid"
	exits 5 "$TREEWATCH" stop repo 2>err
	kill -CONT "$pid"
	exits 4 "$TREEWATCH" start repo 2>err
	exits 4 "$TREEWATCH" run repo 2>err
	as_user "$TREEWATCH" stop repo
	no_process_left
}

run_tests "$@"
