# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# The watcher's part of a query when nothing changed: from request to answer, and CPU.
#
# Fair: a C client that lives on (client.c) sends what the hook sends, over a connection
# of its own for each query. "toy" is the same client with a C server that thinks nothing:
# the kernel's share. The CPU time is the watcher's own, from /proc/PID/task/*/schedstat.
# Not shown: the hook's process. With both ends asleep between queries the time holds two
# wake-ups, which the kernel does, not the watcher.

watcher_size () {
	watcher_tree=$(tree_of "$1") || return 1
	peer_start treewatch "$watcher_tree" || return 1
	watcher_token=$(treewatch_token "$watcher_tree")
	watcher_pid=$(peer_pid treewatch "$watcher_tree")
	watcher_socket=$(treewatch_socket "$watcher_tree") || return 1
	watcher_dir=$(dirname "$watcher_socket")
	toy_start "$WM/toy.sock" || return 1
	cd "$watcher_dir" || return 1
	for watcher_round in 1 2 3 4 5
	do
		watcher_before=$(cpu_ns "$watcher_pid")
		"$BIN/client" lat "$watcher_tree" "$(basename "$watcher_socket")" "$watcher_token" 2000 \
			>"$PERF_DIR/lat" || return 1
		watcher_after=$(cpu_ns "$watcher_pid")
		awk '{ print $1 }' "$PERF_DIR/lat" |
		record part=watcher what=request-to-answer variant="nothing changed" group=all \
			size="$1" peer=treewatch unit=ns || return 1
		awk '{ print $2 }' "$PERF_DIR/lat" |
		record part=watcher what=connect-to-answer variant="nothing changed" group=all \
			size="$1" peer=treewatch unit=ns || return 1
		echo $(((watcher_after - watcher_before) / 2020)) |
		record part=watcher what=cpu-per-query variant="nothing changed" group=all \
			size="$1" peer=treewatch unit=ns || return 1
		watcher_before=$(cpu_ns "$toy_pid")
		"$BIN/client" lat "$watcher_tree" "$WM/toy.sock" "$watcher_token" 2000 >"$PERF_DIR/lat" || return 1
		watcher_after=$(cpu_ns "$toy_pid")
		awk '{ print $1 }' "$PERF_DIR/lat" |
		record part=watcher what=request-to-answer variant="nothing changed" group=all \
			size="$1" peer=toy unit=ns || return 1
		awk '{ print $2 }' "$PERF_DIR/lat" |
		record part=watcher what=connect-to-answer variant="nothing changed" group=all \
			size="$1" peer=toy unit=ns || return 1
		echo $(((watcher_after - watcher_before) / 2020)) |
		record part=watcher what=cpu-per-query variant="nothing changed" group=all \
			size="$1" peer=toy unit=ns || return 1
	done
	cd "$PERF" || return 1
	toy_stop
	peer_stop treewatch "$watcher_tree"
}

watcher_size 100k || exit 1
