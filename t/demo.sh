#!/usr/bin/env bash
#
# demo.sh [REPO]: shows `git status` without treewatch and with it, with times.
#
# Without REPO it makes a tree of its own in a temporary place. In REPO nothing
# is changed that is not put back: git is told of treewatch by arguments and not
# by the configuration, works on a copy of the index, and the watcher is stopped
# at the end. `make demo` calls this.
set -euo pipefail

top=$(cd "$(dirname "$0")/.." && pwd -P)
treewatch=${TREEWATCH:-$top/treewatch}
runs=${DEMO_RUNS:-7}
files=${DEMO_FILES:-10000}

given=${1:-}
if test -n "$given"; then
	repo=$(git -C "$given" rev-parse --show-toplevel) || exit
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/treewatch-demo.XXXXXX")
# What is to be undone: the watcher if it was started here, and the directory it
# keeps its socket and log in if there was none before.
started=''
made=''
end() {
	if test -n "$started"; then "$treewatch" stop "$repo" || :; fi
	if test -n "$made"; then rm -rf "$made"; fi
	rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

say() { printf '%s\n' "$*"; }

make_tree() {
	say "Making a tree of $files files in $work ..."
	repo=$work/repo
	git init -q "$repo"
	git -C "$repo" config core.untrackedCache true
	awk -v n="$files" 'BEGIN {
		for (i = 0; i < n; i++)
			printf "d%d/d%d/file%d%c", i / 1000, i / 10 % 100, i % 10, 0
	}' >"$work/names"
	(
		cd "$repo"
		xargs -0 dirname -z <"$work/names" | sort -zu | xargs -0 mkdir -p
		xargs -0 touch <"$work/names"
		git add -A
		git -c user.name=demo -c user.email=demo@example.com -c gc.auto=0 commit -q -m demo
	)
}

# git with the settings of one side, on an index of its own.
case $treewatch in
# git gives a value with special characters in it to a shell.
*[!A-Za-z0-9/._-]*) monitor="'${treewatch//\'/\'\\\'\'}'" ;;
*) monitor=$treewatch ;;
esac
git_without() {
	GIT_INDEX_FILE=$work/index-without git -C "$repo" -c core.fsmonitor=false "$@"
}
git_with() {
	GIT_INDEX_FILE=$work/index-with git -C "$repo" -c core.fsmonitor="$monitor" "$@"
}

# median NAME COMMAND...: run it $runs times, keep its output in $work/NAME, and
# print the middle one of the times in milliseconds.
median() {
	local name=$1 run start stop
	shift
	for ((run = 0; run < runs; run++)); do
		start=$(date +%s%N)
		"$@" >"$work/$name"
		stop=$(date +%s%N)
		echo $(((stop - start) / 10000))
	done | sort -n | awk '{ t[NR] = $1 } END { printf "%.1f\n", t[int((NR + 1) / 2)] / 100 }'
}

if test -z "$given"; then make_tree; fi

git_dir=$(git -C "$repo" rev-parse --absolute-git-dir)
index=$(git -C "$repo" rev-parse --path-format=absolute --git-path index)
cp -p "$index" "$work/index-without"
cp -p "$index" "$work/index-with"
say "$(git_without ls-files | wc -l) tracked files in $repo"
say "$(git --version); untracked cache: $(git -C "$repo" config core.untrackedCache || echo "as git has it")"
say

# One run each for warming up; the first with treewatch starts the watcher.
git_without status --porcelain >/dev/null
running=$("$treewatch" status --json "$repo" || :)
if [[ $running =~ \"state\":\ *\"not-running\" ]]; then
	started=1
	if ! test -e "$git_dir/treewatch"; then made=$git_dir/treewatch; fi
fi
git_with status --porcelain >/dev/null
git_with status --porcelain >/dev/null

without=$(median without git_without status --porcelain)
with=$(median with git_with status --porcelain)
printf '  git status without treewatch  %8s ms\n' "$without"
printf '  git status with treewatch     %8s ms   %s\n' "$with" \
	"$(awk -v a="$without" -v b="$with" 'BEGIN { printf "(%.1f times as fast, middle of %d runs)", a / b, '"$runs"' }')"
say
if ! cmp -s "$work/without" "$work/with"; then
	say "The two differ, which must never be. Please report this:"
	diff "$work/without" "$work/with" | head -n 20
	exit 1
fi
if test -n "$given"; then
	say "Both say the same ($(wc -l <"$work/with") changed or untracked)."
else
	echo changed >"$repo/d0/d0/file0"
	echo new >"$repo/d0/new"
	say "After changing one file and adding another, git status with treewatch says:"
	git_with status --porcelain | sed 's/^/  /'
	git_without status --porcelain >"$work/without"
	git_with status --porcelain >"$work/with"
	cmp -s "$work/without" "$work/with" || {
		say "and without something else, which must never be. Please report this."
		exit 1
	}
fi
say
say "To turn it on in a repository of yours:  git config core.fsmonitor \"$monitor\""
