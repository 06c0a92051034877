#!/usr/bin/env bash
#
# Wherever it is called from: cron, ssh, containers, sandboxes, other users,
# file systems of all kinds. One watcher, or a quiet "everything".
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

# quiet_hook REPO COMMAND...: the hook, run by that command, says nothing on
# stderr and gives a well-formed answer.
quiet_hook() {
	local repo=$1
	shift
	(cd "$repo" && "$@" "$TREEWATCH" 2 x >"$HOME/answer" 2>"$HOME/err")
	empty "$HOME/err"
	assert_well_formed
}

test_no_environment_at_all_finds_the_same_watcher() {
	make_repo repo
	at_work repo
	pid=$(watcher_of repo)
	quiet_hook repo env -i
	quiet_hook repo env -u HOME
	quiet_hook repo env HOME=/nonexistent XDG_RUNTIME_DIR=/nonexistent TMPDIR=/nonexistent
	quiet_hook repo env -i PATH=
	equal "$pid" "$(watcher_of repo)"
	equal 1 "$(starts repo)" 'watchers started'
}

test_started_with_no_environment_it_serves_everybody() {
	make_repo repo
	at_work repo
	"$TREEWATCH" stop repo >/dev/null
	quiet_hook repo env -i
	at_work repo
	settle repo
	oracle repo
}

# Deeper than a socket address is long, and than most buffers are.
deep_repo() {
	local name=a-directory-with-a-rather-long-name-of-fifty-bytes-
	mkdir deep
	deep=$PWD/deep
	for _ in $(seq "$1"); do deep=$deep/$name; done
	mkdir -p "$deep"
	make_repo "$deep/repo"
	at_work "$deep/repo"
	oracle "$deep/repo"
	echo more >>"$deep/repo/dir/file"
	oracle "$deep/repo"
	cd "$deep" && at_work repo
}

test_a_path_over_108_bytes() { deep_repo 4; }
test_a_path_near_the_longest() { deep_repo 74; }

test_a_git_directory_with_a_long_path() {
	local name=a-directory-with-a-rather-long-name-of-fifty-bytes-
	mkdir -p "$name/$name/$name/$name"
	git init -q --separate-git-dir "$PWD/$name/$name/$name/$name/git" repo
	plant repo
	commit_all repo
	turn_on repo
	at_work repo
	oracle repo
	test -S "$name/$name/$name/$name/git/treewatch"/*.sock
}

test_longer_than_any_path_may_be() {
	make_repo repo
	# Made a step at a time: no path leads there.
	perl -e 'chdir "repo/dir" or die; for (1 .. 90) { mkdir "x" x 60; chdir "x" x 60 or die $! }
		open my $file, ">", "file" or die'
	bounded 60 git -C repo status --porcelain >got 2>/dev/null || :
	at_work repo
	perl -e 'chdir "repo/dir" or die; for (1 .. 90) { chdir "x" x 60 or die $! }
		unlink "file"; for (1 .. 90) { chdir ".." or die; rmdir "x" x 60 or die }'
	at_work repo
	settle repo
	oracle repo
}

test_a_read_only_git_directory() { in_namespace read_only_git; }
read_only_git() {
	private_tmp size=16m
	make_repo repo
	"$TREEWATCH" stop repo >/dev/null
	rm -rf repo/.git/treewatch
	mount --bind repo/.git repo/.git
	mount -o remount,bind,ro repo/.git
	at_work repo
	test -S /tmp/treewatch-0/*.sock
	test ! -e repo/.git/treewatch
	token=$(exact_token repo)
	echo more >>repo/file
	ask repo "$token"
	assert_names file
	pid=$(watcher_of repo)
	"$TREEWATCH" stop repo >/dev/null
	is_gone "$pid"
	test ! -e /tmp/treewatch-0
}

test_nowhere_to_put_anything() { in_namespace nowhere; }
nowhere() {
	make_repo repo
	"$TREEWATCH" stop repo >/dev/null
	rm -rf repo/.git/treewatch
	mount --bind repo/.git repo/.git
	mount -o remount,bind,ro repo/.git
	private_tmp size=16m
	mount -o remount,bind,ro /tmp
	for _ in 1 2 3; do
		quiet_hook repo
		assert_everything
	done
	test -z "$(our_processes)"
}

# Its content changes by a name that nobody watches.
test_a_single_file_that_is_mounted() { in_namespace file_mounted; }
file_mounted() {
	make_repo repo
	at_work repo
	echo elsewhere >source
	mount --bind source repo/file
	git -C repo status --porcelain >got
	grep ' M file' got
	git -C repo add file
	git -C repo status --porcelain >got
	grep 'M  file' got
	echo more >>source
	git -C repo status --porcelain >got
	grep 'MM file' got
	ask repo '{"v":2,"id":"x","seq":1}'
	assert_everything
	umount repo/file
	at_work repo
	settle repo
	oracle repo
}

# sandboxed WHAT
sandboxed() {
	requires cc
	cc -o "$HOME/forbid" "$TEST_DIR/helper/forbid.c" 2>"$HOME/cc.err" || skip 'no seccomp headers here'
	"$HOME/forbid" "$1" true || test $? != 125 || skip 'no seccomp here'
	make_repo repo
	at_work repo
	"$TREEWATCH" stop repo >/dev/null
	for _ in $(seq 10); do
		quiet_hook repo "$HOME/forbid" "$1"
		assert_everything
	done
	bounded 60 "$HOME/forbid" "$1" git -C repo diff --quiet 2>"$HOME/err" || :
	# git may say that it cannot start it; it has nothing to say itself.
	must_fail grep '^treewatch' "$HOME/err"
}

test_a_sandbox_without_sockets() {
	sandboxed socket
	test -z "$(our_processes)"
	at_work repo
}

test_a_sandbox_without_forks() {
	sandboxed fork
	test -z "$(our_processes)"
	# What the sandbox had tried keeps nobody else waiting for long.
	at_work repo
}

test_a_sandbox_without_locks() {
	sandboxed flock
	test -z "$(our_processes)"
	at_work repo
}

test_a_sandbox_without_inotify() {
	sandboxed inotify
	status_is repo state degraded
	"$TREEWATCH" status repo >said || :
	grep 'error  *watching cannot begin: ' said
	grep 'not watching: .*: watching cannot begin: ' repo/.git/treewatch/*.log
	equal 1 "$(our_processes | wc -l)" processes
}

test_overlayfs() { in_namespace overlay; }
overlay() {
	mkdir lower disk
	mount -t tmpfs tmpfs disk
	mkdir disk/upper disk/work merged
	make_repo lower/repo
	"$TREEWATCH" stop lower/repo >/dev/null
	mount -t overlay -o "userxattr,lowerdir=lower,upperdir=disk/upper,workdir=disk/work" overlay merged 2>/dev/null ||
		skip_inside 'no overlayfs in a user namespace'
	at_work merged/repo
	settle merged/repo
	echo more >>merged/repo/dir/sub/file
	oracle merged/repo
	mv merged/repo/other merged/repo/another
	echo new >merged/repo/dir/new
	rm merged/repo/file
	oracle merged/repo
	git -C merged/repo checkout -q -- file
	oracle merged/repo
	status_is merged/repo state watching
	"$TREEWATCH" stop merged/repo >/dev/null
	umount merged disk
}

test_fuse() {
	requires bindfs fusermount
	test -w /dev/fuse || skip 'no /dev/fuse'
	mkdir real mounted
	bindfs real mounted 2>/dev/null || skip 'FUSE cannot be mounted here'
	at_end "fusermount -u '$PWD/mounted'"
	git init -q mounted/repo
	plant mounted/repo
	commit_all mounted/repo
	git -C mounted/repo config core.fsmonitor "$(fsmonitor_value)"
	quiet_hook mounted/repo
	assert_everything
	status_is mounted/repo state degraded
	status_of mounted/repo reason | grep -q allowRemote
	# Changed behind its back: still seen, since all is looked at.
	echo more >>real/repo/file
	git -C mounted/repo status --porcelain | grep -q '^ M file'
	"$TREEWATCH" stop mounted/repo >/dev/null
	git -C mounted/repo config fsmonitor.allowRemote true
	at_work mounted/repo
	"$TREEWATCH" stop mounted/repo >/dev/null
}

# other_user REPO: make it somebody else's; the rest needs root.
other_user() {
	test "$(id -u)" = 0 || skip 'only root can be two users'
	chown -R "$ORDINARY_UID:$ORDINARY_UID" "$1"
	git config --global safe.directory '*'
}

test_root_in_the_repository_of_a_user_leaves_nothing() {
	make_repo repo
	"$TREEWATCH" stop repo >/dev/null
	rm -rf repo/.git/treewatch
	other_user repo
	name=$("$PEER" name repo)
	for _ in 1 2 3; do
		quiet_hook repo
		assert_everything
	done
	git -C repo status >/dev/null
	test -z "$(our_processes)"
	test ! -e repo/.git/treewatch
	test ! -e "/tmp/treewatch-0/$name.lock"
	# All but the index that git wrote is still the user's.
	equal '' "$(find repo ! -user "$ORDINARY_UID" ! -name index)"
}

test_root_does_not_disturb_the_watcher_of_the_user() {
	make_repo repo
	"$TREEWATCH" stop repo >/dev/null
	rm -rf repo/.git/treewatch
	other_user repo
	chmod 755 "$HOME/.." "$HOME/../work"
	(cd repo && as_user env HOME=/nonexistent GIT_CONFIG_GLOBAL=/dev/null "$TREEWATCH" 2 x >/dev/null)
	pid=$(as_user "$PEER" pid repo)
	equal "$ORDINARY_UID" "$(stat -c %u "/proc/$pid")" 'user of the watcher'
	for _ in 1 2 3; do
		quiet_hook repo
		assert_everything
	done
	equal "$pid" "$(as_user "$PEER" pid repo)"
	equal 1 "$(our_processes | wc -l)" processes
	equal '' "$(find repo/.git/treewatch ! -user "$ORDINARY_UID")"
}

# The bits of its mode say that anybody may look into it.
test_a_directory_that_an_access_control_list_closes() {
	test "$(id -u)" = 0 || skip 'only root can be two users'
	requires setfacl
	make_repo repo
	"$TREEWATCH" stop repo >/dev/null
	rm -rf repo/.git/treewatch
	other_user repo
	mkdir repo/foreign repo/foreign/sub
	setfacl -m "u:$ORDINARY_UID:r--" repo/foreign 2>/dev/null || skip 'no access control lists here'
	equal 755 "$(stat -c %a repo/foreign)"
	chmod 755 "$HOME/.." "$HOME/../work"
	hook_of_user() { (cd repo && as_user env HOME=/nonexistent GIT_CONFIG_GLOBAL=/dev/null "$TREEWATCH" 2 "$1" >"$HOME/answer"); }
	is_watching() { equal watching "$(as_user "$PEER" status repo state)"; }
	hook_of_user x
	test_poll 30 is_watching
	hook_of_user x
	hook_of_user "$(answer_token)"
	assert_names foreign
	as_user "$PEER" stop repo
}

test_two_users_of_one_repository() {
	make_repo repo
	at_work repo
	pid=$(watcher_of repo)
	test "$(id -u)" = 0 || skip 'only root can be two users'
	# The owner's watcher is the owner's; the other one gets "everything".
	(cd repo && as_user "$TREEWATCH" 2 x >"$HOME/answer" 2>"$HOME/err")
	empty "$HOME/err"
	assert_everything
	equal "$pid" "$(watcher_of repo)"
	equal 1 "$(our_processes | wc -l)" processes
}

run "$@"
