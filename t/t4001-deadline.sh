#!/usr/bin/env bash
#
# The hook never waits on silence: whoever sits where the watcher should be, git
# gets "everything" after the deadline, and pays for it once.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

# A minute is what it would cost to wait for the wedged one; `bounded` and the
# hook's own limit in patient_hook are far below.
MINUTE=60000

# wedge REPO: stop its watcher with SIGSTOP, and let it go on after the test.
wedge() {
	local pid
	pid=$(watcher_of "$1")
	kill -STOP "$pid"
	at_end "kill -CONT $pid"
	stopped=$pid
}

test_a_stopped_watcher_costs_the_deadline_once() {
	make_repo repo
	token=$(exact_token repo)
	wedge repo
	echo more >>repo/file
	patient_hook 300 repo "$token"
	assert_everything
	# Would it wait for the wedged one again, this would take a minute.
	patient_hook "$MINUTE" repo "$token"
	assert_everything
	patient_hook "$MINUTE" repo "$token"
	assert_everything
}

test_status_is_right_with_a_stopped_watcher_and_again_when_it_goes_on() {
	make_repo repo
	at_work repo
	wedge repo
	echo more >>repo/file
	echo new >repo/new
	bounded 20 git -C repo status --porcelain=v1 -z --untracked-files=all >got
	status_plain repo "$(index_of repo)" all >expected
	same expected got
	TREEWATCH_TIMEOUT_MS=$MINUTE bounded 20 git -C repo status >/dev/null
	kill -CONT "$stopped"
	ends "$stopped"
	at_work repo
	settle repo
	oracle repo
}

test_a_stopped_watcher_that_is_killed_makes_room() {
	make_repo repo
	at_work repo
	wedge repo
	patient_hook 300 repo x
	kill -KILL "$stopped"
	ends "$stopped"
	at_work repo
}

# not_fooled HOW: by what sits there; and the next call has a real watcher.
not_fooled() {
	make_repo repo
	at_work repo
	"$PEER" stop repo
	pretend "$1" repo
	patient_hook "$2" repo x
	assert_everything
	# That one is out of the way now, and a real one comes.
	TREEWATCH_TIMEOUT_MS=$MINUTE bounded 20 git -C repo status >/dev/null
	at_work repo
	status_is repo state watching
}

test_one_that_accepts_and_says_nothing() { not_fooled silent 300; }
test_one_that_sends_half_a_head() { not_fooled half 300; }
test_one_that_sends_half_an_answer() { not_fooled short 300; }
test_one_that_trickles_for_ever() { not_fooled trickle 500; }
# These say at once that they are none: no deadline to wait for.
test_one_that_promises_more_than_memory_holds() { not_fooled huge "$MINUTE"; }
test_one_that_speaks_something_else() { not_fooled garbage "$MINUTE"; }

test_one_that_hangs_up_is_nobody() {
	make_repo repo
	at_work repo
	"$PEER" stop repo
	pretend closed repo
	patient_hook "$MINUTE" repo x
	at_work repo
}

test_a_big_answer_that_is_slow_but_alive_is_not_cut_off() {
	make_repo repo
	"$PEER" stop repo
	# 3 MB in pieces of 64 kB, a tenth of a second each: longer than the deadline.
	pretend slow repo 3072
	patient_hook 3000 repo x
	test "$(stat -c %s "$HOME/answer")" -gt $((3 << 20))
	assert_names dir/some/file
	test -S repo/.git/treewatch/*.sock
	rm repo/.git/treewatch/*.sock
}

test_a_big_answer_of_a_real_watcher_comes_whole() {
	make_repo repo
	token=$(exact_token repo)
	mkdir repo/many
	(cd repo/many && seq -f 'a-name-of-some-length-to-fill-the-socket-%06.0f' 30000 | xargs touch)
	# However often it has to be asked: the answer must be whole and well formed.
	ask repo "$token"
	if ! answer_is_everything; then
		# Less what makes git list a directory that was still empty when looked at.
		equal 30001 "$(answer_paths | tr '\0' '\n' | grep -v '/\.treewatch$' | grep -c '^many')"
	fi
}

test_nonsense_for_a_deadline_is_no_harm() {
	make_repo repo
	at_work repo
	for nonsense in '' soon -1 0 18446744073709551615 99999999999999999999999; do
		TREEWATCH_TIMEOUT_MS=$nonsense bounded 20 "$TREEWATCH" 1 x >/dev/null
		(cd repo && TREEWATCH_TIMEOUT_MS=$nonsense bounded 20 "$TREEWATCH" 2 x >"$HOME/answer")
		assert_well_formed
	done
}

run_tests "$@"
