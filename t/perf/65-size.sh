# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# A query's cost against the size of the tree: a watcher on each size at once, asked in turns.
#
# Fair: the same client, all watchers alive at the same time, 200 queries each, then the
# next size, 15 rounds; so a busy moment of the machine falls on all sizes.
# Not shown: git's own cost, which does grow with its index (see "query").

size_trees=''
size_last=dirs
test "$PERF_SIZE" != large || size_last=1M
for size_one in 1k 4k 100k "$size_last"
do
	size_tree=$(tree_of "$size_one") || exit 1
	peer_start treewatch "$size_tree" || exit 1
	size_trees="$size_trees $size_one"
	treewatch_token "$size_tree" >"$PERF_DIR/size-$size_one"
done
for size_round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
do
	for size_one in $(rotate "$size_round" $size_trees)
	do
		size_tree=$(tree_of "$size_one")
		size_socket=$(treewatch_socket "$size_tree") || exit 1
		size_pid=$(peer_pid treewatch "$size_tree")
		cd "$(dirname "$size_socket")" || exit 1
		size_before=$(cpu_ns "$size_pid")
		"$BIN/client" lat "$size_tree" "$(basename "$size_socket")" \
			"$(cat "$PERF_DIR/size-$size_one")" 200 >"$PERF_DIR/lat" || exit 1
		size_after=$(cpu_ns "$size_pid")
		awk '{ print $1 }' "$PERF_DIR/lat" |
		record part=size what=request-to-answer variant="$size_one" group=all size="$size_one" \
			peer=treewatch unit=ns || exit 1
		echo $(((size_after - size_before) / 220)) |
		record part=size what=cpu-per-query variant="$size_one" group=all size="$size_one" \
			peer=treewatch unit=ns || exit 1
	done
done
