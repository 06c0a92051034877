# shellcheck shell=bash
#
# Repositories for tests, with treewatch turned on in them.

# The value for core.fsmonitor that runs this file's copy of the program. git
# gives a value with special characters in it to a shell, so it is quoted then.
fsmonitor_value() {
	case $TREEWATCH in
	*[!A-Za-z0-9/._-]*) printf "'%s'\n" "${TREEWATCH//\'/\'\\\'\'}" ;;
	*) printf '%s\n' "$TREEWATCH" ;;
	esac
}

# turn_on REPO: let git ask treewatch there, and let it settle.
turn_on() {
	git -C "$1" config core.fsmonitor "$(fsmonitor_value)"
	settle "$1"
}

# settle REPO: run status until git's index says of its entries that they need
# not be looked at. The first run saves a token, the second is answered by it.
settle() {
	git -C "$1" status >/dev/null
	git -C "$1" status >/dev/null
}

# use_untracked_cache REPO: and with status -uall, which is what the oracle can
# compare. git uses the cache only for the mode that is configured; asked for
# another on the command line, it lists everything and proves nothing.
use_untracked_cache() {
	git -C "$1" config core.untrackedCache true
	git -C "$1" config status.showUntrackedFiles all
}

# plant DIR: a few tracked files at several depths. `anchor` is for no test to
# change, so that there is always an entry git may skip.
plant() {
	(
		cd "$1" || exit
		mkdir -p dir/sub/deep other
		for file in anchor file dir/file dir/sub/file dir/sub/deep/file other/file; do
			echo "the content of $file" >"$file"
		done
	)
}

commit_all() {
	git -C "$1" add -A
	git -C "$1" commit -q -m "${2:-everything so far}"
}

# make_repo DIR [INIT-OPTION...]: a repository with the planted files committed,
# watched, settled.
make_repo() {
	local repo=$1
	shift
	git init -q "$@" "$repo"
	plant "$repo"
	commit_all "$repo"
	turn_on "$repo"
}
