#!/usr/bin/env bash
#
# Out of watches, of instances, of descriptors, of disk: git gets "everything",
# quietly, what was taken is given back, `status` says what it was, nobody tries
# without end, and when there is enough again it goes on by itself.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

limit_watches() { echo "$1" >/proc/sys/user/max_inotify_watches; }
limit_instances() { echo "$1" >/proc/sys/user/max_inotify_instances; }

big_repo() {
	git init -q repo
	plant repo
	directories 300 repo/tree
	commit_all repo
	git -C repo config core.fsmonitor "$(fsmonitor_value)"
}

# quietly_everything: every call, with not a word on stderr.
quietly_everything() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		(cd repo && "$TREEWATCH" 2 x >"$HOME/answer" 2>"$HOME/err")
		empty "$HOME/err"
		assert_everything
	done
}

limit_says() {
	test "$(status_of repo limit | perl -MJSON::PP -e 'print decode_json(<STDIN>)->{$ARGV[0]} // "null"' "$1")" = "$2" ||
		fail "limit: $(status_of repo limit)"
}

test_out_of_watches() { in_namespace out_of_watches; }
out_of_watches() {
	limit_watches 50
	big_repo
	quietly_everything
	test_poll 30 status_is repo state degraded
	pid=$(watcher_of repo)
	# What it had taken is given back; a few tell it when to end.
	test "$(inotify_watches "$pid")" -le 5
	equal 1 "$(starts repo)" 'watchers started'
	equal 1 "$(our_processes | wc -l)" processes
	before=$(status_of repo resyncs)
	quietly_everything
	equal "$before" "$(status_of repo resyncs)" attempts
	settle repo
	status_of repo reason | grep -q 'user.max_inotify_watches stands at 50'

	# 303 directories and 4 of plant's, the top, the .git, the guards.
	test_poll 30 limit_says value 50
	test_poll 30 limit_is_counted
	needed=$(status_of repo limit | grep -o '"needed":"\?[0-9]*' | tr -dc 0-9)
	test "$needed" -gt 300 && test "$needed" -lt 330

	# Raised to what it said it needs, no more.
	limit_watches "$needed"
	at_work repo
	status_is repo state watching
	status_is repo limit null
	equal 1 "$(starts repo)" 'watchers started'
	echo more >>repo/dir/sub/file
	settle repo
}
limit_is_counted() {
	status_of repo limit | grep -q 'sysctl user.max_inotify_watches=[0-9]'
}

test_out_of_watches_while_at_work() { in_namespace out_of_watches_later; }
out_of_watches_later() {
	limit_watches 400
	big_repo
	at_work repo
	settle repo
	directories 200 repo/more
	echo more >>repo/dir/file
	ask repo x
	test_poll 30 status_is repo state degraded
	test "$(inotify_watches "$(watcher_of repo)")" -le 5
	status_watched repo all >got
	status_plain repo "$(index_of repo)" all >expected
	same expected got
	# When there are fewer directories again it will find out in time; a raised
	# limit it sees with the next question.
	limit_watches 1000
	at_work repo
	settle repo
	oracle repo
}

test_out_of_instances() { in_namespace out_of_instances; }
out_of_instances() {
	limit_instances 0
	big_repo
	quietly_everything
	test_poll 30 status_is repo state degraded
	status_of repo reason | grep -q 'user.max_inotify_instances stands at 0.*sysctl user.max_inotify_instances=1'
	equal 1 "$(starts repo)" 'watchers started'
	before=$(status_of repo resyncs)
	quietly_everything
	equal "$before" "$(status_of repo resyncs)" attempts
	# Raised, but not enough for another one that takes it: tried, and not given up.
	limit_instances 1
	at_work repo
	status_is repo state watching
	settle repo
	oracle repo
}

# No watch tells such a one that it was cut off: it looks by itself.
test_one_without_any_watch_ends_as_well() { in_namespace without_any_watch; }
without_any_watch() {
	limit_instances 0
	big_repo
	ask repo x
	test_poll 30 status_is repo state degraded
	pid=$(watcher_of repo)
	rm repo/.git/treewatch/*.sock
	ends "$pid"
	ask repo x
	test_poll 30 status_is repo state degraded
	pid=$(watcher_of repo)
	rm -rf repo
	ends "$pid"
}

test_out_of_instances_twice_is_not_given_up() { in_namespace out_of_instances_twice; }
out_of_instances_twice() {
	limit_instances 0
	big_repo
	ask repo x
	limit_instances 1
	# Somebody else is faster.
	coproc OTHER { perl -e '
		require "syscall.ph" unless eval { syscall(294, 0) >= 0 } ; $| = 1; print "taken\n"; <STDIN>'; }
	read -r _ <&"${OTHER[0]}"
	ask repo x
	ask repo x
	test_poll 30 status_is repo state degraded
	must_fail test "$(status_of repo retry_in_s)" = null
	kill "$OTHER_PID"
	wait "$OTHER_PID" 2>/dev/null || :
	limit_instances 2
	at_work repo
}

# descriptors N: with only so many, whatever happens, git gets a right answer.
test_out_of_descriptors() {
	make_repo repo
	at_work repo
	for limit in 3 4 5 6 7 8 9 10 11 12 13 14 15 16 20; do
		"$TREEWATCH" stop repo >/dev/null
		for _ in 1 2 3; do
			(
				ulimit -n "$limit"
				cd repo && exec "$TREEWATCH" 2 x
			) >"$HOME/answer" 2>"$HOME/err"
			empty "$HOME/err"
			assert_everything
		done
	done
	"$TREEWATCH" stop repo >/dev/null
	at_work repo
	settle repo
	oracle repo
}

# One that got by with few must not be kept spinning by those who knock.
test_few_descriptors_and_many_clients() {
	make_repo repo
	at_work repo
	"$TREEWATCH" stop repo >/dev/null
	(
		ulimit -n 16
		cd repo && exec "$TREEWATCH" 2 x
	) >"$HOME/answer"
	pid=$(watcher_of repo)
	crowd silent repo 40
	before=$(stat_field "$pid" 14)
	for _ in $(seq 20); do ask repo x; done
	after=$(stat_field "$pid" 14)
	echo "twenty questions cost $((after - before)) ticks"
	test $((after - before)) -lt 50
	disperse
	at_work repo
}

# On a full disk: no place for its files, so nothing is started, and no word said.
test_a_full_disk() { in_namespace full_disk; }
full_disk() {
	private_tmp size=64k,nr_inodes=40
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	make_repo mounted/repo
	ln -s mounted/repo repo
	at_work repo
	"$TREEWATCH" stop repo >/dev/null
	# With no room for data; then with none for names.
	dd if=/dev/zero of=/tmp/full bs=4k 2>/dev/null || :
	quietly_everything
	"$TREEWATCH" stop repo >/dev/null
	for i in $(seq 100); do : 2>/dev/null >"/tmp/inode$i" || break; done
	quietly_everything
	test -z "$(our_processes)"
	settle repo
	rm /tmp/full /tmp/inode*
	at_work repo
	settle repo
	oracle repo
}

test_a_disk_that_fills_up_while_it_is_at_work() { in_namespace disk_fills; }
disk_fills() {
	private_tmp size=256k
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	make_repo mounted/repo
	ln -s mounted/repo repo
	at_work repo
	dd if=/dev/zero of=/tmp/full bs=4k 2>/dev/null || :
	echo more >>repo/file
	settle repo
	oracle repo
	status_is repo state watching
	# Killed on the full disk, and started on it.
	kill -KILL "$(watcher_of repo)"
	for _ in $(seq 20); do
		ask repo x
		assert_everything
	done
	rm /tmp/full
	at_work repo
	settle repo
	oracle repo
}

run "$@"
