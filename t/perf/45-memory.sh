# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# Memory of the watchers: a small repository, 111,111 directories, after a million changed
# paths; and wake-ups when idle, in a minute.
#
# Fair: VmRSS and VmHWM from /proc/PID/status and Pss from smaps_rollup, each watcher
# started for this one tree; Watchman's server is started anew for each, since it keeps
# what it had. The million paths are files written and removed at once, in 1,000
# directories that are watched already. Wake-ups are voluntary and involuntary context switches of all threads of
# the process while nothing at all is done in the tree.
# Not shown: the kernel's memory for the watches (about 1 kB of slab for each directory,
# the same for every program that uses inotify).

memory_of () {
	# size peer variant pid
	for memory_key in VmRSS VmHWM
	do
		awk -v k="$memory_key:" '$1 == k { print $2 }' /proc/"$4"/status |
		record part=memory what="$memory_key" variant="$3" group=all size="$1" peer="$2" unit=kB || return 1
	done
	awk '$1 == "Pss:" { print $2 }' /proc/"$4"/smaps_rollup |
	record part=memory what=Pss variant="$3" group=all size="$1" peer="$2" unit=kB
}

memory_resyncs () {
	test "$2" != treewatch ||
		treewatch_status "$1" resyncs |
		record part=memory what=resyncs variant="$3" group=all size="$4" peer=treewatch unit=count
}

memory_switches () {
	cat /proc/"$1"/task/*/status | awk '/ctxt_switches/ { n += $2 } END { print n + 0 }'
}

memory_size () {
	memory_tree=$(tree_of "$1") || return 1
	for memory_peer in $(watchers)
	do
		stop_all
		peer_start "$memory_peer" "$memory_tree" || return 1
		( use_index "$memory_peer" "$memory_tree" true ) || return 1
		memory_pid=$(peer_pid "$memory_peer" "$memory_tree")
		memory_of "$1" "$memory_peer" "after the start" "$memory_pid" || return 1
		if test "$2" = changes
		then
			# First the directories, and a query: so that they are watched when the million come.
			"$BIN/writer" "$memory_tree/million" 1000 1 2 || return 1
			GIT_INDEX_FILE=$(index_of "$memory_peer" "$memory_tree" true) \
				$(peer_git "$memory_peer" "$memory_tree" true) status >/dev/null
			"$BIN/writer" "$memory_tree/million" 1000 1000 2 unlink || return 1
			# A query makes sure that all of it was taken in.
			GIT_INDEX_FILE=$(index_of "$memory_peer" "$memory_tree" true) \
				$(peer_git "$memory_peer" "$memory_tree" true) status >/dev/null
			memory_of "$1" "$memory_peer" "after a million changed paths" "$memory_pid"
			memory_resyncs "$memory_tree" "$memory_peer" "after a million changed paths" "$1"
			rm -rf "$memory_tree/million"
		fi
		peer_stop "$memory_peer" "$memory_tree"
	done
}

memory_idle () {
	memory_tree=$(tree_of 4k) || return 1
	stop_all
	for memory_peer in $(watchers)
	do
		peer_start "$memory_peer" "$memory_tree" || return 1
		( use_index "$memory_peer" "$memory_tree" true ) || return 1
		peer_pid "$memory_peer" "$memory_tree" >"$PERF_DIR/idle-$memory_peer"
	done
	sleep 5 # what the start left to do
	for memory_peer in $(watchers)
	do
		memory_switches "$(cat "$PERF_DIR/idle-$memory_peer")" >"$PERF_DIR/idle-$memory_peer-0"
	done
	sleep 60
	for memory_peer in $(watchers)
	do
		memory_after=$(memory_switches "$(cat "$PERF_DIR/idle-$memory_peer")")
		echo $((memory_after - $(cat "$PERF_DIR/idle-$memory_peer-0"))) |
		record part=memory what=wake-ups variant="a minute, idle" group=all size=4k \
			peer="$memory_peer" unit=count || return 1
	done
}

memory_idle || exit 1
memory_size 4k no || exit 1
memory_size 100k no || exit 1
memory_size dirs changes || exit 1
test "$PERF_SIZE" != large || memory_size 1M no || exit 1
