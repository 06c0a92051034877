#!/usr/bin/env bash
#
# treewatch enable and disable: on in one command, off to just what was there before.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

enable() {
	"$TREEWATCH" enable --no-untracked-cache "$@"
}

test_after_enable_git_asks_treewatch() {
	plain_repo repo
	enable repo >out
	grep "core.fsmonitor = $TREEWATCH" out
	settle repo
	assert_skippable repo
	equal 1 "$(our_processes | wc -l)" watchers
	echo more >>repo/dir/file
	oracle repo
	"$TREEWATCH" disable repo
	no_process_left
	must_fail git -C repo config core.fsmonitor
}

test_disable_puts_back_just_what_was_there() {
	plain_repo repo
	for before in unset false 'some other hook' two; do
		git -C repo config --unset-all core.fsmonitor || :
		case $before in
		unset) ;;
		two)
			git -C repo config --add core.fsmonitor one
			git -C repo config --add core.fsmonitor false
			;;
		*) git -C repo config core.fsmonitor "$before" ;;
		esac
		cp repo/.git/config before
		enable --force repo
		equal "$(fsmonitor_value)" "$(git -C repo config core.fsmonitor)"
		# Twice over is the same as once.
		enable repo
		"$TREEWATCH" disable repo
		git config --file before --list >expected
		git config --file repo/.git/config --list >actual
		sort -o expected expected
		sort -o actual actual
		same expected actual
		test "$before" = two || same before repo/.git/config
	done
}

test_the_untracked_cache_is_set_after_gits_own_check_and_put_back() {
	plain_repo repo
	cp repo/.git/config before
	# The check takes some seconds, which is said in a terminal only.
	in_terminal "$TREEWATCH" enable repo >out
	grep 'asking git whether its untracked cache works' out
	if git -C repo config core.untrackedCache; then
		equal true "$(git -C repo config core.untrackedCache)"
		grep 'core.untrackedCache = true' out
	else
		grep 'does not work' out
	fi
	"$TREEWATCH" disable repo
	same before repo/.git/config
	"$TREEWATCH" enable repo >out 2>err
	empty err
	plain_text out
	"$TREEWATCH" disable repo
	# Somebody who does not want it is not asked again.
	git -C repo config core.untrackedCache false
	"$TREEWATCH" enable repo >out
	equal false "$(git -C repo config core.untrackedCache)"
}

test_what_somebody_changed_meanwhile_is_left_alone() {
	plain_repo repo
	enable repo
	git -C repo config core.fsmonitor /some/other/hook
	"$TREEWATCH" disable repo >out
	grep 'left alone' out
	equal /some/other/hook "$(git -C repo config core.fsmonitor)"
	must_fail git -C repo config --get-regexp '^treewatch\.\(saved\|enabled\)'
}

test_somebody_elses_monitor_is_not_replaced_unless_forced() {
	plain_repo repo
	for value in true .git/hooks/fsmonitor-watchman; do
		git -C repo config core.fsmonitor "$value"
		exits 5 enable repo >out 2>err
		empty out
		grep 'in use already' err
		grep -e --force err
		equal "$value" "$(git -C repo config core.fsmonitor)"
	done
	# Also where it comes from the user's own settings.
	git -C repo config --unset core.fsmonitor
	git config --global core.fsmonitor watchman-hook
	exits 5 enable repo 2>err
	enable --force repo
	equal "$(fsmonitor_value)" "$(git -C repo config core.fsmonitor)"
	"$TREEWATCH" disable repo
	equal watchman-hook "$(git -C repo config core.fsmonitor)"
}

test_global_is_for_all_repositories_and_back() {
	plain_repo repo
	cp "$GIT_CONFIG_GLOBAL" before
	cp repo/.git/config before-repo
	(cd / && enable --global >"$HOME/out")
	equal "$(fsmonitor_value)" "$(git config --global core.fsmonitor)"
	settle repo
	assert_skippable repo
	# Not wanted in this one.
	"$TREEWATCH" disable repo >out
	no_process_left
	equal false "$(git -C repo config core.fsmonitor)"
	git -C repo status >/dev/null
	no_process_left
	git -C repo config --unset core.fsmonitor
	settle repo
	"$TREEWATCH" disable --global >out
	# Nobody has told that one.
	is_state watching repo
	grep 'treewatch stop --all' out
	same before "$GIT_CONFIG_GLOBAL"
	same before-repo repo/.git/config
}

test_global_is_safe_in_repositories_of_every_kind() {
	plain_repo theirs
	enable --global
	git init -q --bare bare
	git -C bare log --all
	git clone -q bare empty 2>/dev/null
	git -C empty status >/dev/null 2>err
	empty err
	test "$(id -u)" = 0 || return 0
	give_to_user theirs
	git config --global --add safe.directory "$PWD/theirs"
	git -C theirs status >out 2>err
	empty err
	grep 'nothing to commit' out
	"$TREEWATCH" stop empty
	no_process_left
}

test_paths_are_quoted_as_git_needs_it() {
	mkdir "it's \$HOME, a \"dir\""
	cp "$TREEWATCH" "it's \$HOME, a \"dir\"/treewatch"
	plain_repo repo
	"$PWD/it's \$HOME, a \"dir\"/treewatch" enable --no-untracked-cache repo
	git -C repo status 2>err
	empty err
	git -C repo status >/dev/null
	assert_skippable repo
	"$PWD/it's \$HOME, a \"dir\"/treewatch" disable repo
	is_state not-running repo
}

test_the_path_found_by_name_is_preferred_since_it_stays() {
	mkdir bin store
	cp "$TREEWATCH" store/treewatch
	ln -s ../store/treewatch bin/treewatch
	plain_repo repo
	PATH=$PWD/bin:$PATH treewatch enable --no-untracked-cache repo
	equal "$PWD/bin/treewatch" "$(git -C repo config core.fsmonitor)"
	# Something else of that name does not count.
	enable repo
	equal "$TREEWATCH" "$(git -C repo config core.fsmonitor)"
}

test_it_refuses_where_it_cannot_help() {
	git init -q --bare bare
	exits 4 enable bare 2>err
	grep 'bare repository' err
	mkdir outside
	exits 4 enable outside 2>err
	grep 'not a git repository' err
	exits 4 enable nowhere 2>err
	grep -x 'treewatch: no worktree at nowhere: No such file or directory' err
	exits 4 "$TREEWATCH" disable outside 2>err
	if test "$(id -u)" = 0; then
		plain_repo theirs
		give_to_user theirs
		git config --global --add safe.directory "$PWD/theirs"
		exits 4 enable theirs 2>err
		grep "user $ORDINARY_UID" err
		must_fail git -C theirs config core.fsmonitor
	fi
}

test_disable_where_it_is_not_enabled_says_so() {
	plain_repo repo
	cp repo/.git/config before
	"$TREEWATCH" disable repo >out
	grep 'not enabled' out
	same before repo/.git/config
}

test_settings_that_keep_it_from_working_are_named() {
	plain_repo repo
	git -C repo config core.fsmonitorHookVersion 1
	enable repo >out
	grep 'core.fsmonitorHookVersion is 1' out
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=false enable repo >out
	grep 'the command setting counts' out
}

# The new settings end the watcher at the same moment as it is stopped.
test_a_watcher_that_is_ending_is_not_called_wedged() {
	plain_repo repo
	local round
	for round in {1..10}; do
		enable repo
		# As if git's own check, which takes seconds, had been made: disable changes more.
		git -C repo config treewatch.enabled 'fsmonitor untrackedCache'
		git -C repo config core.untrackedCache true
		settle repo
		"$TREEWATCH" disable repo >out
		must_fail grep -E 'did not answer' out
		is_state not-running repo
	done
	echo "$round rounds"
}

test_many_at_once_are_as_one() {
	plain_repo repo
	cp repo/.git/config before
	for round in {1..3}; do
		jobs=()
		for _ in {1..6}; do
			enable repo 2>>err &
			jobs+=($!)
		done
		for job in "${jobs[@]}"; do exits 0 wait "$job" || { cat err; return 1; }; done
		"$TREEWATCH" disable repo
		same before repo/.git/config
	done
	echo "$round rounds"
}

waits_for_a_lock() {
	grep -q -e "-> FLOCK .* $1 " /proc/locks
}

test_changes_are_made_one_after_the_other() {
	requires flock
	plain_repo repo
	git -C repo worktree add -q ../linked
	cp repo/.git/config before
	exec 8<repo/.git
	flock 8
	"$TREEWATCH" enable --no-untracked-cache repo 8<&- &
	local first=$!
	"$TREEWATCH" disable linked 8<&- &
	local second=$!
	test_poll 20 waits_for_a_lock "$first"
	test_poll 20 waits_for_a_lock "$second"
	same before repo/.git/config
	exec 8<&-
	exits 0 wait "$first"
	exits 0 wait "$second"
	"$TREEWATCH" disable repo
	same before repo/.git/config
}

test_settings_that_cannot_be_written_are_no_riddle() {
	plain_repo repo
	give_to_user repo
	chmod a-w repo/.git
	exits 5 as_user env HOME="$PWD" "$TREEWATCH" enable --no-untracked-cache repo 2>err
	grep 'cannot change the setting core.fsmonitor: git says: could not lock .*Permission denied' err ||
		grep 'cannot change the setting treewatch.enabled: git says: could not lock .*Permission denied' err
	# Where there is nothing to undo, nothing is written.
	exits 0 as_user env HOME="$PWD" "$TREEWATCH" disable repo >out
	grep 'not enabled' out
	chmod u+w repo/.git
}

test_what_git_says_to_do_is_passed_on() {
	test "$(id -u)" = 0 || skip 'needs another user'
	plain_repo theirs
	give_to_user theirs
	exits 4 enable theirs 2>err
	grep 'dubious ownership' err
	grep "^  git config --global --add safe.directory $PWD/theirs" err
}

run_tests "$@"
