#!/usr/bin/env bash
#
# Names that git drops when a monitor tells of them, although it lists them: `.git` in
# another case, and what Windows would take for it (git: read-cache.c, verify_path).
. "$(dirname "$0")/test-lib.sh"

# as_listed REPO: status is right, and once more by what the first has saved. Unlike
# oracle, it does not ask for exact answers: in a tree with a directory of such a name
# there are none.
as_listed() {
	for _ in first second; do
		cp -p "$1/.git/index" "$HOME/index"
		status_watched "$1" "$MODE" >"$HOME/watched"
		status_plain "$1" "$HOME/index" "$MODE" >"$HOME/plain"
		same "$HOME/plain" "$HOME/watched"
	done
}

cached_repo() {
	MODE=${MODE:-all}
	make_repo repo
	use_untracked_cache repo
	git -C repo config status.showUntrackedFiles "$MODE"
	mkdir -p repo/d "$@"
	for dir in "$@"; do echo 1 >"$dir/before"; done
	settle repo
	# The cache is for one mode at a time.
	as_listed repo
}

test_files_of_such_names_are_seen() {
	cached_repo
	for name in .GIT 'git~1' '.git ' .git... .git::x 'a\.git' GIT~1; do
		echo 1 >"repo/$name"
		as_listed repo
		echo 1 >"repo/d/$name"
		as_listed repo
		rm "repo/$name"
		as_listed repo
	done
	token=$(exact_token repo)
	touch repo/d/new
	ask repo "$token"
	assert_names d/new
}

test_also_where_whole_directories_are_shown() {
	MODE=normal
	cached_repo
	for name in .GIT .Git/x 'git~1/y' 'd/.git...' 'new/.GIT'; do
		mkdir -p "repo/$(dirname "$name")"
		as_listed repo
		echo 1 >"repo/$name"
		as_listed repo
	done
}

test_and_so_is_what_is_in_directories_of_such_names() {
	cached_repo repo/.Git 'repo/d/git~1' 'repo/d/git~1/deep'
	for dir in repo/.Git 'repo/d/git~1' 'repo/d/git~1/deep'; do
		echo 1 >"$dir/new"
		as_listed repo
		# Saves a token, and lists nothing untracked.
		echo 2 >"$dir/newer"
		git -C repo reset -q
		as_listed repo
		rm "$dir/before"
		as_listed repo
	done
}

test_it_is_over_when_they_are_gone() {
	cached_repo 'repo/d/git~1'
	mkdir -p 'repo/d/git~1/deep'
	echo 1 >'repo/d/git~1/deep/file'
	git -C repo status -uno >out
	as_listed repo
	mv 'repo/d/git~1' repo/d/plain
	git -C repo status -uno >out
	as_listed repo
	settle repo
	token=$(exact_token repo)
	echo 2 >repo/d/plain/deep/new
	ask repo "$token"
	assert_names d/plain/deep/new
	as_listed repo
}

run_tests "$@"
