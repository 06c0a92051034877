#!/usr/bin/env bash
#
# Names of all kinds, as bytes; and symbolic links, which are never followed.
. "$(dirname "$0")/test-lib.sh"
each_backend

# Every byte a name may have, but two or three that a single test needs.
# shellcheck disable=SC2016 # nothing in them is to be expanded
strange_names=(
	$'new\nline'
	$'tab\there'
	'"quoted"'
	"single'quote"
	'back\slash'
	'-dash'
	'--'
	' leading space'
	'trailing space '
	'a*?[b]'
	$'latin1-\xe9\xff'
	$'\x01\x7f'
	$'caf\xc3\xa9'
	'.gitx'
	'git'
	'...'
	'{"v":2}'
	'$(touch x)'
	':(top)'
	"$(printf '%0255d' 0)"
)

test_a_file_of_each_name_shows_in_turn() {
	make_repo repo
	local name token
	for name in "${strange_names[@]}"; do
		token=$(exact_token repo)
		echo new >"repo/dir/$name"
		ask repo "$token"
		assert_names "dir/$name"
	done
	oracle repo
	commit_all repo
	settle repo
	for name in "${strange_names[@]}"; do
		token=$(exact_token repo)
		echo more >>"repo/dir/$name"
		ask repo "$token"
		assert_names "dir/$name"
	done
	oracle repo
}

test_a_directory_of_each_name_shows_what_is_in_it() {
	git init -q repo
	use_untracked_cache repo
	plant repo
	commit_all repo
	turn_on repo
	local name token
	for name in "${strange_names[@]}"; do
		token=$(exact_token repo)
		mkdir -p "repo/$name/sub"
		echo new >"repo/$name/sub/$name"
		ask repo "$token"
		assert_names "$name/sub/$name"
		oracle repo
	done
	commit_all repo
	settle repo
	for name in "${strange_names[@]}"; do
		mv "repo/$name" "repo/dir/$name"
		echo more >>"repo/dir/$name/sub/$name"
	done
	oracle_after_rename repo
}

test_a_path_longer_than_a_system_call_takes_at_once() {
	watches_inodes || skip 'notify watches by path, and answers everything for such a tree'
	make_repo repo
	local name level
	name=$(printf '%0200d' 0)
	(
		cd repo/dir || exit
		for level in $(seq 25); do
			mkdir "$name"
			cd "$name" || exit
			if test "$level" = 15; then echo deep >file; fi
		done
	)
	# git itself cannot go below 4,096 bytes; what it can reach must be right.
	oracle_after_loss repo
	(
		cd repo/dir || exit
		for level in $(seq 15); do cd "$name" || exit; done
		echo more >>file
	)
	oracle repo
}

test_a_symbolic_link_is_a_change_of_its_own() {
	make_repo repo
	local token
	token=$(exact_token repo)
	ln -s file repo/link
	ask repo "$token"
	assert_names link
	oracle repo
	commit_all repo
	settle repo
	token=$(exact_token repo)
	ln -sfn other repo/link
	ask repo "$token"
	assert_names link
	oracle repo
	rm repo/link
	echo plain >repo/link
	oracle repo
}

test_a_link_to_a_directory_outside_is_not_followed() {
	make_repo repo
	mkdir -p outside/sub
	ln -s ../outside repo/link
	oracle repo
	local token
	token=$(exact_token repo)
	echo x >outside/sub/file
	echo x >outside/file
	ask repo "$token"
	assert_nothing
	oracle repo
}

test_a_link_that_loops_is_not_followed() {
	git init -q repo
	plant repo
	ln -s . repo/loop
	ln -s ../.. repo/dir/sub/up
	commit_all repo
	turn_on repo
	local token
	token=$(exact_token repo)
	echo more >>repo/dir/sub/file
	ask repo "$token"
	assert_names dir/sub/file
	assert_names_not loop/dir/sub/file dir/sub/up/dir/sub/file
	oracle repo
}

test_a_directory_replaced_by_a_link_to_it() {
	make_repo repo
	mv repo/dir repo/real
	ln -s real repo/dir
	oracle_after_rename repo
	echo more >>repo/dir/sub/file
	oracle repo
	rm repo/dir
	mv repo/real repo/dir
	oracle_after_rename repo
	git -C repo checkout -q .
	oracle repo
}

test_a_fifo_and_a_socket_do_no_harm() {
	make_repo repo
	mkfifo repo/dir/fifo
	perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "repo/dir/socket", Listen => 1) or die $!'
	oracle repo
	echo more >>repo/dir/file
	oracle repo
}

run_tests "$@"
