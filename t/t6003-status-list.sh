#!/usr/bin/env bash
#
# treewatch status, list, restart and stop --all, in a terminal and in a pipe.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

# Every field that programs may count on.
FIELDS='state reason pid root backend instance sequence directories watches journal_paths resyncs
queries rss_bytes uptime_s protocol version socket log exact_answers full_answers last_error'

has_all_fields() {
	local name
	perl -MJSON::PP -0777 -ne 'exit !(ref(decode_json($_)) eq "HASH")' "$1"
	for name in $FIELDS; do
		grep -q "^  \"$name\": " "$1" || fail "no field $name in $(cat "$1")"
	done
}

test_json_has_every_field_with_and_without_a_watcher() {
	requires perl
	plain_repo repo
	exits 3 "$TREEWATCH" status --json repo >out
	has_all_fields out
	grep '"state": "not-running"' out
	grep '"pid": null' out
	grep "\"root\": \"$PWD/repo\"" out
	"$TREEWATCH" start repo
	"$TREEWATCH" status --json repo >out
	has_all_fields out
	must_fail grep '"pid": null' out
	test -S "$(field socket repo)"
	test -f "$(field log repo)"
	equal 5 "$(field directories repo)" directories
}

test_counts_are_those_of_what_happened() {
	plain_repo repo
	turn_on repo
	token=$(exact_token repo)
	exact=$(field exact_answers repo)
	full=$(field full_answers repo)
	ask repo "$token"
	ask repo "$token"
	ask repo foreign
	equal "$((exact + 2))" "$(field exact_answers repo)" 'exact answers'
	equal "$((full + 1))" "$(field full_answers repo)" 'full answers'
	equal "$((exact + full + 3))" "$(field queries repo)" queries
	"$TREEWATCH" status repo >out
	grep "answers .*$((exact + 2)) exact, $((full + 1)) \"look at everything\" ($((full + 1)) unknown token)" out
}

test_a_pipe_gets_plain_text_and_a_terminal_colours() {
	plain_repo repo
	"$TREEWATCH" start repo
	"$TREEWATCH" status repo >out
	plain_text out
	for line in 'state *watching' "since .*process $(field pid repo)" 'tree *5 directories' 'watches *[0-9]* of ' \
		'memory .*iB' 'queries *0' 'answers *0 exact' 'resyncs *none' "log *$PWD/repo"; do
		grep "$line" out
	done
	test "$(wc -l <out)" -le 24
	in_terminal "$TREEWATCH" status repo >out
	grep -q $'\033\\[' out || fail "no colours: $(cat -v out)"
	NO_COLOR=1 in_terminal "$TREEWATCH" status repo >out
	plain_text out
}

test_exit_codes_are_the_same_in_a_terminal() {
	plain_repo repo
	exits 3 in_terminal "$TREEWATCH" status repo >out
	grep 'not running' out
	exits 4 in_terminal "$TREEWATCH" status / >out
	exits 2 in_terminal "$TREEWATCH" status --nonsense >out
}

test_a_degraded_watcher_says_which_limit_and_how_to_raise_it() {
	unshare -Ur true 2>/dev/null || skip 'no user namespaces here'
	plain_repo repo
	# shellcheck disable=SC2016 # for the inner shell
	unshare -Ur bash -c '
		echo 3 >/proc/sys/user/max_inotify_watches || exit 66
		"$TREEWATCH" start repo
		end=$((SECONDS + 20))
		while "$TREEWATCH" status repo >out && test $SECONDS -lt $end; do sleep 0.02; done
		"$TREEWATCH" status repo >out
		code=$?
		"$TREEWATCH" status --json repo >json
		"$TREEWATCH" stop repo
		exit $code
	' || code=$?
	test "${code:-0}" != 66 || skip 'the limit cannot be set here'
	cat out json
	equal 1 "${code:-0}" 'exit code of status'
	grep 'not watching' out
	grep 'because .*limit' out
	grep 'user.max_inotify_watches' out
	grep '"state": "degraded"' json
}

test_list_shows_every_watcher_wherever_it_is_asked() {
	requires perl
	"$TREEWATCH" list >out
	plain_repo one
	plain_repo 'the other'
	"$TREEWATCH" start one
	"$TREEWATCH" start 'the other'
	"$TREEWATCH" list >out
	plain_text out
	grep "^ *$(field pid one)  watching .*$PWD/one\$" out
	grep "^ *$(field pid 'the other')  watching .*$PWD/the other\$" out
	"$TREEWATCH" list --json >out
	perl -MJSON::PP -0777 -ne '
		my %root = map { $_->{root} => $_->{state} } @{decode_json($_)};
		exit !($root{"'"$PWD"'/one"} eq "watching" && $root{"'"$PWD"'/the other"} eq "watching")
	' out
	in_terminal "$TREEWATCH" list >out
	grep "$PWD/one" out
	kill -STOP "$(field pid one)"
	"$TREEWATCH" list >out
	grep "not watching .*$PWD/one\$" out
	grep " watching .*$PWD/the other\$" out
	# As one that was cut off.
	rm one/.git/treewatch/*.sock
	"$TREEWATCH" list --json >out
	grep '"reason": "its socket is not there' out
}

test_list_names_a_watcher_in_the_foreground() {
	plain_repo repo
	"$TREEWATCH" run repo 2>err &
	run=$!
	test_poll 10 is_state watching repo
	"$TREEWATCH" list >out
	grep "^ *$run  watching .*$PWD/repo\$" out
	"$TREEWATCH" stop repo
	ends_with 0 "$run"
}

# Of all watchers of this user, so it runs as one who has no others.
test_stop_all_stops_the_wedged_ones_too() {
	test "$(id -u)" = 0 || skip 'not root: there may be watchers of yours that are not to be stopped'
	plain_repo mine
	"$TREEWATCH" start mine
	for repo in one two three; do
		plain_repo "$repo"
		give_to_user "$repo"
	done
	chmod 755 "$HOME" "$HOME/.." .
	chmod 644 "$GIT_CONFIG_GLOBAL"
	for repo in one two three; do as_user "$TREEWATCH" start "$repo"; done
	kill -STOP "$(as_user "$TREEWATCH" status --json two | sed -n 's/^  "pid": \(.*\),/\1/p')"
	as_user "$TREEWATCH" stop --all >out
	equal 3 "$(grep -c '^stopped the watcher of' out)" 'watchers stopped'
	equal "$(field pid mine)" "$(our_processes)" 'watchers left'
	as_user "$TREEWATCH" stop --all >out
	grep 'no watcher is running' out
}

test_restart_gives_a_new_watcher_whatever_was_there() {
	plain_repo repo
	"$TREEWATCH" restart repo >out
	is_state watching repo
	first=$(field pid repo)
	"$TREEWATCH" restart repo >out
	second=$(field pid repo)
	test "$first" != "$second"
	kill -STOP "$second"
	"$TREEWATCH" restart repo >out
	is_state watching repo
	test "$second" != "$(field pid repo)"
	equal 1 "$(our_processes | wc -l)" watchers
}

run_tests "$@"
