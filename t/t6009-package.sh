#!/usr/bin/env bash
#
# What make install and make deb bring beside the program, and that it goes again.

# cargo is to be found although each test has a HOME of its own.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

made() { make -s -C "$TOP" "$@"; }

test_install_brings_git_treewatch_man_pages_and_completions() {
	requires make
	made install DESTDIR="$PWD/root" PREFIX=/usr
	for file in bin/git-treewatch share/man/man1/treewatch.1 share/man/man1/treewatch-status.1 \
		share/man/man1/git-treewatch.1 share/bash-completion/completions/treewatch \
		share/zsh/site-functions/_treewatch share/fish/vendor_completions.d/treewatch.fish; do
		test -s "root/usr/$file"
	done
	plain_repo repo
	PATH=$PWD/root/usr/bin:$PATH git -C repo treewatch status >out || test $? = 3
	grep 'not running' out
	if command -v man >/dev/null; then
		man -M "$PWD/root/usr/share/man" git-treewatch >out
		grep -i treewatch out
	fi
	made uninstall DESTDIR="$PWD/root" PREFIX=/usr
	(cd root && find . ! -type d) >left
	empty left
}

# Removed as far as dpkg goes; nothing of the user's is touched.
test_the_package_installs_works_and_removes_cleanly() {
	requires dpkg dpkg-deb make
	cargo deb --version >/dev/null 2>&1 || skip 'cargo-deb is not installed'
	test "$(id -u)" = 0 || skip 'dpkg is for root'
	made deb >out 2>&1 || { cat out; return 1; }
	package=$(find "$TOP/target" -maxdepth 1 -name 'treewatch_*.deb' -newer "$TOP/Makefile" | sort | tail -n 1)
	test -f "$package"
	test -z "$(dpkg-deb --field "$package" Depends)"
	mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates root/var/lib/dpkg/triggers
	: >root/var/lib/dpkg/status
	dpkg --root="$PWD/root" --force-not-root --force-bad-path --force-architecture --install "$package"
	(cd root && find . ! -type d ! -path './var/*') >files
	grep -x ./usr/bin/treewatch files
	grep -x ./usr/share/man/man1/treewatch.1.gz files
	equal treewatch "$(readlink root/usr/bin/git-treewatch)"
	plain_repo repo
	root/usr/bin/treewatch enable --no-untracked-cache repo
	settle repo
	assert_skippable repo
	root/usr/bin/treewatch disable repo
	is_state not-running repo
	dpkg --root="$PWD/root" --force-not-root --force-bad-path --purge treewatch
	(cd root && find . ! -type d ! -path './var/*') >files
	empty files
}

run_tests "$@"
