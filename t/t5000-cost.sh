#!/usr/bin/env bash
#
# What the hook and a query cost, in counts: system calls (strace) and instructions
# (valgrind's callgrind). Counts do not depend on how busy the machine is, so they can
# guard what the benchmarks in t/perf measured. The limits are in t5000-limits.

. "$(dirname "$0")/test-lib.sh"

# limit NAME: from t5000-limits.
limit() {
	awk -v name="$1" '$1 == name { print $2 }' "$TEST_DIR/t5000-limits"
}

# at_most NAME COUNT: not a number counts as too many.
at_most() {
	echo "$1: $2, limit $(limit "$1")"
	test "$2" -le "$(limit "$1")" || fail "$1 is $2, over its limit of $(limit "$1")"
}

# token [OLD]: the token of an answer from here.
token() {
	"$TREEWATCH" 2 "${1:-none}" | head -z -n 1 | tr -d '\0'
}

# A token that is answered with itself: nothing changed, and the watcher is exact.
settled_token() {
	local first second
	first=$(token)
	second=$(token "$first")
	test "$first" = "$second" && test -n "$first" || return
	"$TREEWATCH" 2 "$first" | same <(printf '%s\0' "$first") - || return
	echo "$first"
}

can_trace() {
	requires strace
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
}

can_count_instructions() {
	requires valgrind
	valgrind --tool=callgrind --callgrind-out-file=/dev/null true >/dev/null 2>&1 ||
		skip "valgrind does not work here"
}

# collected FILE: the instructions callgrind has counted.
collected() {
	sed -n 's/^==[0-9]*== Collected : \([0-9]*\)$/\1/p' "$1"
}

test_the_hook_makes_few_system_calls() {
	can_trace
	make_repo repo
	cd repo
	local token
	token=$(settled_token)
	strace -f -o ../calls "$TREEWATCH" 2 "$token" >../answer
	same <(printf '%s\0' "$token") ../answer
	grep -q 'execve(' ../calls
	cat ../calls
	at_most hook-system-calls "$(grep -c '^[0-9]* *[a-z_0-9]*(' ../calls)"
	at_most hook-files-opened "$(grep -cE '^[0-9]* *(open|openat|openat2)\(' ../calls || true)"
}

test_the_hook_runs_few_instructions() {
	can_count_instructions
	make_repo repo
	cd repo
	local token
	token=$(settled_token)
	# Each variable of the environment costs some: without it the count is always the same.
	env -i "$(command -v valgrind)" --tool=callgrind --callgrind-out-file=/dev/null \
		--log-file=../counts "$TREEWATCH" 2 "$token" >../answer
	same <(printf '%s\0' "$token") ../answer
	at_most hook-instructions "$(collected ../counts)"
}

# watcher_instructions COUNT: what a watcher of the repository here executes from its
# start to its end with that many queries in between.
watcher_instructions() {
	local token i watcher
	# By its full name: by another one it would run itself again, out of valgrind's hands.
	valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file=../counts \
		"$TREEWATCH" run "$(pwd -P)" >../events 2>&1 &
	watcher=$!
	# status starts nothing, so it is the watcher under valgrind that answers at last.
	wait_until_watching >&2
	token=$(settled_token)
	for ((i = 0; i < $1; i++)); do
		"$TREEWATCH" 2 "$token" >/dev/null
	done
	"$TREEWATCH" stop . >&2
	wait "$watcher" >&2 || true
	collected ../counts
}

is_watching() {
	"$TREEWATCH" status --json . | grep -q '"state": *"watching"'
}

wait_until_watching() {
	test_poll 60 is_watching || {
		cat ../events ../counts
		return 1
	}
}

# per_query: instructions for one query, as the difference between two watchers' lives.
per_query() {
	local few many
	few=$(watcher_instructions 100)
	many=$(watcher_instructions 500)
	echo $(((many - few) / 400))
}

test_a_query_costs_the_watcher_few_instructions_and_no_more_in_a_larger_tree() {
	can_count_instructions
	make_repo small
	make_repo large
	"$TREEWATCH" stop small
	"$TREEWATCH" stop large
	mkdir -p large/{1,2,3,4,5,6}/{1,2,3,4,5,6,7,8,9,10}/{1,2,3,4,5,6,7,8,9}
	local small large
	small=$(cd small && per_query)
	large=$(cd large && per_query)
	test "$small" -gt 0
	at_most query-instructions "$small"
	echo "in the larger tree: $large"
	test $(((large - small) * 100 / small)) -le "$(limit query-growth-percent)"
}

test_a_long_answer_is_written_at_once() {
	can_trace
	make_repo repo
	cd repo
	local token
	token=$(settled_token)
	mkdir many
	(cd many && for ((i = 0; i < 5000; i++)); do : >"file-number-$i"; done)
	# To a file, and to a pipe.
	strace -f -e trace=write,writev -o ../to-file "$TREEWATCH" 2 "$token" >../answer
	strace -f -e trace=write,writev -o ../to-pipe "$TREEWATCH" 2 "$token" | cat >../answer-2
	same ../answer ../answer-2
	test "$(tr '\0' '\n' <../answer | grep -c '^many/file-number-')" = 5000
	local to
	for to in ../to-file ../to-pipe; do
		cut -c1-120 "$to"
		at_most answer-writes "$(grep -cE '^[0-9]* *writev?\(1,' "$to")"
	done
}

# The last thing in a trace is a wait that has not ended; \3 is its limit.
waits='^[0-9]* *\(p\{0,1\}poll\|epoll_p\{0,1\}wait\)(\(.*\), \(-1\|[0-9]*\|NULL\|{.*}\).*$'

waits_again() {
	tail -1 ../calls | grep -q "$waits" && ! tail -1 ../calls | grep -q ' = '
}

# An idle watcher is in one call that waits for events and for nothing else, without a
# limit or with one of a minute at least; so that "no wake-up" needs no minute to show.
test_an_idle_watcher_sleeps() {
	can_trace
	make_repo repo
	cd repo
	settled_token >/dev/null
	local pid tracer
	pid=$("$TREEWATCH" status --json . | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
	strace -f -o ../calls -p "$pid" 2>../attached &
	tracer=$!
	test_poll 20 grep -q attached ../attached
	# What it was waiting in when the tracer came shows no limit; the next wait does.
	"$TREEWATCH" 2 none >../answer
	test_poll 20 waits_again
	kill "$tracer"
	wait "$tracer" || true
	cat ../calls
	local timeout
	timeout=$(sed -n "s/$waits/\\3/p" ../calls | tail -1)
	case $timeout in
	-1 | NULL) ;;
	*) test "$timeout" -ge 60000 || fail "it waits for $timeout ms only" ;;
	esac
}

run_tests "$@"
