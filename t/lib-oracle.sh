# shellcheck shell=bash
#
# The oracle: is what git says with treewatch what it says without?
#
# Said without means: without monitor, and without untracked cache, since git's
# own untracked cache errs at times; from a copy of the index, so that the one
# run does not tidy up for the other; and with a copy that keeps its time, by
# which git knows entries that may have changed right after being written.

# status_plain REPO INDEX MODE: git's own view, by looking at every file.
status_plain() {
	GIT_INDEX_FILE=$2 GIT_OPTIONAL_LOCKS=0 git -C "$1" \
		-c core.fsmonitor=false -c core.untrackedCache=false \
		status --porcelain=v1 -z "--untracked-files=$3"
}

# status_unmonitored REPO INDEX MODE: git's view with all its other settings,
# the untracked cache among them, from that index.
status_unmonitored() {
	GIT_INDEX_FILE=$2 GIT_OPTIONAL_LOCKS=0 git -C "$1" -c core.fsmonitor=false \
		status --porcelain=v1 -z "--untracked-files=$3"
}

status_watched() {
	git -C "$1" status --porcelain=v1 -z "--untracked-files=$2"
}

index_of() {
	git -C "$1" rev-parse --path-format=absolute --git-path index
}

uses_untracked_cache() {
	test "$(git -C "$1" config --type=bool core.untrackedCache 2>/dev/null || :)" = true
}

# How many entries of the index git may pass over: their tag in `ls-files -f` is
# a lower-case letter. git asks the monitor to find out, so with an answer of
# everything there is none.
skippable_entries() {
	git -C "$1" ls-files -f | grep -c '^[a-z]' || :
}

# assert_skippable REPO: without this a comparison would prove nothing, git
# having looked at everything all along.
#
# On a busy machine an answer may come too late to be exact, and be everything; so
# this asks a few times. That answers are exact as a rule, the model test sees to.
assert_skippable() {
	local try
	test -s "$(index_of "$1")" || return 0
	for try in 1 2 3 4; do
		test "$(skippable_entries "$1")" -eq 0 || return 0
		test "$try" = 4 || status_watched "$1" no >/dev/null
	done
	fail "no entry of $1 is fsmonitor-valid, so git looks at every file: $(git -C "$1" ls-files -f | head -n 3)"
}

# oracle [REPO [MODE]]: git status under the monitor is what it is without, and
# git has not looked at every file to find out. MODE is all (default), normal or
# no, as for --untracked-files. In a repository with the untracked cache on use
# one mode only: git errs by itself when they alternate.
#
# Asks twice, as the first answer is used with the index as it was before, and
# the second with what the first run has saved.
oracle() {
	assert_skippable "${1:-.}" || return
	oracle_after_loss "$@"
}

# oracle_after_loss [REPO [MODE]]: the same where the first answer may be
# everything. The second may not.
oracle_after_loss() {
	local repo=${1:-.} mode=${2:-all} index work code=0
	work=$(mktemp -d "$HOME/oracle.XXXXXX")
	index=$(index_of "$repo")
	keep_index

	# The watched one first: what has only just happened must be in it.
	status_watched "$repo" "$mode" >"$work/watched" || return
	status_plain "$repo" "$work/index" "$mode" >"$work/plain" || return
	same_status "$repo" "$mode" "$work" || code=1
	assert_skippable "$repo" || return
	keep_index
	status_watched "$repo" "$mode" >"$work/watched" || return
	same_status "$repo" "$mode" "$work" || code=1
	if test "$code" = 0; then rm -rf "$work"; fi
	return "$code"
}

# The index as it is before the next command.
keep_index() {
	if test -e "$index"; then cp -p "$index" "$work/index"; fi
}

# oracle_after_rename [REPO [MODE]]: the same after directories were renamed.
# inotify watches what was renamed and stays exact; notify watches paths, and has
# to begin anew when one of them means another directory.
oracle_after_rename() {
	if watches_inodes; then oracle "$@"; else oracle_after_loss "$@"; fi
}

watches_inodes() {
	test "$(git config treewatch.backend)" = inotify
}

# Compare, excusing only what git does wrong with no monitor at all, from the same index:
# when listings of all and of some alternate, or when a directory was closed for a while
# (one that could not be opened is in no listing, and opening it does not change the one
# above).
same_status() {
	local repo=$1 mode=$2 work=$3
	cmp -s "$work/plain" "$work/watched" && return
	if uses_untracked_cache "$repo"; then
		status_unmonitored "$repo" "$work/index" "$mode" >"$work/unmonitored"
		if cmp -s "$work/unmonitored" "$work/watched"; then
			echo "note: git's untracked cache is wrong here without a monitor too"
			return
		fi
	fi
	echo "git status (--untracked-files=$mode) in $repo differs with the monitor:"
	same "$work/plain" "$work/watched"
}
