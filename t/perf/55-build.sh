# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# A build that writes 200,000 files into an ignored directory.
#
# Fair: two writers that do nothing but mkdir, open, write and close (writer.c), so the
# watcher's share is as large as it can be; one watcher at a time. The first round writes
# into a directory that is not there yet. Afterwards status is compared with git's own,
# without monitor and without untracked cache, after one tracked file was changed as well.
# Not shown: a real compiler, for which the share is far smaller.

build_tree=$(tree_of 100k) || exit 1
for build_round in 0 1 2
do
	for build_peer in $(rotate "$build_round" none $(watchers))
	do
		stop_all
		rm -rf "$build_tree/ignored"
		peer_start "$build_peer" "$build_tree" || exit 1
		( use_index "$build_peer" "$build_tree" true ) || exit 1
		build_pid=$(peer_pid "$build_peer" "$build_tree")
		build_before=0
		test -z "$build_pid" || build_before=$(cpu_ns "$build_pid")
		"$BIN/timer" -n 1 -w 0 "$BIN/writer" "$build_tree/ignored" 200 1000 2 >"$PERF_DIR/build" || exit 1
		echo "changed $build_round" >"$build_tree/ballast/file1"
		GIT_INDEX_FILE=$(index_of "$build_peer" "$build_tree" true) \
			$(peer_git "$build_peer" "$build_tree" true) status --porcelain >"$PERF_DIR/build-got"
		if test -n "$build_pid"
		then
			build_cpu=$(($(cpu_ns "$build_pid") - build_before))
			awk -v w="$build_cpu" '{ print 100 * w / (($3 + $4) * 1000) }' "$PERF_DIR/build" |
			record part=build what=watcher-share variant="200,000 ignored files" group=all \
				size=100k peer="$build_peer" unit=percent || exit 1
			echo "$build_cpu" |
			record part=build what=watcher-cpu variant="200,000 ignored files" group=all \
				size=100k peer="$build_peer" unit=ns || exit 1
		fi
		for build_column in 2:real:1e9 3:user:1e6 4:system:1e6
		do
			build_rest=${build_column#*:}
			awk -v c="${build_column%%:*}" -v by="${build_rest#*:}" '{ print $c / by }' "$PERF_DIR/build" |
			record part=build what="writers: ${build_rest%%:*}" variant="200,000 ignored files" \
				group=all size=100k peer="$build_peer" unit=s || exit 1
		done
		cp "$build_tree/.git/index" "$PERF_DIR/build-index"
		GIT_INDEX_FILE=$PERF_DIR/build-index $GIT -C "$build_tree" -c core.fsmonitor=false \
			-c core.untrackedCache=false status --porcelain >"$PERF_DIR/build-want"
		if cmp -s "$PERF_DIR/build-got" "$PERF_DIR/build-want" && test -s "$PERF_DIR/build-want"
		then
			echo 0
		else
			note "$build_peer: status after the build is wrong"
			echo 1
		fi |
		record part=build what="wrong status" variant="200,000 ignored files" group=all \
			size=100k peer="$build_peer" unit=count
		if test "$build_peer" = treewatch
		then
			treewatch_status "$build_tree" resyncs |
			record part=build what=resyncs variant="200,000 ignored files" group=all \
				size=100k peer=treewatch unit=count
		fi
		: >"$build_tree/ballast/file1"
		peer_stop "$build_peer" "$build_tree"
	done
done
rm -rf "$build_tree/ignored"
