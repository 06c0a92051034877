#!/usr/bin/env bash
#
# What git caches of each directory, and what an answer does to that: faults that the
# model test found, each by the name of what it broke.
. "$(dirname "$0")/test-lib.sh"
each_backend

test_everything_taken_by_a_command_that_lists_nothing() {
	make_repo repo
	use_untracked_cache repo
	mkdir -p repo/a/b/c outside
	echo 1 >repo/a/b/c/untracked
	settle repo
	oracle_after_loss repo
	# A directory that leaves the tree is answered with everything, and reset takes that
	# answer without looking at a single directory.
	mv repo/a outside/a
	git -C repo reset -q --hard
	oracle_after_loss repo
	mkdir -p repo/a/b/c
	oracle_after_loss repo
}

test_a_new_watcher_and_a_command_that_lists_nothing() {
	make_repo repo
	use_untracked_cache repo
	mkdir -p repo/new/deep
	echo 1 >repo/new/deep/untracked
	settle repo
	oracle_after_loss repo
	"$TREEWATCH" stop repo
	rm -r repo/new/deep
	echo 1 >repo/new/other
	git -C repo status -uno >/dev/null
	git -C repo reset -q --hard
	oracle_after_loss repo
}

test_nothing_is_named_twice_for_it_once_git_has_listed() {
	make_repo repo
	use_untracked_cache repo
	settle repo
	oracle_after_loss repo
	token=$(exact_token repo)
	ask repo "$token"
	equal "$token" "$(answer_token)"
	assert_nothing
}

test_a_tracked_file_moved_into_a_linked_worktree_inside() {
	make_repo repo
	use_untracked_cache repo
	git -C repo worktree add -q --detach in/side
	settle repo
	oracle_after_loss repo
	mkdir -p repo/in/side/dir
	git -C repo mv -f dir/file in/side/dir/moved
	oracle_after_loss repo
}

run_tests "$@"
