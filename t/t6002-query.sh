#!/usr/bin/env bash
#
# treewatch query: the hook's answer, for people and for programs.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

# token_of FILE: from what `query --json` printed.
token_of() {
	perl -MJSON::PP -0777 -ne 'print decode_json($_)->{token}' "$1"
}

# paths_of FILE: from what `query --json` printed, one a line.
paths_of() {
	perl -MJSON::PP -0777 -ne 'print map { ref $_ ? pack("C*", @{$_->{bytes}}) . "\n" : "$_\n" } sort { "$a" cmp "$b" } @{JSON::PP->new->decode($_)->{paths}}' "$1"
}

everything_in() {
	perl -MJSON::PP -0777 -ne 'exit !decode_json($_)->{everything}' "$1"
}

test_without_a_token_everything_counts_as_changed() {
	plain_repo repo
	"$TREEWATCH" query repo >out
	grep -x 'everything counts as changed' out
	grep -x 'token {"v":2,"id":".*","seq":[0-9]*}' out
}

test_a_query_starts_a_watcher_as_the_hook_does() {
	plain_repo repo
	"$TREEWATCH" query repo >out
	is_state watching repo
}

test_changes_since_a_token_are_named() {
	plain_repo repo
	token=$(exact_token repo)
	"$TREEWATCH" query --since "$token" repo >out
	grep -x 'nothing has changed' out
	grep -xF "token $token" out
	echo more >>repo/dir/sub/file
	"$TREEWATCH" query --since "$token" repo/dir >out
	grep -x 'changed dir/sub/file' out
}

test_json_says_the_same_as_the_hook() {
	requires perl
	plain_repo repo
	token=$(exact_token repo)
	mkdir repo/new
	echo x >$'repo/new/b\303\266se "name"\nin two lines'
	echo x >$'repo/not utf-8: \377'
	"$TREEWATCH" query --json --since "$token" repo >out
	must_fail everything_in out
	ask repo "$token"
	equal "$(answer_token)" "$(token_of out)" token
	answer_paths | tr '\0' '\n' | sort >expected
	paths_of out | sort >paths
	same expected paths
}

test_the_request_can_be_json_on_standard_input() {
	requires perl
	plain_repo repo
	token=$(exact_token repo)
	printf '{"version": 2, "token": "%s"}' "${token//\"/\\\"}" >request
	"$TREEWATCH" query --json - repo <request >out
	must_fail everything_in out
	equal "$token" "$(token_of out)"
	(cd repo && "$TREEWATCH" query --json - <../request) >out
	equal "$token" "$(token_of out)"
	for bad in '' '{' '{"version":1,"token":"x"}' '{"version":2,"token":7}' '[]'; do
		exits 2 "$TREEWATCH" query --json - repo <<<"$bad" >out 2>err
		empty out
		grep 'cannot read the request' err
	done
}

test_foreign_tokens_get_everything() {
	requires perl
	plain_repo repo
	for token in 1712345678901234567 c:1:2:3 "$(printf 'x%.0s' {1..5000})" $'\377'; do
		"$TREEWATCH" query --json --since "$token" repo >out
		everything_in out
	done
}

test_a_watcher_that_does_not_answer_is_said() {
	plain_repo repo
	"$TREEWATCH" start repo
	kill -STOP "$(field pid repo)"
	exits 5 "$TREEWATCH" query repo >out 2>err
	grep -x 'everything counts as changed' out
	grep 'does not answer' err
	grep 'treewatch doctor' err
}

test_closed_and_full_outputs_are_taken_well() {
	plain_repo repo
	"$TREEWATCH" start repo
	for command in status query 'status --json'; do
		# shellcheck disable=SC2086 # words
		exits 0 "$TREEWATCH" $command repo >&-
		# shellcheck disable=SC2086
		exits 5 "$TREEWATCH" $command repo >/dev/full 2>err
		grep 'cannot write to standard output' err
		# shellcheck disable=SC2086
		exits 0 "$TREEWATCH" $command repo <&- 2>&- >/dev/null
		# Nobody reads any more. true may end before or after it is written to.
		# shellcheck disable=SC2086
		"$TREEWATCH" $command repo | true
		exits 4 "$TREEWATCH" status nowhere 2>/dev/full
	done
}

test_a_full_stderr_is_no_reason_to_crash() {
	mkdir outside
	cd outside
	exits 1 "$TREEWATCH" 2 x 2>/dev/full
	exits 1 "$TREEWATCH" 2 x 2>&-
	exits 2 "$TREEWATCH" 3 x 2>/dev/full
	exits 2 "$TREEWATCH" nonsense 2>/dev/full
	cd ..
	plain_repo repo
	cd repo
	exits 1 "$TREEWATCH" 2 x >/dev/full 2>&1
}

test_mistakes_are_answered_with_a_suggestion() {
	exits 2 "$TREEWATCH" statsu >out 2>err
	empty out
	grep "'status'" err
	exits 2 "$TREEWATCH" >out 2>err
	empty out
	grep Usage err
	exits 2 "$TREEWATCH" query --sinse x >out 2>err
	grep -e --since err
	exits 2 "$TREEWATCH" query a b c 2>err
	exits 2 "$TREEWATCH" 2 >out 2>err
	empty out
	grep 'token is missing' err
	exits 2 "$TREEWATCH" 3 token >out 2>err
	empty out
	grep 'version 3' err
}

run_tests "$@"
