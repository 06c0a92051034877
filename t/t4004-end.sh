#!/usr/bin/env bash
#
# A watcher ends by itself when it is of no use any more, and leaves nothing.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

# watching REPO: made and at work; its process id in $pid.
watching() {
	make_repo "$1"
	at_work "$1"
	pid=$(watcher_of "$1")
}

test_the_worktree_is_deleted() {
	watching repo
	rm -rf repo
	ends "$pid"
}

test_the_worktree_is_deleted_from_the_outside_in_one_rename() {
	watching repo
	name=$("$PEER" name repo)
	mv repo gone
	rm -rf gone
	ends "$pid"
	test -z "$(find "/tmp/treewatch-$(id -u)" -name "$name.*" 2>/dev/null)"
}

test_the_git_directory_is_deleted() {
	watching repo
	rm -rf repo/.git
	ends "$pid"
	test ! -e repo/.git
	watched repo
}

test_the_git_directory_is_moved_away_and_another_put_in_its_place() {
	watching repo
	mv repo/.git repo/.git-before
	git init -q repo
	# Nobody would find the old one any more.
	ends "$pid"
	commit_all repo
	turn_on repo
	at_work repo
	oracle repo
	test_poll 30 equal 1 "$(our_processes | wc -l)"
	equal '' "$(but_the_log repo/.git-before/treewatch)" 'left in the old git directory'
}

test_the_git_directory_is_swapped_for_another_in_one_step() {
	watching repo
	cp -a repo/.git other-git
	mv repo/.git before && mv other-git repo/.git
	ends "$pid"
	at_work repo
	settle repo
	oracle repo
}

test_the_worktree_is_moved_away_and_another_put_in_its_place() {
	watching repo
	mv repo before
	make_repo repo
	echo one >>repo/file
	echo two >>before/dir/file
	settle before
	oracle repo
	oracle before
	# Each has its own; the first one has gone along.
	equal "$pid" "$(watcher_of before)"
	must_fail test "$pid" = "$(watcher_of repo)"
}

test_a_linked_worktree_is_removed() {
	watching repo
	git -C repo worktree add -q ../linked
	settle linked
	exact_token linked >/dev/null
	linked=$(watcher_of linked)
	git -C repo worktree remove linked
	ends "$linked"
	equal "$pid" "$(watcher_of repo)"
}

test_nobody_asked_for_long() {
	make_repo repo
	at_work repo
	"$PEER" stop repo
	git -C repo config treewatch.idleTimeout 1
	at_work repo
	pid=$(watcher_of repo)
	ends "$pid"
	equal '' "$(but_the_log repo/.git/treewatch)" 'left by it'
	grep -q 'idleTimeout' repo/.git/treewatch/*.log
	# And comes again.
	at_work repo
}

test_no_idle_timeout_in_the_configuration_can_make_it_crash() {
	make_repo repo
	for value in 18446744073709551615 99999999999999999999 '500000000000d' -1 soon ''; do
		"$PEER" stop repo
		git -C repo config treewatch.idleTimeout "$value"
		at_work repo
	done
	equal 7 "$(starts repo)" 'watchers started'
}

test_changed_settings_are_taken_up() {
	watching repo
	git -C repo config treewatch.idleTimeout 3h
	ends "$pid"
	at_work repo
}

# The configuration is not in its own git directory.
test_changed_settings_are_taken_up_in_a_linked_worktree() {
	make_repo repo
	git -C repo worktree add -q ../linked
	at_work linked
	pid=$(watcher_of linked)
	git -C linked config treewatch.idleTimeout 3h
	ends "$pid"
	at_work linked
}

test_its_socket_is_removed() {
	watching repo
	rm repo/.git/treewatch/*.sock
	ends "$pid"
	at_work repo
}

test_its_directory_is_removed() {
	watching repo
	rm -rf repo/.git/treewatch
	ends "$pid"
	at_work repo
}

test_told_by_a_signal() {
	for signal in TERM INT HUP; do
		watching "repo-$signal"
		kill "-$signal" "$pid"
		ends "$pid"
		equal '' "$(but_the_log "repo-$signal/.git/treewatch")" 'left by it'
	done
}

test_one_that_cannot_watch_ends_as_well() {
	in_namespace limited
}
limited() {
	echo 20 >/proc/sys/user/max_inotify_watches
	make_repo repo
	directories 200 repo/tree
	git -C repo status >/dev/null
	test_poll 30 status_is repo state degraded
	pid=$(watcher_of repo)
	rm -rf repo
	ends "$pid"
}

# A file system is unmounted under it: not kept from it, and noticed.
test_its_file_system_is_unmounted() {
	in_namespace unmounted
}
unmounted() {
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	watching mounted/repo
	name=$("$PEER" name mounted/repo)
	test -S "/tmp/treewatch-$(id -u)/$name.sock"
	umount mounted
	ends "$pid"
	test -z "$(find "/tmp/treewatch-$(id -u)" -name "$name.*" 2>/dev/null)"
}

test_its_file_system_is_unmounted_while_it_cannot_watch() {
	in_namespace unmounted_degraded
}
unmounted_degraded() {
	echo 20 >/proc/sys/user/max_inotify_watches
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	make_repo mounted/repo
	directories 200 mounted/repo/tree
	git -C mounted/repo status >/dev/null
	test_poll 30 status_is mounted/repo state degraded
	pid=$(watcher_of mounted/repo)
	umount mounted
	ends "$pid"
}

test_a_file_system_in_the_worktree_is_unmounted() {
	in_namespace unmounted_below
}
unmounted_below() {
	make_repo repo
	mount -t tmpfs tmpfs repo/dir
	echo new >repo/dir/new
	settle repo
	at_work repo
	umount repo/dir
	settle repo
	oracle repo
}

test_two_hundred_repositories_made_used_and_deleted() {
	for i in $(seq 200); do
		git init -q "repo$i"
		echo "$i" >"repo$i/file"
		git -C "repo$i" config core.fsmonitor "$(fsmonitor_value)"
		git -C "repo$i" add file
		git -C "repo$i" status >/dev/null
		"$PEER" name "repo$i" >>names
		rm -rf "repo$i"
	done
	test_poll 60 no_process_left
	equal 200 "$(sort -u names | grep -c .)" 2>/dev/null || echo 'inode numbers were used again: fine'
	while read -r name; do
		test -z "$(find "/tmp/treewatch-$(id -u)" -name "$name.*" 2>/dev/null)" || fail "left: $name"
	done <names
}

# What a killed one leaves where others are is swept up by them later.
test_what_the_killed_left_is_swept_up_a_day_later() {
	in_namespace swept
}
swept() {
	private_tmp size=16m
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	watching mounted/killed
	killed=$(basename "$("$PEER" socket mounted/killed)" .sock)
	kill -KILL "$pid"
	ends "$pid"
	watching mounted/alive
	alive=$(basename "$("$PEER" socket mounted/alive)" .sock)
	# Fresh: it may still come back, and its mark may matter.
	test -S "/tmp/treewatch-0/$killed.sock"
	touch -d '2 days ago' /tmp/treewatch-0/*
	watching mounted/next
	test_poll 30 eval "! ls /tmp/treewatch-0/$killed.* 2>&1"
	# The old files of one that lives are left alone.
	test -S "/tmp/treewatch-0/$alive.sock"
	test -e "/tmp/treewatch-0/$alive.lock"
	at_work mounted/alive
	"$PEER" stop mounted/alive
	"$PEER" stop mounted/next
	test ! -e /tmp/treewatch-0
}

run "$@"
