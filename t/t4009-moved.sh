#!/usr/bin/env bash
#
# A worktree that is renamed, copied, swapped with another: the watcher stays
# right, useful where it can be, and no two ever share a token.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"
each_backend

test_a_renamed_worktree_keeps_its_watcher() {
	make_repo repo
	token=$(exact_token repo)
	settle repo
	pid=$(watcher_of repo)
	mv repo renamed
	echo more >>renamed/dir/sub/file
	mkdir renamed/dir/new && echo new >renamed/dir/new/file
	right renamed
	equal "$pid" "$(watcher_of renamed)"
	status_is renamed root "$PWD/renamed"
	# Useful: exact again, with the watches it had.
	at_work renamed
	settle renamed
	token=$(exact_token renamed)
	echo more >>renamed/dir/sub/deep/file
	ask renamed "$token"
	assert_names dir/sub/deep/file
	rm -rf renamed/other
	oracle renamed
	# And it still sees its end.
	rm -rf renamed
	ends "$pid"
}

test_a_directory_above_it_is_renamed() {
	mkdir -p above/more
	make_repo above/more/repo
	at_work above/more/repo
	settle above/more/repo
	pid=$(watcher_of above/more/repo)
	mv above beyond
	echo more >>beyond/more/repo/dir/file
	mkdir -p beyond/more/repo/x/y/z && echo new >beyond/more/repo/x/y/z/file
	right beyond/more/repo
	at_work beyond/more/repo
	settle beyond/more/repo
	equal "$pid" "$(watcher_of beyond/more/repo)"
	# Something else comes to where it was.
	make_repo above/more/repo
	at_work above/more/repo
	settle above/more/repo
	echo other >>above/more/repo/other/file
	oracle above/more/repo
	oracle beyond/more/repo
}

test_a_copy_never_shares_a_token() {
	make_repo repo
	token=$(exact_token repo)
	cp -a repo copy
	# What changed in the copy since is not known to the watcher of the other.
	echo one >>copy/file
	ask copy "$token"
	assert_everything
	theirs=$(exact_token copy)
	must_fail test "$token" = "$theirs"
	ask repo "$theirs"
	assert_everything
	settle copy
	echo two >>copy/dir/file
	echo three >>repo/other/file
	oracle copy
	oracle repo
	must_fail test "$(watcher_of repo)" = "$(watcher_of copy)"
}

test_two_repositories_swapped_by_renames() {
	make_repo one
	make_repo two
	at_work one
	at_work two
	settle one
	settle two
	echo one >>one/file
	echo two >>two/dir/file
	mv one three && mv two one && mv three two
	right one
	right two
	echo more >>one/other/file
	rm two/file
	right one
	right two
	at_work one
	at_work two
	settle one
	settle two
	echo again >>one/dir/file
	oracle one
	oracle two
}

test_two_git_directories_swapped() {
	make_repo one
	make_repo two
	at_work one
	at_work two
	settle one
	settle two
	echo one >>one/file
	echo two >>two/dir/file
	mv one/.git git && mv two/.git one/.git && mv git two/.git
	echo more >>one/other/file
	git -C one status >/dev/null
	git -C two status >/dev/null
	settle one
	settle two
	oracle one
	oracle two
	test_poll 30 two_processes
}
two_processes() {
	equal 2 "$(our_processes | wc -l)" processes
}

test_a_worktree_replaced_by_its_own_copy() {
	make_repo repo
	at_work repo
	cp -a repo copy
	echo changed >copy/file
	rm copy/dir/sub/file
	mv repo before && mv copy repo
	git -C repo status >/dev/null
	settle repo
	oracle repo
}

run_tests "$@"
