#!/usr/bin/env bash
#
# run, start, stop, status and query: treewatch by itself, without git.
# shellcheck disable=SC2016 # the expressions are perl's
. "$(dirname "$0")/test-lib.sh"
each_backend

# json FILE EXPRESSION: prints what the perl EXPRESSION finds in $j, the JSON of
# FILE; nothing for null.
json() {
	perl -MJSON::PP -0777 -e '
		my $j = JSON::PP->new->utf8->decode(<STDIN>);
		my $v = eval $ARGV[0];
		die $@ if $@;
		print JSON::PP::is_bool($v) ? ($v ? "true" : "false") : $v, "\n" if defined $v;
	' "$2" <"$1"
}

state_is() {
	# Its exit code says the same in short, and is not looked at here.
	"$TREEWATCH" status --json "$2" >"$HOME/status" || :
	equal "$1" "$(json "$HOME/status" '$j->{state}')" state
}

# fresh: a repository that nobody watches.
fresh() {
	git init -q "$1"
	plant "$1"
	commit_all "$1"
}

test_start_returns_when_the_watcher_can_be_reached() {
	fresh repo
	"$TREEWATCH" start repo
	test_poll 30 state_is watching repo
	equal 1 "$(our_processes | wc -l)" watchers
	# Started again it is the same one.
	local pid
	pid=$(our_processes)
	"$TREEWATCH" start repo
	equal "$pid" "$(our_processes)" pid
}

test_start_works_in_the_current_directory_and_below() {
	fresh repo
	(cd repo/dir/sub && "$TREEWATCH" start)
	state_is watching repo || test_poll 30 state_is watching repo
	(cd repo/dir && "$TREEWATCH" stop)
	no_process_left
}

test_stop_returns_when_the_watcher_is_gone() {
	fresh repo
	"$TREEWATCH" start repo
	"$TREEWATCH" stop repo
	no_process_left
	state_is not-running repo
	ls repo/.git/treewatch >left
	must_fail grep '\.sock$' left
}

test_stop_with_nothing_to_stop_is_no_error() {
	fresh repo
	"$TREEWATCH" stop repo
	"$TREEWATCH" stop repo
	no_process_left
}

test_stop_stops_this_one_only() {
	fresh one
	fresh two
	"$TREEWATCH" start one
	"$TREEWATCH" start two
	"$TREEWATCH" stop one
	equal 1 "$(our_processes | wc -l)" watchers
	test_poll 30 state_is watching two
	state_is not-running one
}

test_status_starts_nothing() {
	fresh repo
	"$TREEWATCH" status repo >out || :
	"$TREEWATCH" status --json repo >out || :
	equal not-running "$(json out '$j->{state}')" state
	no_process_left
}

test_status_in_json_has_every_field() {
	fresh repo
	"$TREEWATCH" start repo
	test_poll 30 state_is watching repo
	local status=$HOME/status
	equal '' "$(json "$status" '$j->{reason}')" reason
	equal "$(our_processes)" "$(json "$status" '$j->{pid}')" pid
	equal "$PWD/repo" "$(json "$status" '$j->{root}')" root
	equal "$(git config treewatch.backend)" "$(json "$status" '$j->{backend}')" backend
	# The top, dir, dir/sub, dir/sub/deep, other.
	equal 5 "$(json "$status" '$j->{directories}')" directories
	local field
	for field in sequence watches journal_paths resyncs queries rss_bytes uptime_s protocol; do
		json "$status" "\$j->{$field}" | grep -qE '^[0-9]+(\.[0-9]+)?$' ||
			fail "$field is no number: $(json "$status" "\$j->{$field}")"
	done
	test -n "$(json "$status" '$j->{instance}')"
	test -n "$(json "$status" '$j->{version}')"
	test "$(json "$status" '$j->{rss_bytes}')" -gt 100000
}

test_status_counts_queries_and_changes() {
	fresh repo
	"$TREEWATCH" start repo
	local token before after
	token=$(exact_token repo)
	state_is watching repo
	before=$(json "$HOME/status" '$j->{queries}')
	echo more >>repo/file
	ask repo "$token"
	ask repo "$token"
	state_is watching repo
	after=$(json "$HOME/status" '$j->{queries}')
	test "$after" -ge $((before + 2)) || fail "queries went from $before to $after"
	test "$(json "$HOME/status" '$j->{journal_paths}')" -ge 1
	answer_token >token
	equal "$(json token '$j->{id}')" "$(json "$HOME/status" '$j->{instance}')" instance
	equal "$(json token '$j->{seq}')" "$(json "$HOME/status" '$j->{sequence}')" sequence
}

test_status_for_people_says_the_same() {
	fresh repo
	"$TREEWATCH" start repo
	test_poll 30 state_is watching repo
	"$TREEWATCH" status repo >out 2>err
	empty err
	grep -qi 'watching' out
	grep -qF "$PWD/repo" out
	"$TREEWATCH" stop repo
	"$TREEWATCH" status repo >out || :
	grep -qi 'not.running' out
}

test_a_process_listing_tells_what_it_is_and_what_it_watches() {
	fresh repo
	"$TREEWATCH" start repo
	local pid
	pid=$(our_processes)
	equal treewatch "$(cat "/proc/$pid/comm")" 'process name'
	tr '\0' ' ' <"/proc/$pid/cmdline" >cmdline
	grep -qF "$PWD/repo" cmdline
	grep -q '^treewatch' cmdline
}

test_the_watcher_holds_nothing_of_its_starter() {
	fresh repo
	exec 7>held
	(cd repo && "$TREEWATCH" 2 x >../out 2>&1 7>&7)
	exec 7>&-
	local pid descriptor
	pid=$(our_processes)
	for descriptor in /proc/"$pid"/fd/*; do
		case $(readlink "$descriptor") in
		"$PWD/held" | "$PWD/out" | /dev/pts/* | /dev/tty*) fail "it holds $(readlink "$descriptor")" ;;
		esac
	done
	case $(readlink "/proc/$pid/cwd")/ in
	"$PWD"/*) fail "its working directory is $(readlink "/proc/$pid/cwd")" ;;
	esac
	# A session of its own.
	test "$(ps -o sid= -p "$pid")" != "$(ps -o sid= -p $$)"
}

test_run_stays_in_the_foreground_and_tells_of_events() {
	fresh repo
	"$TREEWATCH" run repo >out 2>err &
	local pid=$!
	test_poll 30 state_is watching repo
	equal "$pid" "$(json "$HOME/status" '$j->{pid}')" pid
	local token
	token=$(exact_token repo)
	echo more >>repo/dir/file
	ask repo "$token"
	assert_names dir/file
	test_poll 30 grep -q 'dir/file' err
	"$TREEWATCH" stop repo
	wait "$pid"
	empty out
}

test_run_ends_at_an_interrupt_and_leaves_no_socket() {
	fresh repo
	# Job control, or bash makes it deaf to SIGINT.
	set -m
	"$TREEWATCH" run repo >out 2>err &
	local pid=$!
	set +m
	test_poll 30 state_is watching repo
	kill -INT "$pid"
	wait "$pid" || :
	no_process_left
	ls repo/.git/treewatch >left
	must_fail grep '\.sock$' left
}

test_run_beside_a_running_one_is_refused() {
	fresh repo
	"$TREEWATCH" start repo
	must_fail "$TREEWATCH" run repo >out 2>err
	test -s err
	equal 1 "$(our_processes | wc -l)" watchers
}

test_query_for_people_names_what_the_hook_would() {
	fresh repo
	"$TREEWATCH" start repo
	local token
	token=$(exact_token repo)
	echo more >>repo/dir/file
	echo new >"repo/$(printf 'new\nline')"
	(cd repo && "$TREEWATCH" query --since "$token" >../out)
	grep -q 'dir/file' out
	# One path a line, or nobody can read it.
	must_fail grep -qx 'line' out
	"$TREEWATCH" query repo >out
	test -s out
}

test_query_in_json() {
	fresh repo
	"$TREEWATCH" start repo
	local token
	token=$(exact_token repo)
	echo more >>repo/dir/file
	echo new >$'repo/latin1-\xe9'
	"$TREEWATCH" query --since "$token" --json repo >out
	equal false "$(json out '$j->{everything}')" everything
	equal 1 "$(json out 'scalar grep { !ref && $_ eq "dir/file" } @{$j->{paths}}')" 'dir/file'
	equal 1 "$(json out 'scalar grep { ref && pack("C*", @{$_->{bytes}}) eq "latin1-\xe9" } @{$j->{paths}}')" 'latin1'
	ask repo "$token"
	equal "$(answer_token)" "$(json out '$j->{token}')" token
	"$TREEWATCH" query --json repo >out
	equal true "$(json out '$j->{everything}')" 'everything without a token'
	"$TREEWATCH" query --json --since nonsense repo >out
	equal true "$(json out '$j->{everything}')" 'everything for a foreign token'
}

test_query_with_the_request_on_stdin() {
	fresh repo
	"$TREEWATCH" start repo
	local token
	token=$(exact_token repo)
	echo more >>repo/dir/file
	printf '{"version":2,"token":"%s"}' "${token//\"/\\\"}" >request
	"$TREEWATCH" query --json - repo <request >out
	equal false "$(json out '$j->{everything}')" everything
	equal 1 "$(json out 'scalar grep { $_ eq "dir/file" } @{$j->{paths}}')" 'dir/file'
	local bad
	for bad in '' '{' '[]' '{"version":1,"token":"x"}' '{"version":2,"token":7}' 'null' '[2,"x"]'; do
		printf %s "$bad" >request
		must_fail "$TREEWATCH" query --json - repo <request >out 2>err
		empty out
		test -s err
	done
}

test_commands_outside_a_worktree_say_so_in_one_line() {
	local command
	for command in run start stop status query; do
		must_fail "$TREEWATCH" "$command" . >out 2>err
		empty out
		equal 1 "$(wc -l <err)" "lines on stderr of $command"
	done
	git init -q --bare bare.git
	for command in run start query; do
		must_fail "$TREEWATCH" "$command" bare.git >out 2>err
		empty out
		equal 1 "$(wc -l <err)" "lines on stderr of $command"
	done
	must_fail "$TREEWATCH" start missing >out 2>err
	test -s err
	no_process_left
}

test_help_and_version() {
	"$TREEWATCH" --version >out
	grep -q '^treewatch [0-9]' out
	"$TREEWATCH" --help >out
	local command
	for command in run start stop status query; do
		grep -qw "$command" out
		"$TREEWATCH" help "$command" >help-text
		test -s help-text
	done
}

run_tests "$@"
