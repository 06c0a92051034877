#!/usr/bin/env bash
#
# Git work in two repositories while watchers are killed, stopped, cut off and
# starved: no wrong status, no command that takes for ever, nothing left at the
# end. CHAOS_ROUNDS=1000 for a long run, CHAOS_SEED to repeat one.
. "$(dirname "$0")/test-lib.sh"
. "$TEST_DIR/lib-life.sh"

ROUNDS=${CHAOS_ROUNDS:-100}
SEED=${CHAOS_SEED:-$$}

# A silent watcher may cost this, once.
export TREEWATCH_TIMEOUT_MS=300

# No command may take longer, in seconds. Far above what any should take, and
# what one would take that waits for what never comes is far above this.
DEADLINE=30

# The processes stopped by us, as the kernel named them.
stopped=()

# Not by a subshell: it would have random numbers of its own.
any() {
	local of=("$@")
	picked=${of[RANDOM % ${#of[@]}]}
}

work() {
	local repo=$1 round=$2 dir
	any . dir dir/sub dir/sub/deep other
	dir=$picked
	mkdir -p "$repo/$dir"
	case $((RANDOM % 12)) in
	0 | 1 | 2) echo "$round" >>"$repo/$dir/file" ;;
	3) echo "$round" >"$repo/$dir/new$round" ;;
	4) mkdir -p "$repo/$dir/a$round/b/c" && echo new >"$repo/$dir/a$round/b/c/file" ;;
	5) rm -rf "$repo/other" ;;
	6) if test -d "$repo/dir/sub" && ! test -e "$repo/dir/sub$round"; then mv "$repo/dir/sub" "$repo/dir/sub$round"; fi ;;
	7) git -C "$repo" add -A && git -C "$repo" commit -q --allow-empty -m "$round" ;;
	8) git -C "$repo" reset -q --hard ;;
	9) git -C "$repo" clean -q -fd ;;
	10) git -C "$repo" stash -q --include-untracked || : ;;
	11) git -C "$repo" checkout -q --detach main 2>/dev/null || : ;;
	esac
}

# Every other round or so something happens to the watcher, or to what it needs.
mischief() {
	local repo=$1 pid what
	pid=$(watcher_of "$repo" 2>/dev/null || :)
	what=$((RANDOM % 24))
	case $what in
	0 | 1) test -z "$pid" || kill -KILL "$pid" 2>/dev/null || : ;;
	2 | 3) if test -n "$pid" && kill -STOP "$pid" 2>/dev/null; then stopped+=("$pid"); fi ;;
	4 | 5) go_on ;;
	6) rm -f "$("$PEER" socket "$repo" 2>/dev/null || :)" ;;
	7) rm -rf "$repo/.git/treewatch" ;;
	8) dd if=/dev/zero of=/tmp/full bs=4k 2>/dev/null || : ;;
	9 | 10) rm -f /tmp/full ;;
	11) echo 8 >/proc/sys/user/max_inotify_watches ;;
	12 | 13) echo 100000 >/proc/sys/user/max_inotify_watches ;;
	14) echo 0 >/proc/sys/user/max_inotify_instances ;;
	15 | 16) echo 100 >/proc/sys/user/max_inotify_instances ;;
	17) "$TREEWATCH" stop "$repo" >/dev/null 2>&1 || : ;;
	*) what=none ;;
	esac
	echo "round $round: mischief $what on $repo (${pid:-no watcher; the marks say: $(marks)})"
}

marks() {
	{ cat one/.git/treewatch/*.lock /tmp/treewatch-0/*.lock 2>/dev/null || :; } | tr -s ' \n' ' '
}

go_on() {
	local pid
	for pid in "${stopped[@]}"; do
		# It may have been killed, and its number may be another's by now.
		case $(readlink "/proc/$pid/exe" 2>/dev/null || :) in
		"$TREEWATCH"*) kill -CONT "$pid" ;;
		esac
	done
	stopped=()
}

compare() {
	local repo=$1 before after took
	cp -p "$repo/.git/index" index
	before=$EPOCHREALTIME
	bounded "$DEADLINE" git -C "$repo" status --porcelain=v1 -z --untracked-files=all >watched 2>err
	after=$EPOCHREALTIME
	empty err
	took=$(((${after/./} - ${before/./}) / 1000))
	test "$took" -le "$slowest" || slowest=$took
	status_plain "$repo" "$PWD/index" all >plain
	same plain watched || fail "wrong status in round $round of seed $SEED"
	test "$(skippable_entries "$repo")" = 0 || useful=$((useful + 1))
	compared=$((compared + 1))
}

test_chaos() {
	# The file's own output is only shown on failure: the figures go where a
	# person can read them.
	in_namespace chaos
	cat figures
}
chaos() {
	RANDOM=$SEED
	local round repo slowest=0 useful=0 compared=0
	private_tmp size=1m
	mkdir mounted
	mount -t tmpfs tmpfs mounted
	# One has its files in the git directory, the other below /tmp.
	make_repo one
	make_repo mounted/two
	at_end go_on
	for round in $(seq "$ROUNDS"); do
		any one mounted/two
		repo=$picked
		mischief "$repo"
		work "$repo" "$round"
		compare "$repo"
		if test $((RANDOM % 3)) = 0; then
			echo "$round" >>"$repo/anchor"
			compare "$repo"
		fi
	done

	# Peace again: everything recovers by itself.
	go_on
	rm -f /tmp/full
	echo 100000 >/proc/sys/user/max_inotify_watches
	echo 100 >/proc/sys/user/max_inotify_instances
	for repo in one mounted/two; do
		at_work "$repo"
		settle "$repo"
		oracle "$repo"
		"$TREEWATCH" stop "$repo" >/dev/null
	done
	test_poll 30 no_process_left
	test ! -e /tmp/treewatch-0
	printf 'seed %s: %s rounds, %s comparisons, %s of them with entries git could skip; slowest status %s ms\n' \
		"$SEED" "$ROUNDS" "$compared" "$useful" "$slowest" >figures
	# Were it always "everything", nothing would have been tested.
	test "$useful" -gt $((compared / 10))
}

run "$@"
