#!/usr/bin/env bash
#
# make install, make uninstall, and how the program is linked.
. "$(dirname "$0")/test-lib.sh"

# The source as it was built, without what make would build again.
made() { make -s -C "$TOP" "$@"; }

test_install_honours_destdir_and_prefix() {
	requires make
	made install DESTDIR="$PWD/root" PREFIX=/opt/tw >out
	(cd root && find . -type f | sort) >files
	grep -qx ./opt/tw/bin/treewatch files
	grep -qx ./opt/tw/share/treewatch/hooks/fsmonitor-treewatch.sample files
	must_fail grep -v '^\./opt/tw/' files
	test -x root/opt/tw/bin/treewatch
	same "$TOP/treewatch" root/opt/tw/bin/treewatch
}

test_install_twice_is_no_matter() {
	made install DESTDIR="$PWD/root"
	made install DESTDIR="$PWD/root"
	test -x root/usr/local/bin/treewatch
}

test_install_over_a_running_watcher() {
	made install DESTDIR="$PWD" PREFIX=/inst
	git init -q repo
	plant repo
	commit_all repo
	git -C repo config core.fsmonitor "$PWD/inst/bin/treewatch"
	settle repo
	made install DESTDIR="$PWD" PREFIX=/inst
	echo more >>repo/file
	oracle repo
	"$PWD/inst/bin/treewatch" stop repo
}

test_uninstall_removes_what_install_made() {
	made install DESTDIR="$PWD/root"
	made uninstall DESTDIR="$PWD/root"
	(cd root && find . ! -type d) >left
	empty left
}

test_a_destination_with_a_space() {
	made install DESTDIR="$PWD/a root"
	test -x 'a root/usr/local/bin/treewatch'
	made uninstall DESTDIR="$PWD/a root"
	must_fail test -e 'a root/usr/local/bin/treewatch'
}

test_the_program_is_static() {
	test "$(uname -s)" = Linux || skip 'not on Linux'
	requires readelf
	readelf -lW "$TREEWATCH" >segments
	must_fail grep -q INTERP segments
	readelf -dW "$TREEWATCH" >dynamic
	must_fail grep -q NEEDED dynamic
}

test_it_runs_where_there_is_nothing_else() {
	test "$(id -u)" = 0 || skip 'chroot is for root'
	mkdir root
	cp "$TREEWATCH" root/treewatch
	chroot root /treewatch --version >out
	grep -q '^treewatch ' out
}

test_a_prefix_in_the_home_directory_that_the_shell_left_alone() {
	made install PREFIX='~/.local'
	test -x "$HOME/.local/bin/treewatch"
	made uninstall PREFIX='~/.local'
	must_fail test -e "$HOME/.local/bin/treewatch"
}

run_tests "$@"
