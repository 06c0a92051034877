#!/usr/bin/env bash
#
# treewatch watch and log: changes and the watcher's own words, as they come.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

# begin_watching [OPTION...]: in repo, to the file out. It has begun once it names a file
# that is made for nothing else.
begin_watching() {
	"$TREEWATCH" watch "$@" repo >out &
	watch=$!
	test_poll 10 names_probe
}

names_probe() {
	echo "$RANDOM" >repo/probe
	test_soon grep -q probe out
}

# test_soon COMMAND...: in the next half a second.
test_soon() {
	for _ in {1..25}; do
		if "$@"; then return; fi
		sleep 0.02 # the step of this poll
	done
	return 1
}

test_changes_come_one_a_line() {
	plain_repo repo
	begin_watching
	echo more >>repo/dir/sub/file
	test_poll 10 grep -x dir/sub/file out
	mkdir -p repo/a/b/c
	echo x >repo/a/b/c/d
	test_poll 10 grep -x a/b/c/d out
	echo x >$'repo/two\nlines'
	test_poll 10 grep -xF '"two\nlines"' out
	kill -INT "$watch"
	ends_with 0 "$watch"
	is_state watching repo
}

test_nul_and_json_hold_any_name() {
	requires perl
	plain_repo repo
	begin_watching -0
	echo x >$'repo/two\nlines \377'
	# Lines ended by NUL, with a newline in one.
	test_poll 10 grep -aqzP '^two\nlines \xff$' out
	kill -TERM "$watch"
	ends_with 0 "$watch"
	begin_watching --json
	echo x >$'repo/\377'
	test_poll 10 grep -F '{"bytes":[255]}' out
	kill -INT "$watch"
	wait "$watch"
	perl -MJSON::PP -ne 'exists decode_json($_)->{everything} or die' out
}

test_a_closed_pipe_ends_it() {
	plain_repo repo
	"$TREEWATCH" start repo
	mkfifo pipe
	"$TREEWATCH" watch repo >pipe &
	watch=$!
	# The reader leaves without a word, and nothing changes in the tree.
	exec 8<pipe 8<&-
	ends_with 0 "$watch"
	is_state watching repo
}

test_it_ends_with_the_watcher_and_says_so() {
	plain_repo repo
	begin_watching 2>err
	"$TREEWATCH" stop repo
	ends_with 3 "$watch"
	grep 'the watcher has ended' err
}

test_everything_is_a_line_of_its_own() {
	plain_repo repo
	begin_watching
	test_poll 10 overflow
	kill -INT "$watch"
	ends_with 0 "$watch"
}

# Makes the watcher walk again, by more events than the kernel keeps.
overflow() {
	local pid
	pid=$(field pid repo)
	kill -STOP "$pid"
	perl -e 'for my $i (1..17000) { open my $f, ">", "repo/flood" . $i % 3 or die; }'
	kill -CONT "$pid"
	test_poll 10 grep -x / out
}

test_a_reader_that_stops_delays_nobody_and_misses_nothing() {
	plain_repo repo
	mkfifo pipe
	exec 7<>pipe
	"$TREEWATCH" watch repo >pipe &
	watch=$!
	test_poll 10 following
	for round in 1 2 3 4 5 6 7 8 9 10; do
		perl -e 'for my $i (1..2000) { open my $f, ">", "repo/" . "x" x 100 . "-'"$round"'-$i" or die; }'
		token=$(exact_token repo)
	done
	ask repo "$token"
	assert_nothing
	# Some of it waits in the pipe, some in the socket, the rest as one frame.
	test "$(field rss_bytes repo)" -lt 60000000
	cat <&7 >out &
	reader=$!
	test_poll 20 grep -x 'x*-10-2000' out
	kill -INT "$watch"
	ends_with 0 "$watch"
	kill "$reader"
	exec 7<&-
	equal 20000 "$(grep -x 'x*-[0-9]*-[0-9]*' out | sort -u | wc -l)" 'files named'
}

# The watcher has taken the request to follow.
following() {
	echo "$RANDOM" >repo/probe
	read -r -t 0.5 line <&7
	test "$line" = probe
}

test_too_many_followers_are_refused_and_the_hook_still_served() {
	plain_repo repo
	"$TREEWATCH" start repo
	watches=()
	for i in {1..20}; do
		"$TREEWATCH" watch repo >"out$i" 2>"err$i" &
		watches+=($!)
	done
	test_poll 20 some_refused
	exact_token repo
	for watch in "${watches[@]}"; do kill -INT "$watch" 2>/dev/null || :; done
	for watch in "${watches[@]}"; do wait "$watch" || :; done
}

some_refused() {
	test "$(cat err* | grep -c 'too many are following')" = 4
}

test_watch_in_a_terminal() {
	plain_repo repo
	SHELL=/bin/bash script --quiet --return --flush --echo never --command "'$TREEWATCH' watch repo" out </dev/null >/dev/null &
	watch=$!
	test_poll 10 names_probe
	"$TREEWATCH" stop repo
	ends_with 3 "$watch"
}

test_log_prints_what_the_watcher_wrote() {
	plain_repo repo
	exits 3 "$TREEWATCH" log repo >out 2>err
	empty out
	grep 'no log' err
	"$TREEWATCH" start repo
	"$TREEWATCH" log repo >out
	grep "started for $PWD/repo" out
	in_terminal "$TREEWATCH" log repo >out
	grep "started for $PWD/repo" out
}

test_log_follows() {
	plain_repo repo
	"$TREEWATCH" start repo
	mkfifo pipe
	"$TREEWATCH" log --follow repo >pipe &
	log=$!
	exec 7<pipe
	grep -m1 'started for' <&7
	"$TREEWATCH" stop repo
	# The rest may have been read ahead by grep, so another line is waited for.
	"$TREEWATCH" start repo
	grep -m1 'watching' <&7
	exec 7<&-
	# It ends when nobody reads any more.
	ends_with 0 "$log"
}

run_tests "$@"
