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

# the_package: $package is what `make deb` makes, once for all tests of this file.
the_package() {
	requires dpkg dpkg-deb make
	local made
	if ! cargo deb --version >/dev/null 2>&1; then
		test -z "${TREEWATCH_TEST_PACKAGE:-}" || fail 'TREEWATCH_TEST_PACKAGE is set, and cargo-deb is not installed'
		skip 'cargo-deb is not installed'
	fi
	package=$TRASH/treewatch.deb
	if ! test -e "$package"; then
		made deb >deb.out 2>deb.err || { cat deb.out deb.err; return 1; }
		made=$(tail -n 1 deb.out)
		(cd "$TOP" && cp "$made" "$package")
	fi
}

test_the_package_says_what_it_is() {
	the_package
	equal 'git (>= 1:2.26)' "$(dpkg-deb --field "$package" Depends)"
	equal "$("$TREEWATCH" --version)" "treewatch $(dpkg-deb --field "$package" Version)"
	# A field without a value is none that a package may have.
	dpkg-deb --info "$package" >info
	must_fail grep -E '^ [A-Z][A-Za-z-]+: *$' info
	dpkg-deb --extract "$package" there
	grep -q Apache there/usr/share/doc/treewatch/copyright
	zcat there/usr/share/doc/treewatch/changelog.gz | same "$TOP/CHANGELOG.md" -
}

# As far as dpkg goes, where no root can be had to install it in. Nothing of the user's is
# touched.
test_the_package_is_unpacked_works_and_is_removed() {
	the_package
	test "$(id -u)" = 0 || skip 'dpkg is for root'
	mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates root/var/lib/dpkg/triggers
	: >root/var/lib/dpkg/status
	# git is here, and not in there.
	dpkg --root="$PWD/root" --force-not-root --force-bad-path --force-architecture --force-depends --install "$package"
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

# clean_root: ./root is a system like this machine's with git and no more, from the mirror
# that this machine has its packages from. TREEWATCH_TEST_ROOT names a directory to make it
# in and keep it for the next time.
clean_root() {
	requires debootstrap unshare apt-get
	test "$(id -u)" = 0 || skip 'a root of its own is for root'
	local kept=${TREEWATCH_TEST_ROOT:-$PWD/root} release mirror
	if ! test -x "$kept/usr/bin/git"; then
		release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
		# shellcheck disable=SC2016 # fields of apt's
		mirror=$(apt-get indextargets --format '$(RELEASE) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' 'Component: main' |
			awk -v release="$release" '$1 == release || $2 == release { print $3; exit }')
		test -n "$mirror" || skip 'apt has no mirror of this system'
		rm -rf "$kept.new"
		debootstrap --variant=minbase --include=git "$release" "$kept.new" "$mirror" >debootstrap.out 2>&1 ||
			skip "debootstrap could not make a root: $(tail -n 1 debootstrap.out)"
		mv "$kept.new" "$kept"
	fi
	test "$kept" = "$PWD/root" || cp -a "$kept" root
}

# In the clean root. An unprivileged user does what README tells a newcomer to.
use_it() {
	set -eux
	export GIT_AUTHOR_NAME=Y GIT_AUTHOR_EMAIL=y@example.com GIT_COMMITTER_NAME=Y GIT_COMMITTER_EMAIL=y@example.com
	mkdir ~/project
	cd ~/project
	git init -q
	mkdir dir
	touch a b dir/c
	git add .
	git commit -qm first
	treewatch enable
	test "$(git config core.fsmonitor)" = /usr/bin/treewatch
	git status
	git status
	# In lower case: git need not look at it.
	git ls-files -f >~/bits
	cat ~/bits
	test "$(grep -c '^h ' ~/bits)" = 3
	treewatch status
	git treewatch doctor
	echo changed >dir/c
	test "$(git status --short)" = ' M dir/c'
	treewatch disable
	treewatch stop
	test -z "$(git config core.fsmonitor || :)"
	test -z "$(find .git/treewatch ! -type d ! -name '*.log')"
	cd
	rm -r project bits
}

# In the clean root, as its root.
install_use_and_purge() {
	set -eux
	every_file() { find / -xdev ! -path / ! -path '/script/*' | sort; }
	useradd --create-home you
	every_file >/script/before
	dpkg --install /script/treewatch.deb
	cmp /script/treewatch /usr/bin/treewatch
	setpriv --reuid=you --regid=you --init-groups env -i HOME=/home/you PATH=/usr/bin:/bin bash /script/use
	test -z "$(find /proc -maxdepth 2 -name exe -lname '*treewatch*')"
	dpkg --purge treewatch
	every_file >/script/after
	diff /script/before /script/after
	touch /script/done
}

test_the_package_in_a_clean_root() {
	the_package
	clean_root
	mkdir root/script
	cp "$package" root/script/treewatch.deb
	cp "$TOP/treewatch" root/script/treewatch
	{ declare -f use_it && echo use_it; } >root/script/use
	{ declare -f install_use_and_purge && echo install_use_and_purge; } >root/script/check
	# Mounts go with the namespace that they are in, and whatever still runs with the first
	# process of its own, however this ends.
	unshare --mount --pid --fork --kill-child bash -euc '
		mount -t proc proc root/proc
		env -i HOME=/root LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot root bash /script/check
		exit 0'
	test -e root/script/done
}

run_tests "$@"
