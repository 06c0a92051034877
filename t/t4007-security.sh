#!/usr/bin/env bash
#
# What others can do to it, and what a repository can: see SECURITY.md.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

mode_of() { stat -c %a "$1"; }

test_its_files_are_for_their_owner_only() {
	(umask 0 && make_repo repo)
	at_work repo
	equal 700 "$(mode_of repo/.git/treewatch)"
	for file in repo/.git/treewatch/*; do
		equal 600 "$(mode_of "$file")" "mode of $file"
	done
}

test_also_below_tmp() { in_namespace below_tmp; }
below_tmp() {
	private_tmp size=16m
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	umask 0
	make_repo mounted/repo
	at_work mounted/repo
	equal 700 "$(mode_of /tmp/treewatch-0)"
	for file in /tmp/treewatch-0/*; do
		equal 600 "$(mode_of "$file")" "mode of $file"
	done
}

# cold REPO: with no watcher, and without what one has made.
cold() {
	make_repo "$1"
	"$TREEWATCH" stop "$1" >/dev/null
	rm -rf "$1/.git/treewatch"
}

test_a_symbolic_link_in_the_place_of_its_directory() {
	cold repo
	mkdir -m 700 elsewhere
	ln -s "$PWD/elsewhere" repo/.git/treewatch
	ask repo x
	assert_everything
	at_work repo
	test -z "$(ls -A elsewhere)" || fail "followed: $(ls -A elsewhere)"
	test -L repo/.git/treewatch
}

test_symbolic_links_in_the_place_of_its_files() {
	cold repo
	name=$("$PEER" name repo)
	mkdir -m 700 repo/.git/treewatch
	echo precious >precious
	for kind in lock log log.1 sock; do
		rm -f repo/.git/treewatch/*
		ln -s "$PWD/precious" "repo/.git/treewatch/$name.$kind"
		ask repo x
		assert_everything
		"$TREEWATCH" stop repo >/dev/null
		equal precious "$(cat precious)" "the file that $kind led to"
	done
	rm -f repo/.git/treewatch/*
	for kind in lock log; do
		ln -s "$PWD/new" "repo/.git/treewatch/$name.$kind"
	done
	ask repo x
	"$TREEWATCH" stop repo >/dev/null
	test ! -e new
}

test_something_else_in_the_place_of_its_files() {
	cold repo
	name=$("$PEER" name repo)
	for kind in lock log sock; do
		for what in mkfifo mkdir; do
			rm -rf repo/.git/treewatch
			mkdir -m 700 repo/.git/treewatch
			$what "repo/.git/treewatch/$name.$kind"
			patient_hook 60000 repo x
			assert_everything
			"$TREEWATCH" stop repo >/dev/null || :
		done
	done
	rm -rf repo/.git/treewatch
	at_work repo
}

test_a_directory_that_others_may_enter_is_not_used() {
	cold repo
	mkdir -m 755 repo/.git/treewatch
	at_work repo
	test -z "$(ls -A repo/.git/treewatch)"
	rm -rf repo/.git/treewatch
}

# /tmp/treewatch-UID is for anybody to make first.
test_the_directory_below_tmp_made_by_somebody_else() {
	test "$(id -u)" = 0 || skip 'only root can be two users'
	NAMESPACES=-m in_namespace planted
}
planted() {
	private_tmp size=16m
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	make_repo mounted/repo
	"$TREEWATCH" stop mounted/repo >/dev/null
	mkdir -m 777 /tmp/treewatch-0
	chown 1:1 /tmp/treewatch-0
	for _ in 1 2 3; do
		patient_hook 60000 mounted/repo x
		assert_everything
	done
	test -z "$(ls -A /tmp/treewatch-0)"
	# Nor is anything believed that sits there.
	name=$("$PEER" name mounted/repo)
	setpriv --reuid=1 --regid=1 --clear-groups flock --no-fork "/tmp/treewatch-0/$name.lock" sleep infinity &
	at_end "kill $!"
	test_poll 30 test -e "/tmp/treewatch-0/$name.lock"
	test_poll 30 must_fail flock --nonblock --shared "/tmp/treewatch-0/$name.lock" true
	bounded 20 "$TREEWATCH" stop mounted/repo
	kill $!
	rm "/tmp/treewatch-0/$name.lock"
	mkdir -m 700 mine
	perl -MIO::Socket::UNIX -e 'my $l = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 5) or die $!;
		$| = 1; print "ready\n"; <STDIN>' "$PWD/mine/silent" </dev/zero >ready &
	at_end "kill $!"
	test_poll 30 test -s ready
	ln -s "$PWD/mine/silent" "/tmp/treewatch-0/$name.sock"
	patient_hook 60000 mounted/repo x
	assert_everything
	rm -r /tmp/treewatch-0
}

# What lies in it is not opened either: a fifo would be waited for.
test_the_directory_below_tmp_that_others_can_write_to() { in_namespace open_to_others; }
open_to_others() {
	private_tmp size=16m
	# On the file system of /, so that the watcher's own files are in the git directory.
	place=$(mktemp -d -p /var/tmp)
	at_end "'$TREEWATCH' stop '$place/repo'; rm -rf '$place'"
	test "$(stat -c %m "$place")" = / || skip_inside '/var/tmp is not on the file system of /'
	cd "$place"
	make_repo repo
	at_work repo
	name=$("$PEER" name repo)
	mkdir -m 777 /tmp/treewatch-0
	touch "/tmp/treewatch-0/$name.sock"
	mkfifo "/tmp/treewatch-0/$name.lock" "/tmp/treewatch-0/$name.log"
	pid=$(watcher_of repo)
	kill -STOP "$pid"
	at_end "kill -CONT $pid"
	patient_hook 300 repo x
	assert_everything
	test -e "/tmp/treewatch-0/$name.sock"
	kill -CONT "$pid"
	ends "$pid"
	rm -r repo/.git/treewatch
	for command in status log; do
		code=0
		bounded 20 "$TREEWATCH" "$command" repo >said 2>&1 || code=$?
		equal 3 "$code" "exit code of $command"
	done
	must_fail grep -q 'last start failed' said
	rm -r /tmp/treewatch-0
}

test_a_symbolic_link_below_tmp() { in_namespace planted_link; }
planted_link() {
	private_tmp size=16m
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	make_repo mounted/repo
	"$TREEWATCH" stop mounted/repo >/dev/null
	mkdir -m 700 elsewhere
	ln -s "$PWD/elsewhere" /tmp/treewatch-0
	patient_hook 60000 mounted/repo x
	assert_everything
	test -z "$(ls -A elsewhere)"
}

test_an_answer_of_another_user_is_not_believed() {
	test "$(id -u)" = 0 || skip 'only root can be two users'
	cold repo
	PEER_USER="$ORDINARY_UID" pretend slow repo 1
	patient_hook 60000 repo x
	assert_everything
	rm repo/.git/treewatch/*.sock
}

test_a_question_of_another_user_is_not_answered() {
	test "$(id -u)" = 0 || skip 'only root can be two users'
	make_repo repo
	at_work repo
	# As if the modes were no obstacle.
	chmod 711 repo/.git/treewatch
	chmod 666 repo/.git/treewatch/*.sock
	chmod 755 "$HOME/.." "$HOME/../work"
	for what in 'query repo x' 'status repo' 'stop repo'; do
		# shellcheck disable=SC2086 # words
		as_user "$PEER" $what >said 2>&1 || :
		must_fail grep -q '"v":2' said
	done
	chmod 700 repo/.git/treewatch
	status_is repo state watching
}

# With each kind of bad company the others get their answers. What a question
# takes is measured alone and in company, best of many, so that only a real wait
# can fail it.
test_bad_company_delays_nobody() {
	make_repo repo
	token=$(exact_token repo)
	pid=$(watcher_of repo)
	alone=$(fastest 50)
	memory=$(status_of repo rss_bytes)
	for how in silent half oversized endless garbage deaf; do
		crowd "$how" repo 1000
		among=$(fastest 50)
		grown=$(($(status_of repo rss_bytes) - memory))
		echo "$how: $among us for a question among 1000 (alone: $alone us), memory grown by $((grown / 1024)) kB"
		test "$among" -le $((alone + 10000))
		test "$grown" -le $((16 << 20))
		disperse
	done
	ask repo "$token"
	assert_nothing
	equal "$pid" "$(watcher_of repo)"
}

# fastest N: microseconds of the fastest of N questions of one process.
fastest() {
	"$PEER" time repo "$token" "$1"
}

test_more_than_it_can_keep() {
	make_repo repo
	token=$(exact_token repo)
	ulimit -n "$(ulimit -Hn)" 2>/dev/null || :
	crowd silent repo 3000
	for _ in 1 2 3 4 5; do
		ask repo "$token"
		assert_nothing
	done
	disperse
}

# Those who come when it is full are not taken for those who leave at the same time.
test_coming_and_going_at_once() {
	make_repo repo
	token=$(exact_token repo)
	crowd silent repo 1000
	status_is repo state watching
	pid=$(watcher_of repo)
	kill -STOP "$pid"
	at_end "kill -CONT $pid"
	"$PEER" together repo "$token" 3 >asked &
	askers=$!
	test_poll 30 grep -q asked asked
	disperse
	kill -CONT "$pid"
	wait "$askers"
}

# Nothing in a repository is ever run or believed.
test_no_program_of_the_repository_is_run() {
	cold repo
	for name in git treewatch sh; do
		printf '#!/bin/sh\ntouch "%s/ran-%s"\n' "$PWD" "$name" >"repo/$name"
		chmod +x "repo/$name"
		mkdir -p repo/bin && cp "repo/$name" repo/bin
	done
	(cd repo && PATH=".::bin:$PATH" "$TREEWATCH" 2 x >"$HOME/answer")
	assert_everything
	at_work repo
	git -C repo config treewatch.idleTimeout 5h
	test_poll 30 grep -q 'settings' repo/.git/treewatch/*.log
	at_work repo
	for name in git treewatch sh; do
		test ! -e "ran-$name" || fail "the repository's $name was run"
	done
}

test_no_command_in_the_configuration_is_run() {
	cold repo
	cat >>repo/.git/config <<-END
		[alias]
			config = !touch "$PWD/ran"
		[core]
			pager = touch "$PWD/ran"
			editor = touch "$PWD/ran"
			sshCommand = touch "$PWD/ran"
			hooksPath = hooks
		[pager]
			config = touch "$PWD/ran"
		[treewatch]
			backend = touch "$PWD/ran"
			command = touch "$PWD/ran"
			idleTimeout = \$(touch "$PWD/ran")
			journalPaths = 0
			journalBytes = 0
	END
	ask repo x
	assert_everything
	test_poll 60 status_is repo state watching
	echo more >>repo/file
	settle_anyhow=$(git -C repo status --porcelain)
	equal ' M file' "$settle_anyhow"
	test ! -e ran
}

test_the_program_that_runs_is_this_one() {
	cold repo
	mkdir fake
	printf '#!/bin/sh\ntouch "%s/ran"\n' "$PWD" >fake/treewatch
	chmod +x fake/treewatch
	(cd repo && PATH=$OLDPWD/fake:$PATH exec -a treewatch "$TREEWATCH" 2 x >"$HOME/answer")
	at_work repo
	equal "$TREEWATCH" "$(readlink "/proc/$(watcher_of repo)/exe")"
	test ! -e ran
}

run "$@"
