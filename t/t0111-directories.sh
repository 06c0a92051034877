#!/usr/bin/env bash
#
# Directories that appear, vanish, move and come back.
. "$(dirname "$0")/test-lib.sh"
each_backend

# git judges the tree as it is now, with the untracked cache and without.
make_both() {
	make_repo plain
	git init -q cached
	use_untracked_cache cached
	plant cached
	commit_all cached
	turn_on cached
}

# judged_by ORACLE COMMAND...: run the command in each of the two, and judge.
judged_by() {
	local oracle=$1 repo
	shift
	for repo in plain cached; do
		(cd "$repo" && "$@")
		"$oracle" "$repo"
	done
}

in_both() { judged_by oracle "$@"; }

renaming_in_both() { judged_by oracle_after_rename "$@"; }

# For what may cost one answer of everything: what is moved out of the tree has
# gone at once, and no event tells what was below it.
in_both_after_loss() { judged_by oracle_after_loss "$@"; }

test_a_directory_renamed_twice_shows_what_changes_two_levels_below() {
	make_both
	move() { mv "$1" "$2"; }
	edit() { echo edit >>"$1"; }
	make() { echo new >"$1"; }
	renaming_in_both move dir b
	in_both edit b/sub/deep/file
	in_both make b/sub/deep/new
	renaming_in_both move b c
	in_both edit c/sub/deep/file
	in_both make c/sub/deep/newer
	in_both edit c/sub/file
}

test_a_change_below_a_renamed_directory_is_named_by_its_new_path() {
	make_repo repo
	mv repo/dir repo/b
	local token
	token=$(exact_token repo)
	echo edit >>repo/b/sub/deep/file
	ask repo "$token"
	assert_names b/sub/deep/file
	assert_names_not dir/sub/deep/file
	token=$(answer_token)
	mv repo/b/sub repo/other/sub
	ask repo "$token"
	if watches_inodes; then assert_names b/sub other/sub/deep/file; fi
	token=$(exact_token repo)
	echo edit >>repo/other/sub/deep/file
	ask repo "$token"
	assert_names other/sub/deep/file
	assert_names_not b/sub/deep/file dir/sub/deep/file
}

test_a_renamed_directory_and_a_change_below_it_before_anyone_asks() {
	make_both
	it() {
		mv dir b
		echo edit >>b/sub/deep/file
		mv b c
		echo edit >>c/sub/file
		echo new >c/sub/deep/new
	}
	renaming_in_both it
}

test_an_old_name_made_anew_after_a_rename() {
	make_both
	it() {
		mv dir moved
		mkdir -p dir/sub
		echo other >dir/sub/file
		echo more >>moved/sub/file
	}
	more() {
		echo more >>dir/sub/file
		echo more >>moved/sub/deep/file
		echo new >dir/sub/new
	}
	renaming_in_both it
	in_both more
}

test_two_directories_swapped() {
	make_both
	it() {
		mv dir tmp
		mv other dir
		mv tmp other
	}
	more() {
		echo more >>other/sub/deep/file
		echo more >>dir/file
	}
	renaming_in_both it
	in_both more
}

test_a_directory_renamed_over_an_empty_one() {
	make_both
	it() {
		mkdir empty
		git status >/dev/null
		mv -T other empty
	}
	more() { echo more >>empty/file; }
	in_both_after_loss it
	in_both more
}

test_ten_levels_made_at_once_with_a_file_at_the_bottom() {
	make_both
	it() {
		mkdir -p 1/2/3/4/5/6/7/8/9/10
		echo deep >1/2/3/4/5/6/7/8/9/10/file
	}
	more() { echo more >1/2/3/4/5/6/7/8/9/10/second; }
	in_both it
	in_both more
	# And in the answer itself, a number of times, as it is a race.
	local token round path
	token=$(exact_token plain)
	for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		path=$round/2/3/4/5/6/7/8/9/a/file
		mkdir -p "plain/${path%/file}"
		echo deep >"plain/$path"
		ask plain "$token"
		assert_names "$path"
		token=$(answer_token)
	done
}

test_an_empty_new_directory_gets_its_file_later() {
	make_both
	one() { mkdir -p new/empty; }
	two() { echo late >new/empty/file; }
	three() { rm -r new; }
	in_both one
	in_both two
	in_both three
}

test_a_tree_moved_in_from_elsewhere() {
	make_both
	it() {
		mkdir -p "../elsewhere-$1/a/b"
		echo in >"../elsewhere-$1/a/b/file"
		mv "../elsewhere-$1" in
	}
	more() { echo more >>in/a/b/file; }
	third() { echo new >in/a/new; }
	(cd plain && it plain) && oracle plain
	(cd cached && it cached) && oracle cached
	in_both more
	in_both third
}

test_a_tree_moved_out_is_gone_and_no_longer_heard_of() {
	make_repo repo
	mv repo/dir out
	oracle_after_loss repo
	local token
	token=$(exact_token repo)
	echo more >>out/sub/deep/file
	mkdir out/sub/new
	ask repo "$token"
	assert_nothing
	oracle repo
	mv out repo/back
	oracle repo
	echo more >>repo/back/sub/deep/file
	oracle repo
}

test_a_tree_moved_out_and_back_with_changes_made_outside() {
	make_both
	it() {
		mv dir ../out
		echo more >>../out/sub/deep/file
		echo new >../out/sub/new
		mv ../out dir
	}
	in_both_after_loss it
	slowly() {
		mv dir ../out
		git status >/dev/null
		rm ../out/sub/deep/file
		mv ../out dir
	}
	in_both_after_loss slowly
}

test_a_removed_tree_and_the_same_made_again() {
	make_both
	remove_it() { rm -r dir; }
	again() {
		mkdir -p dir/sub/deep
		echo again >dir/sub/deep/file
	}
	churn() {
		local round
		for round in 1 2 3 4 5 6 7 8 9 10; do
			rm -rf dir
			mkdir -p dir/sub/deep
			echo "$round" >dir/sub/deep/file
		done
		echo x >dir/sub/deep/untracked
	}
	in_both remove_it
	in_both again
	# What went before it was looked at may cost one answer of everything.
	in_both_after_loss churn
	in_both remove_it
	in_both again
}

test_a_copied_tree_shows_whole() {
	make_both
	it() { cp -r dir copy; }
	more() { echo more >>copy/sub/deep/file; }
	in_both it
	in_both more
}

test_a_directory_in_a_directory_that_git_ignores() {
	make_both
	it() {
		echo ignored/ >.gitignore
		mkdir -p ignored/a/b
		echo x >ignored/a/b/file
	}
	# No longer ignored, all of it shows, and what is changed in it after.
	shown() { : >.gitignore; }
	more() { echo y >ignored/a/b/second; }
	in_both it
	in_both shown
	in_both more
}

test_the_top_itself_gets_files_and_loses_them() {
	make_both
	one() { echo x >a && echo y >b; }
	two() { rm a && mv b c; }
	in_both one
	in_both two
}

run_tests "$@"
