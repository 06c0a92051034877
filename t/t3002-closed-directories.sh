#!/usr/bin/env bash
#
# Directories that may not be read, as somebody who is not root, with git's untracked
# cache: faults that the model test found.
. "$(dirname "$0")/test-lib.sh"
whole_file_as_user "$@"
each_backend

test_a_closed_directory_is_not_listed_from_the_cache() {
	make_repo repo
	use_untracked_cache repo
	mkdir -p repo/closed
	echo 1 >repo/closed/untracked
	settle repo
	oracle_after_loss repo
	chmod 300 repo/closed
	git -C repo reset -q --hard
	oracle_after_loss repo 2>/dev/null
	chmod 700 repo/closed
	oracle_after_loss repo
}

test_nor_is_what_lies_below_it() {
	make_repo repo
	use_untracked_cache repo
	mkdir -p repo/a/closed/b/c
	echo 1 >repo/a/closed/b/c/untracked
	settle repo
	oracle_after_loss repo
	chmod 400 repo/a/closed
	git -C repo reset -q --hard 2>/dev/null
	oracle_after_loss repo 2>/dev/null
	chmod 700 repo/a/closed
	oracle_after_loss repo
}

test_a_closed_directory_is_named_in_every_answer() {
	make_repo repo
	mkdir repo/closed
	echo 1 >repo/closed/file
	commit_all repo
	settle repo
	chmod 000 repo/closed
	oracle_after_loss repo 2>/dev/null
	token=$(exact_token repo)
	ask repo "$token"
	assert_names closed
	ask repo "$token"
	assert_names closed
	chmod 700 repo/closed
	ask repo "$token"
	token=$(exact_token repo)
	ask repo "$token"
	assert_names_not closed
	echo 2 >>repo/closed/file
	oracle repo
}

run_tests "$@"
