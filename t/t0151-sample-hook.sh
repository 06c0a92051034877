#!/usr/bin/env bash
#
# hooks/fsmonitor-treewatch.sample: treewatch where it is installed, and where
# it is not, git as if there were no hook.
. "$(dirname "$0")/test-lib.sh"

# The hook, and directories to put together a PATH without treewatch.
prepare() {
	cp "$TOP/hooks/fsmonitor-treewatch.sample" hook
	git init -q repo
	plant repo
	commit_all repo
	git -C repo config core.fsmonitor "$PWD/hook"
}

# without_treewatch COMMAND...: with a PATH in which nothing has that name.
without_treewatch() {
	local directory path=''
	IFS=: read -r -a directories <<<"$PATH"
	for directory in "${directories[@]}"; do
		test -e "$directory/treewatch" || path=$path${path:+:}$directory
	done
	test ! -e /usr/local/bin/treewatch || skip 'treewatch is installed in /usr/local/bin'
	PATH=$path "$@"
}

with_treewatch() {
	PATH=$(dirname "$TREEWATCH"):$PATH "$@"
}

test_where_treewatch_is_installed_it_answers() {
	prepare
	with_treewatch settle repo
	echo more >>repo/dir/file
	PATH=$(dirname "$TREEWATCH"):$PATH
	oracle repo
	# And what answers is the program: no shell stands before it.
	GIT_TRACE2_EVENT=$PWD/trace git -C repo status >/dev/null
	equal 1 "$(our_processes | wc -l)" watchers
}

test_where_it_is_not_git_scans_in_silence() {
	prepare
	without_treewatch git -C repo status --porcelain >out 2>err
	empty err
	empty out
	echo more >>repo/dir/file
	echo new >repo/dir/new
	without_treewatch git -C repo status --porcelain >out 2>err
	empty err
	printf ' M dir/file\n?? dir/new\n' >expected
	same expected out
	no_process_left
}

test_where_it_is_not_with_each_hook_version() {
	prepare
	local version
	for version in 1 2; do
		git -C repo config core.fsmonitorHookVersion "$version"
		without_treewatch git -C repo status --porcelain >out 2>err
		without_treewatch git -C repo status --porcelain >out 2>err
		empty err
		echo "$version" >>repo/file
		without_treewatch git -C repo status --porcelain >out 2>err
		empty err
		echo ' M file' >expected
		same expected out
		git -C repo checkout -q .
	done
}

test_what_it_answers_itself() {
	prepare
	# Version 2: a failure, and nothing on stdout.
	without_treewatch must_fail ./hook 2 token >out 2>err
	empty out
	empty err
	# Version 1: everything, as older gits take a failure for "nothing".
	without_treewatch ./hook 1 1700000000000000000 >out 2>err
	printf '/\0' >expected
	same expected out
	empty err
}

test_installed_and_removed_again_no_change_is_missed() {
	prepare
	with_treewatch settle repo
	with_treewatch settle repo
	"$TREEWATCH" stop repo
	echo while-away >>repo/dir/sub/file
	without_treewatch git -C repo status --porcelain >out
	grep -q '^ M dir/sub/file$' out
	echo more >>repo/file
	without_treewatch git -C repo status --porcelain >out
	grep -q '^ M file$' out
	PATH=$(dirname "$TREEWATCH"):$PATH
	echo more >>repo/other/file
	oracle_after_loss repo
}

test_a_program_of_that_name_in_the_repository_is_not_run() {
	prepare
	cat >repo/treewatch <<-END
		#!/bin/sh
		touch '$PWD/it-was-run'
	END
	chmod +x repo/treewatch
	local path
	for path in . '' ./ dir/..; do
		# shellcheck disable=SC2030
		(
			PATH=$path:$PATH
			without_treewatch true
			git -C repo status >/dev/null
			PATH=$PATH:$path
			git -C repo status >/dev/null
		)
	done
	must_fail test -e it-was-run
}

test_it_is_found_without_a_path_in_home() {
	prepare
	mkdir -p "$HOME/.cargo/bin"
	cp "$TREEWATCH" "$HOME/.cargo/bin/treewatch"
	(cd repo && without_treewatch ../hook 2 x >"$HOME/answer")
	assert_well_formed
	(cd repo && "$HOME/.cargo/bin/treewatch" stop)
}

test_it_passes_any_argument_on_as_it_is() {
	prepare
	mkdir bin
	cat >bin/treewatch <<-'END'
		#!/bin/sh
		for argument; do printf '<%s>' "$argument"; done
		exit 3
	END
	chmod +x bin/treewatch
	local code=0
	# shellcheck disable=SC2031
	PATH=$PWD/bin:$PATH ./hook 2 $'a "b" $c *\n\xff' >out || code=$?
	# shellcheck disable=SC2016 # as bytes
	printf '<2><a "b" $c *\n\xff>' >expected
	same expected out
	equal 3 "$code" 'exit code'
}

run_tests "$@"
