#!/usr/bin/env bash
#
# Every kind of worktree git has.
# shellcheck disable=SC2031 # GIT_DIR is a test's own matter
. "$(dirname "$0")/test-lib.sh"
each_backend

# works_in REPO: changes at several depths show, exactly, twice over.
works_in() {
	local repo=$1 token
	settle "$repo"
	token=$(exact_token "$repo")
	echo more >>"$repo/dir/sub/file"
	echo new >"$repo/dir/new"
	ask "$repo" "$token"
	assert_names dir/sub/file dir/new
	oracle "$repo"
	git -C "$repo" add -A
	git -C "$repo" commit -q -m 'in works_in'
	oracle "$repo"
	echo more >>"$repo/dir/file"
	rm "$repo/dir/new"
	oracle "$repo"
}

# watchers: how many run.
watchers() { our_processes | wc -l; }

test_an_ordinary_worktree() {
	make_repo repo
	works_in repo
	equal 1 "$(watchers)" watchers
}

test_git_run_from_a_subdirectory() {
	make_repo repo
	echo more >>repo/dir/sub/file
	git -C repo/dir/sub status --porcelain >out
	grep -q ' M dir/sub/file' out
	oracle repo/dir
	equal 1 "$(watchers)" watchers
}

test_linked_worktrees_each_have_their_own() {
	make_repo repo
	git -C repo worktree add -q ../linked
	git -C repo worktree add -q ../second
	works_in linked
	works_in second
	works_in repo
	equal 3 "$(watchers)" watchers
	# What is done in one is not heard of in another.
	local token
	token=$(exact_token linked)
	echo more >>second/file
	echo more >>repo/file
	ask linked "$token"
	assert_nothing
}

test_a_linked_worktree_inside_the_worktree() {
	make_repo repo
	git -C repo worktree add -q inner
	works_in repo
	works_in repo/inner
	works_in repo
}

test_a_linked_worktree_that_is_moved() {
	make_repo repo
	git -C repo worktree add -q ../linked
	works_in linked
	git -C repo worktree move ../linked ../elsewhere 2>err || git -C repo worktree move "$PWD/linked" "$PWD/elsewhere"
	settle elsewhere
	echo more >>elsewhere/file
	oracle elsewhere
}

test_a_submodule_and_what_contains_it() {
	git init -q origin
	plant origin
	commit_all origin
	git init -q super
	plant super
	# For both, as people have it.
	git config --global core.fsmonitor "$(fsmonitor_value)"
	git -C super submodule --quiet add "$PWD/origin" lib/sub
	commit_all super
	settle super/lib/sub
	settle super

	echo more >>super/lib/sub/dir/file
	git -C super status --porcelain >out
	grep -q '^ M lib/sub$' out
	oracle super
	oracle super/lib/sub
	works_in super/lib/sub

	# A commit in the submodule shows in what contains it.
	git -C super/lib/sub checkout -q .
	git -C super status --porcelain >out
	grep -q '^ M lib/sub$' out
	oracle super
	git -C super add lib/sub
	git -C super commit -q -m 'new sub'
	echo untracked >super/lib/sub/new
	git -C super status --porcelain >out
	grep -q '^ M lib/sub$' out
	oracle super
	works_in super
}

test_a_git_directory_elsewhere() {
	git init -q --separate-git-dir=the.git repo
	plant repo
	commit_all repo
	turn_on repo
	works_in repo
}

test_a_git_directory_given_on_the_command_line() {
	git init -q --bare the.git
	git -C the.git config core.bare false
	mkdir repo
	plant repo
	export GIT_DIR=$PWD/the.git GIT_WORK_TREE=$PWD/repo
	watched repo
	commit_all repo first
	turn_on repo
	works_in repo
	equal 1 "$(watchers)" watchers
	# No .git may appear there.
	must_fail test -e repo/.git
}

test_home_as_a_worktree_with_its_git_directory_inside() {
	mkdir home
	plant home
	git init -q --bare home/.dotfiles
	git -C home/.dotfiles config core.bare false
	export GIT_DIR=$PWD/home/.dotfiles GIT_WORK_TREE=$PWD/home
	watched home
	git -C home add dir other file anchor
	git -C home commit -q -m first
	git -C home config status.showUntrackedFiles no
	turn_on home
	local token
	token=$(exact_token home)
	ask home "$token"
	assert_nothing
	echo more >>home/dir/file
	ask home "$token"
	assert_names dir/file
	# git's own writes in its directory must not be changes for ever.
	git -C home status >/dev/null
	oracle home no
}

test_a_sparse_checkout() {
	make_repo repo
	git -C repo sparse-checkout set dir/sub
	settle repo
	works_in repo
	git -C repo sparse-checkout set other
	oracle repo
	git -C repo sparse-checkout add dir
	oracle repo
	git -C repo sparse-checkout disable
	oracle repo
	works_in repo
}

test_a_sparse_index() {
	make_repo repo
	git -C repo sparse-checkout set --sparse-index dir/sub
	git -C repo ls-files --sparse >out
	grep -q '^other/$' out
	settle repo
	works_in repo
	# git forgets what is valid when it makes the index whole again.
	git -C repo sparse-checkout disable
	oracle_after_loss repo
	works_in repo
}

test_a_split_index() {
	make_repo repo
	git -C repo config core.splitIndex true
	git -C repo config splitIndex.maxPercentChange 100
	git -C repo update-index --split-index
	test -n "$(ls repo/.git/sharedindex.*)"
	settle repo
	works_in repo
	works_in repo
}

test_an_index_in_version_4() {
	make_repo repo
	git -C repo update-index --index-version 4
	works_in repo
}

test_a_repository_with_no_commit_yet() {
	git init -q repo
	git -C repo config core.fsmonitor "$(fsmonitor_value)"
	git -C repo status >/dev/null
	plant repo
	oracle_after_loss repo
	git -C repo add -A
	oracle repo
	git -C repo commit -q -m first
	oracle repo
	works_in repo
}

test_a_path_so_long_that_a_socket_address_cannot_hold_it() {
	local long
	long=$(printf '%0200d/%0200d' 1 2)
	mkdir -p "$long"
	make_repo "$long/repo"
	works_in "$long/repo"
}

test_a_top_reached_through_a_symbolic_link() {
	make_repo repo
	ln -s repo link
	works_in link
	works_in repo
	equal 1 "$(watchers)" watchers
}

test_a_nested_repository_is_left_to_git() {
	make_repo repo
	git init -q repo/nested
	plant repo/nested
	oracle repo
	commit_all repo/nested
	oracle repo
	rm -rf repo/nested/.git
	oracle repo
	echo more >>repo/nested/dir/file
	oracle repo
}

run_tests "$@"
