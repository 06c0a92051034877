# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# From start until answers are exact, on 111,111 directories, cache warm; and the first
# git status while the walk still goes on.
#
# Fair: the same tree for all, one watcher at a time, in turns. "find" is find . -type d
# into /dev/null. "builtin" is git fsmonitor--daemon start, which returns when its walk is
# done; "watchman" is watch and a clock with its walk behind it; "treewatch" is from the
# first call of the hook until a query, asked every 5 ms over the socket, is exact.
# "floor" is a watch and a look at the link count for each directory, and nothing else
# (floor.c, which is told the directories): no watcher on inotify can be faster on one core.
# The first status begins with no watcher running and an index just copied; "none" is the
# same without a monitor.
# Not shown: a cold disk cache (it is the disk's time then); the time a second first
# command takes.

start_size () {
	start_tree=$(tree_of "$1") || return 1
	cd "$start_tree" || return 1
	find . -type d >/dev/null # warm
	start_round=0
	while test "$start_round" -lt "$2"
	do
		for start_peer in $(rotate "$start_round" find floor $(watchers))
		do
			# The slow ones need not be waited for so often.
			case $start_peer in
			watchman | builtin) test "$start_round" -lt 3 || continue ;;
			esac
			start_t0=$("$BIN/client" now)
			case $start_peer in
			find)
				find . -type d >/dev/null
				start_ns=$(($("$BIN/client" now) - start_t0)) ;;
			floor)
				find . -type d >"$PERF_DIR/dirs"
				start_ns=$("$BIN/floor" walk <"$PERF_DIR/dirs") || return 1 ;;
			builtin)
				$GIT -c core.fsmonitor=true fsmonitor--daemon start >/dev/null || return 1
				start_ns=$(($("$BIN/client" now) - start_t0))
				$GIT fsmonitor--daemon stop >/dev/null ;;
			watchman)
				watchman get-pid >/dev/null # the server runs already: only the walk counts
				start_t0=$("$BIN/client" now)
				peer_start watchman "$start_tree" || return 1
				start_ns=$(($("$BIN/client" now) - start_t0))
				peer_stop watchman "$start_tree" ;;
			treewatch)
				treewatch_start "$start_tree" || return 1
				started="$started treewatch:$start_tree"
				start_ns=$(treewatch_exact "$start_tree" "$start_t0") || return 1
				peer_stop treewatch "$start_tree" ;;
			esac
			echo "$start_ns" |
			record part=start what="start until exact" variant=warm group=all size="$1" \
				peer="$start_peer" unit=ns || return 1
		done
		start_round=$((start_round + 1))
	done

	GIT_INDEX_FILE=$start_tree/.git/perf-index-first
	export GIT_INDEX_FILE
	start_round=0
	while test "$start_round" -lt "$3"
	do
		for start_peer in $(rotate "$start_round" none $(watchers))
		do
			test "$start_peer" != watchman || continue # its hook waits for the whole walk
			test "$start_peer" != builtin || test "$start_round" -lt 3 || continue
			cp "$start_tree/.git/index" "$GIT_INDEX_FILE"
			# shellcheck disable=SC2046
			"$BIN/timer" -n 1 -w 0 $(peer_git "$start_peer" "$start_tree" true) status \
				>"$PERF_DIR/first" || return 1
			awk '{ print $2 }' "$PERF_DIR/first" |
			record part=start what="first git status" variant="no watcher before" group=all \
				size="$1" peer="$start_peer" unit=ns || return 1
			case $start_peer in
			treewatch) treewatch_stop "$start_tree" ;;
			builtin) $GIT fsmonitor--daemon stop >/dev/null ;;
			esac
		done
		start_round=$((start_round + 1))
	done
	unset GIT_INDEX_FILE
}

start_size 4k 5 10 || exit 1
start_size dirs 8 10 || exit 1
test "$PERF_SIZE" != large || start_size 1M 5 5 || exit 1
