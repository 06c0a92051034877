#!/usr/bin/env bash
#
# One watcher for each worktree, whoever starts it, however often, and whoever
# is killed on the way.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

one_process() {
	equal 1 "$(our_processes | wc -l)" 'processes of this file'
}

test_a_hundred_first_calls_start_one() {
	cold_repo repo
	mkdir answers
	for i in $(seq 100); do
		hook 2 "$i" repo >"answers/$i" 2>"answers/$i.err" &
	done
	wait
	for i in $(seq 100); do
		empty "answers/$i.err"
		cp "answers/$i" "$HOME/answer"
		assert_well_formed
		# None of these tokens is ours.
		assert_everything
	done
	at_work repo
	test_poll 30 one_process
	equal 1 "$(starts repo)" 'watchers started'
	equal 1 "$(cat answers/* | tr '\0' '\n' | grep -o '"id":"[0-9a-f]\{16\}"' | sort -u | wc -l)" instances
	settle repo
	oracle repo
}

test_a_hundred_first_statuses_are_all_right() {
	cold_repo repo
	echo more >>repo/dir/file
	echo new >repo/new
	mkdir answers
	for i in $(seq 100); do
		GIT_OPTIONAL_LOCKS=0 git -C repo status --porcelain=v1 --untracked-files=all >"answers/$i" 2>&1 &
	done
	wait
	for i in $(seq 100); do
		same <(printf ' M dir/file\n?? new\n') "answers/$i"
	done
	equal 1 "$(starts repo)" 'watchers started'
}

test_an_older_protocol_makes_room_once() {
	cold_repo repo
	pretend protocol repo 0
	hook 2 x repo >"$HOME/answer"
	assert_everything
	ends "$pretender"
	at_work repo
	equal 1 "$(starts repo)" 'watchers started'
}

test_a_newer_protocol_is_left_alone() {
	cold_repo repo
	pretend protocol repo 9
	for _ in 1 2 3; do
		patient_hook 60000 repo x
		assert_everything
	done
	test -e "/proc/$pretender/exe" || fail 'the newer one was stopped'
	equal 0 "$(starts repo)" 'watchers started'
	rm repo/.git/treewatch/*.sock
}

test_a_watcher_tells_other_protocols_which_is_its_own() {
	cold_repo repo
	at_work repo
	PEER_PROTOCOL=77 must_fail "$PEER" query repo x 2>said
	grep -q 'refused (1)' said
	at_work repo
	# "Stop" means the same in every protocol.
	pid=$(watcher_of repo)
	PEER_PROTOCOL=77 "$PEER" stop repo
	is_gone "$pid"
}

test_killed_when_it_was_at_work() {
	cold_repo repo
	for _ in $(seq 10); do
		at_work repo
		kill -KILL "$(watcher_of repo)"
		# The very next call, with no wait, is answered rightly.
		ask repo x
		assert_everything
	done
	at_work repo
	settle repo
	oracle repo
	test_poll 30 one_process
}

test_killed_at_any_moment_of_its_start() {
	cold_repo repo
	# A tree that takes a moment, so that the walk is hit as well.
	directories 1000 repo/tree
	for i in $(seq 40); do
		"$PEER" stop repo 2>/dev/null || :
		(cd repo && perl -MTime::HiRes=sleep,time -e '
			my ($program, $delay) = @ARGV;
			my $hook = fork // die;
			if (!$hook) { open STDOUT, ">", "/dev/null"; exec $program, 2, "x" or die }
			my $until = time + $delay;
			# Whoever is a watcher by then is killed; the hook is not.
			do {
				for my $exe (glob "/proc/[0-9]*/exe") {
					next unless (readlink $exe // "") =~ m{^\Q$program\E};
					my ($pid) = $exe =~ /(\d+)/;
					open my $line, "<", "/proc/$pid/cmdline" or next;
					kill KILL => $pid if (<$line> // "") =~ /\0serve\0/ && time >= $until;
				}
			} while waitpid($hook, 1) == 0;
			die "the hook ended with $?\n" if $?;
		' "$TREEWATCH" "0.0$((RANDOM % 4))$((RANDOM % 10))")
		ask repo x
		assert_everything
		at_work repo
	done
	settle repo
	oracle repo
	test_poll 30 one_process
}

test_one_that_never_gets_ready_is_not_started_without_end() {
	cold_repo repo
	# Its log cannot be written and its socket cannot be made: a directory is there.
	"$TREEWATCH" 1 x >/dev/null
	name=$("$PEER" name repo)
	mkdir -m 700 repo/.git/treewatch
	mkdir -p "repo/.git/treewatch/$name.sock/in/the/way"
	for _ in $(seq 30); do
		ask repo x
		assert_everything
	done
	read -r word times _ <"repo/.git/treewatch/$name.lock"
	equal failed "$word"
	echo "30 calls, $times starts"
	test "$times" -le 6
	rm -r "repo/.git/treewatch/$name.sock"
	# It recovers by itself.
	at_work repo
}

run_tests "$@"
