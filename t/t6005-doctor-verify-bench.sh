#!/usr/bin/env bash
#
# treewatch doctor, verify and bench: is it well, is it right, is it worth it.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

# What git asks in place of treewatch, and is told that nothing changed: a liar, by the
# name of treewatch, so that verify has something to find.
make_liar() {
	mkdir liar
	cat >liar/treewatch <<-'END'
		#!/bin/sh
		test "$2" = "lie" && { printf 'lie\0'; exit; }
		printf 'lie\0/\0'
	END
	chmod +x liar/treewatch
}

test_all_is_well_after_enable() {
	plain_repo repo
	git -C repo config core.untrackedCache true
	"$TREEWATCH" enable repo
	settle repo
	"$TREEWATCH" doctor repo >out
	plain_text out
	grep -x 'all is well' out
	grep 'ok *effect *git need not look at 6 of 6 files' out
	grep 'ok *untracked cache *in the index' out
	in_terminal "$TREEWATCH" doctor repo >out
	grep -q $'\033\\[' out
	NO_COLOR=1 in_terminal "$TREEWATCH" doctor repo >out
	plain_text out
}

test_json_says_the_same() {
	requires perl
	plain_repo repo
	exits 1 "$TREEWATCH" doctor --json repo >out
	perl -MJSON::PP -0777 -ne '
		my @wrong = grep { $_->{verdict} eq "wrong" } @{decode_json($_)};
		exit !grep { $_->{about} eq "core.fsmonitor" && $_->{advice} eq "treewatch enable" } @wrong;
	' out
}

# finds DIR WHAT: doctor calls WHAT wrong there, and ends with 1.
finds() {
	exits 1 "$TREEWATCH" doctor "$1" >out || { cat out; return 1; }
	grep "wrong *$2" out || { cat out; return 1; }
}

test_what_is_wrong_is_found_with_what_to_do() {
	plain_repo repo
	finds repo 'core.fsmonitor *not set'
	grep -x '  treewatch enable' out
	git -C repo config core.fsmonitor true
	finds repo 'core.fsmonitor *true (local): git asks its own daemon'
	git -C repo config core.fsmonitor /usr/bin/true
	finds repo 'core.fsmonitor .*something else'
	git -C repo config core.fsmonitor /nowhere/treewatch
	finds repo 'core.fsmonitor .*No such file'
	git -C repo config core.fsmonitor ../bin/treewatch
	finds repo 'core.fsmonitor .*relative path'
	"$TREEWATCH" enable --no-untracked-cache repo
	git -C repo config core.fsmonitorHookVersion 1
	finds repo 'hook version'
	grep -x '  git config --local --unset core.fsmonitorHookVersion' out
	git -C repo config --unset core.fsmonitorHookVersion
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitorHookVersion GIT_CONFIG_VALUE_0=1
	finds repo 'hook version'
	grep "^  take core.fsmonitorHookVersion out of git's command line" out
	unset GIT_CONFIG_COUNT
	settle repo
	kill -STOP "$(field pid repo)"
	finds repo 'watcher .*\(does not answer\|no socket\)'
	grep -x '  treewatch restart' out
	"$TREEWATCH" restart repo
	chmod 755 repo/.git/treewatch
	exits 1 "$TREEWATCH" doctor repo >out
	chmod 700 repo/.git/treewatch
	"$TREEWATCH" restart repo
	settle repo
	exits 0 "$TREEWATCH" doctor repo >out
}

test_split_index_and_versions_of_the_index_are_read() {
	for version in 2 3 4; do
		plain_repo "repo$version"
		git -C "repo$version" config core.untrackedCache true
		git -C "repo$version" update-index --index-version "$version"
		"$TREEWATCH" enable "repo$version"
		settle "repo$version"
		"$TREEWATCH" doctor "repo$version" >out
		grep 'ok *untracked cache *in the index' out
	done
	plain_repo split
	git -C split update-index --split-index
	"$TREEWATCH" enable --no-untracked-cache split
	exits 0 "$TREEWATCH" doctor split >out
	grep 'note *index *split' out
}

test_verify_finds_no_difference_where_there_is_none() {
	plain_repo repo
	"$TREEWATCH" enable --no-untracked-cache repo
	echo more >>repo/file
	git -C repo mv dir/file dir/moved
	echo new >repo/$'other/a "new"\nfile'
	"$TREEWATCH" verify repo >out
	plain_text out
	grep '^same: no difference; git need not look at [1-9]' out
	in_terminal "$TREEWATCH" verify repo >out
	grep same out
}

test_verify_names_every_path_that_differs() {
	plain_repo repo
	make_liar
	git -C repo config core.fsmonitor "$PWD/liar/treewatch"
	settle repo
	assert_skippable repo
	echo more >>repo/file
	echo more >>repo/dir/sub/file
	exits 1 "$TREEWATCH" verify repo >out
	grep '^only without the monitor:  M file$' out
	grep '^only without the monitor:  M dir/sub/file$' out
	grep '^different: 2 differences' out
	exits 1 "$TREEWATCH" verify --repeat 3 --interval 0 repo >out
	equal 3 "$(grep -c '^different' out)" comparisons
}

test_verify_changes_nothing() {
	plain_repo repo
	"$TREEWATCH" enable --no-untracked-cache repo
	echo more >>repo/file
	settle repo
	cp repo/.git/index before
	ls -A repo repo/.git >names
	"$TREEWATCH" verify repo
	same before repo/.git/index
	ls -A repo repo/.git >after
	same names after
}

test_verify_says_when_it_would_prove_nothing() {
	plain_repo repo
	exits 5 "$TREEWATCH" verify repo 2>err
	grep 'treewatch enable' err
	mkdir blind
	printf '#!/bin/sh\nprintf "x\\0/\\0"\n' >blind/treewatch
	chmod +x blind/treewatch
	git -C repo config core.fsmonitor "$PWD/blind/treewatch"
	git -C repo config core.fsmonitorHookVersion 1
	printf '#!/bin/sh\nexit 1\n' >blind/treewatch
	exits 5 "$TREEWATCH" verify repo 2>err
	grep 'looks at every file' err
}

test_bench_has_a_table_a_ratio_and_a_verdict() {
	plain_repo repo
	cp repo/.git/index before
	"$TREEWATCH" bench --runs 3 repo >out
	plain_text out
	grep 'git status *[0-9.]* m\{0,1\}s *[0-9.]* m\{0,1\}s *[0-9.]*' out
	grep 'git diff --quiet' out
	grep 'worth it' out
	# Neither the index nor the settings were touched.
	same before repo/.git/index
	must_fail git -C repo config core.fsmonitor
	"$TREEWATCH" bench --runs 2 repo -- ls-files -m >out
	grep 'git ls-files -m' out
	in_terminal "$TREEWATCH" bench --runs 1 repo >out
	grep 'worth it' out
	exits 5 "$TREEWATCH" bench repo -- no-such-command 2>err
	grep 'no-such-command' err
	exits 2 "$TREEWATCH" bench --runs 0 repo 2>err
}

test_where_git_does_not_ask_there_is_no_watcher_to_start() {
	plain_repo repo
	finds repo core.fsmonitor
	grep 'note *watcher *not running' out
	must_fail grep 'treewatch start' out
}

test_a_git_directory_that_cannot_be_written_is_named() {
	plain_repo repo
	"$TREEWATCH" enable --no-untracked-cache repo
	give_to_user "$PWD"
	chmod a-w repo/.git
	exits 1 as_user "$TREEWATCH" doctor repo >out
	grep 'wrong *effect .*cannot save in the git directory' out
	grep "^  ls -ld '$PWD/repo/.git'" out
	as_user "$TREEWATCH" stop repo
	chmod u+w repo/.git
}

# unread COMMAND...: with a pipe for stdout that nobody reads any more.
unread() {
	rm -f pipe
	mkfifo pipe
	# Held open for reading until it is open for writing.
	exec 7<>pipe
	exec 8>pipe
	exec 7<&-
	local code=0
	"$@" >&8 || code=$?
	exec 8>&-
	return "$code"
}

test_the_exit_code_is_the_same_when_nobody_reads() {
	plain_repo repo
	exits 1 unread "$TREEWATCH" doctor repo
	exits 1 unread "$TREEWATCH" doctor --json repo
	exits 3 unread "$TREEWATCH" status repo
	exits 3 unread "$TREEWATCH" status --json repo
	make_liar
	git -C repo config core.fsmonitor "$PWD/liar/treewatch"
	settle repo
	echo more >>repo/file
	exits 1 unread "$TREEWATCH" verify repo
	# Nobody waits for more.
	exits 1 unread "$TREEWATCH" verify --repeat 0 --interval 0 repo
}

run_tests "$@"
