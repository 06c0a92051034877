#!/usr/bin/env bash
#
# What is done to files shows in git status, and only what has changed is named.
. "$(dirname "$0")/test-lib.sh"
each_backend

# The whole of a test: in a fresh repository do something, see that the answer
# is exact and names the paths given, and that git's status is right; with and
# without the untracked cache.
#
# changes COMMAND PATH...: COMMAND is a function, run in the top.
changes() {
	local command=$1 cache token
	shift
	for cache in no yes; do
		git init -q "repo-$cache"
		if test "$cache" = yes; then use_untracked_cache "repo-$cache"; fi
		plant "repo-$cache"
		commit_all "repo-$cache"
		turn_on "repo-$cache"
		token=$(exact_token "repo-$cache")
		(cd "repo-$cache" && "$command")
		ask "repo-$cache" "$token"
		assert_names "$@"
		assert_names_not anchor
		oracle "repo-$cache"
		if test "$cache" = no; then oracle "repo-$cache" normal; fi
	done
}

test_a_modified_file_shows() {
	it() { echo more >>dir/file; }
	changes it dir/file
}

test_a_file_overwritten_with_as_many_bytes_shows() {
	it() { tr c C <file >../copy && cat ../copy >file; }
	changes it file
}

test_a_truncated_file_shows() {
	it() { : >dir/sub/file; }
	changes it dir/sub/file
}

test_a_new_file_shows() {
	it() { echo new >dir/new; }
	changes it dir/new
}

test_an_empty_new_file_shows() {
	it() { : >new; }
	changes it new
}

test_a_deleted_file_shows() {
	it() { rm dir/sub/file; }
	changes it dir/sub/file
}

test_a_deleted_untracked_file_is_gone() {
	make_repo repo
	echo new >repo/dir/new
	oracle repo
	local token
	token=$(exact_token repo)
	rm repo/dir/new
	ask repo "$token"
	assert_names dir/new
	oracle repo
}

test_a_renamed_file_shows_under_both_names() {
	it() { mv dir/file other/name; }
	changes it dir/file other/name
}

test_a_file_renamed_over_another_shows() {
	it() { mv file dir/file; }
	changes it file dir/file
}

test_a_file_replaced_as_editors_do_shows() {
	it() {
		echo edited >dir/file.tmp
		mv dir/file.tmp dir/file
	}
	changes it dir/file
}

test_a_file_made_executable_shows() {
	it() { chmod +x dir/file; }
	changes it dir/file
}

test_a_file_no_longer_executable_shows() {
	git init -q repo
	plant repo
	chmod +x repo/file
	commit_all repo
	turn_on repo
	local token
	token=$(exact_token repo)
	chmod -x repo/file
	ask repo "$token"
	assert_names file
	oracle repo
}

test_a_file_with_an_old_time_set_on_it_is_named() {
	it() { touch -d '2001-02-03' dir/file; }
	changes it dir/file
}

test_a_file_that_becomes_a_directory_shows() {
	it() {
		rm file
		mkdir file
		echo inside >file/inside
	}
	changes it file/inside
}

test_a_directory_that_becomes_a_file_shows() {
	it() {
		rm -r dir
		echo flat >dir
	}
	changes it dir
}

test_a_directory_becomes_a_file_and_a_directory_again() {
	it() {
		rm -r dir
		echo flat >dir
		git status >/dev/null
		rm dir
		mkdir -p dir/sub
		echo back >dir/sub/file
		git status >/dev/null
		echo again >>dir/sub/file
		echo new >dir/sub/new
	}
	changes it dir/sub/file dir/sub/new
}

test_nothing_changed_keeps_the_token() {
	make_repo repo
	local token
	token=$(exact_token repo)
	ask repo "$token"
	assert_nothing
	equal "$token" "$(answer_token)" token
	# Reading is no change.
	cat repo/file repo/dir/file >/dev/null
	find repo >/dev/null
	ask repo "$token"
	assert_nothing
	equal "$token" "$(answer_token)" token
}

test_what_happens_below_dot_git_is_no_change() {
	make_repo repo
	local token
	token=$(exact_token repo)
	git -C repo branch other
	git -C repo tag v1
	echo x >repo/.git/x
	git -C repo commit -q --allow-empty -m empty
	ask repo "$token"
	assert_nothing
	equal "$token" "$(answer_token)" token
}

test_a_token_goes_on_naming_what_changed_since() {
	make_repo repo
	local first second
	first=$(exact_token repo)
	echo more >>repo/file
	ask repo "$first"
	assert_names file
	second=$(answer_token)
	echo more >>repo/dir/file
	ask repo "$second"
	assert_names dir/file
	assert_names_not file
	# git often comes back with the same old token for a long time.
	ask repo "$first"
	assert_names file dir/file
	ask repo "$(answer_token)"
	assert_nothing
}

test_status_right_after_a_write_never_misses_it() {
	make_repo repo
	local round
	for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		echo "$round" >>repo/dir/sub/file
		git -C repo status --porcelain >out
		grep -q '^ M dir/sub/file$' out
		git -C repo checkout -q dir/sub/file
		git -C repo status --porcelain >out
		empty out
	done
	oracle repo
}

run_tests "$@"
