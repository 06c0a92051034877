#!/usr/bin/env bash
#
# What git relies on when it calls a hook, row by row: exit code, form of the
# answer, nothing on stderr, wrong usage, version 1, and how it is printed.
. "$(dirname "$0")/test-lib.sh"
each_backend

test_a_first_call_gets_a_token_and_everything() {
	make_repo repo
	# The first token git sends: nanoseconds.
	hook 2 1700000000000000000 repo >answer 2>err
	empty err
	cp answer "$HOME/answer"
	assert_well_formed
	assert_everything
}

test_a_token_is_one_line_of_json_without_white_space() {
	requires perl
	make_repo repo
	ask repo ''
	answer_token | grep -qE '^\{"v":2,"id":"[0-9a-zA-Z-]+","seq":[0-9]+\}$'
}

test_a_small_tree_is_answered_exactly_from_the_second_call_on() {
	git init -q repo
	plant repo
	ask repo 'first'
	assert_everything
	ask repo "$(answer_token)"
	assert_nothing
}

test_version_1_gets_everything_and_starts_nothing() {
	git init -q repo
	hook 1 1700000000000000000 repo >out 2>err
	printf '/\0' >expected
	same expected out
	empty err
	no_process_left
	must_fail ls repo/.git/treewatch
}

test_version_1_gets_everything_outside_a_worktree_too() {
	# Older gits take a failure for "nothing changed".
	hook 1 1700000000000000000 . >out 2>err
	printf '/\0' >expected
	same expected out
	hook 1 '' . >out
	same expected out
	no_process_left
}

# refused ARGUMENT...: a message, no answer, nothing started.
refused() {
	(cd repo && must_fail "$TREEWATCH" "$@" >../out 2>../err)
	empty out
	test -s err || fail "no message for: $*"
	no_process_left
}

test_wrong_usage_is_a_message_a_failure_and_no_answer() {
	git init -q repo
	refused
	refused 2
	refused 2 token more
	refused 3 token
	refused 0 token
	refused '' ''
	refused 22 token
	refused -2 token
	refused nonsense
	refused --nonsense
	refused $'\xff\xfe'
	refused 2 '' ''
}

test_outside_a_worktree_is_one_line_and_a_failure() {
	must_fail hook 2 token . >out 2>err
	empty out
	equal 1 "$(wc -l <err)" 'lines on stderr'
	no_process_left
}

test_in_a_bare_repository_is_one_line_and_a_failure() {
	git init -q --bare bare.git
	must_fail hook 2 token bare.git >out 2>err
	empty out
	equal 1 "$(wc -l <err)" 'lines on stderr'
	no_process_left
	must_fail ls bare.git/treewatch
}

test_in_a_git_directory_is_one_line_and_a_failure() {
	make_repo repo
	"$TREEWATCH" stop repo
	must_fail hook 2 token repo/.git >out 2>err
	empty out
	equal 1 "$(wc -l <err)" 'lines on stderr'
	no_process_left
}

test_nothing_is_ever_on_stderr_in_normal_work() {
	make_repo repo
	for command in 'status' 'add -A' 'commit -q --allow-empty -m x' 'diff' 'grep -q content' 'describe --always' 'blame -s file' 'checkout -q -b other'; do
		echo more >>repo/dir/file
		# shellcheck disable=SC2086 # words
		git -C repo $command >out 2>err
		empty err
	done
	"$TREEWATCH" stop repo
	# Cold as well.
	git -C repo status >out 2>err
	empty err
}

test_the_end_of_the_call_is_the_end_of_its_output() {
	# Through a pipe: a watcher that held it would keep the reader waiting.
	git init -q repo
	plant repo
	requires timeout
	# shellcheck disable=SC2016
	timeout 60 bash -c 'cd repo && "$TREEWATCH" 2 x 2>&1 | cat >../out'
	test -s out
	commit_all repo
	git -C repo config core.fsmonitor "$(fsmonitor_value)"
	"$TREEWATCH" stop repo
	timeout 60 bash -c 'git -C repo status 2>&1 | cat >out2'
	test -s out2
}

test_a_reader_that_is_gone_is_no_crash() {
	make_repo repo
	mkdir repo/many
	(cd repo/many && seq 3000 | xargs touch)
	local token code=0
	token=$(exact_token repo)
	(cd repo/many && seq 3000 | xargs rm)
	# The answer is longer than a pipe takes, and nobody reads it.
	(
		set +o pipefail
		cd repo
		"$TREEWATCH" 2 "$token" 2>../err || code=$?
		echo "$code" >../code
	) | true
	code=$(cat code)
	case $code in
	# Told by the kernel that nobody reads, or by the error: both are an end.
	0 | 1 | 2 | 141) ;;
	*) fail "ended with $code: $(cat err)" ;;
	esac
	empty err
	ask repo "$token"
	assert_names many/1 many/3000
}

test_ten_thousand_paths_are_printed_with_a_write_or_two() {
	requires strace
	make_repo repo
	mkdir repo/many
	local token
	token=$(exact_token repo)
	(cd repo/many && seq -f 'a-file-with-a-name-of-some-length-%05.0f' 10000 | xargs touch)
	ask repo "$token"
	assert_names many/a-file-with-a-name-of-some-length-10000
	(cd repo && strace -f -e trace=write,writev -e signal=none -o ../trace "$TREEWATCH" 2 "$token" >../out)
	same "$HOME/answer" out
	grep -cE ' write(v)?\(1,' trace >count
	test "$(cat count)" -le 2 || fail "$(cat count) writes for one answer"
	(cd repo && strace -f -e trace=write,writev -e signal=none -o ../trace "$TREEWATCH" 2 "$token" | cat >../out)
	same "$HOME/answer" out
	test "$(grep -cE ' write(v)?\(1,' trace)" -le 2 || fail "too many writes to a pipe: $(grep -cE ' write(v)?\(1,' trace)"
	oracle_after_loss repo
}

test_many_paths_make_git_save_the_new_token() {
	make_repo repo
	mkdir repo/many
	(cd repo/many && seq 150 | xargs touch)
	oracle repo
	local token
	token=$(exact_token repo)
	git -C repo status >/dev/null
	ask repo "$token"
	assert_nothing
	oracle repo
}

test_git_reads_the_answer_as_version_2_with_no_version_configured() {
	make_repo repo
	equal '' "$(git -C repo config core.fsmonitorHookVersion || :)" core.fsmonitorHookVersion
	echo more >>repo/file
	GIT_TRACE2_EVENT=$PWD/trace git -C repo status >/dev/null
	must_fail grep -q '"argv":\[[^]]*,"1",' trace
	grep -q '"argv":\[[^]]*,"2",' trace
}

test_version_2_configured_works_alike() {
	make_repo repo
	git -C repo config core.fsmonitorHookVersion 2
	settle repo
	echo more >>repo/file
	oracle repo
}

test_version_1_configured_works_by_scanning() {
	git init -q repo
	plant repo
	commit_all repo
	git -C repo config core.fsmonitorHookVersion 1
	git -C repo config core.fsmonitor "$(fsmonitor_value)"
	settle repo
	echo more >>repo/file
	git -C repo status --porcelain >out
	grep -q '^ M file$' out
	no_process_left
}

test_a_program_path_with_spaces_works_quoted() {
	mkdir 'a place'
	cp "$TREEWATCH" 'a place/treewatch'
	make_repo repo
	git -C repo config core.fsmonitor "'$PWD/a place/treewatch'"
	settle repo
	echo more >>repo/file
	oracle repo
	# The next watcher would run the other copy, which the harness does not
	# know; end it here.
	"$PWD/a place/treewatch" stop repo
}

test_the_hook_reads_nothing_from_stdin() {
	make_repo repo
	printf 'one\ntwo\n' >input
	{
		hook 2 token repo >/dev/null
		IFS= read -r line
		equal one "$line" 'first line left on stdin'
	} <input
}

run_tests "$@"
