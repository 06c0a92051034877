# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# A build that writes 200,000 files into an ignored directory, and writes them again.
#
# Fair: two writers that do nothing but mkdir, open, write and close (writer.c), so the
# watcher's share is as large as it can be; one watcher at a time, each with a directory
# of its own that is not there yet ("first") and then is ("again"). Nothing is removed in
# between: ext4 is ten times slower at making files where many were just deleted, which
# would hide the watcher's share. Afterwards status is compared with git's own, without
# monitor and without untracked cache, after one tracked file was changed as well.
# "floor" is a program that only reads the events and looks once at each file, since it may
# have other names (floor.c); there is no status after it.
# Not shown: a real compiler, for which the share is far smaller.

build_once () {
	# peer variant
	build_before=0
	test -z "$build_pid" || build_before=$(cpu_ns "$build_pid")
	"$BIN/timer" -n 1 -w 0 "$BIN/writer" "$build_tree/ignored/$1" 200 1000 2 >"$PERF_DIR/build" ||
		return 1
	echo "changed $2" >"$build_tree/ballast/file1"
	GIT_INDEX_FILE=$(index_of "$1" "$build_tree" true) \
		$(peer_git "$1" "$build_tree" true) status --porcelain >"$PERF_DIR/build-got"
	if test -n "$build_pid"
	then
		build_cpu=$(($(cpu_ns "$build_pid") - build_before))
		awk -v w="$build_cpu" '{ print 100 * w / (($3 + $4) * 1000) }' "$PERF_DIR/build" |
		record part=build what=watcher-share variant="$2" group=all size=100k peer="$1" unit=percent
		echo "$build_cpu" |
		record part=build what=watcher-cpu variant="$2" group=all size=100k peer="$1" unit=ns
	fi
	for build_column in 2:real:1e9 3:user:1e6 4:system:1e6
	do
		build_rest=${build_column#*:}
		awk -v c="${build_column%%:*}" -v by="${build_rest#*:}" '{ print $c / by }' "$PERF_DIR/build" |
		record part=build what="writers, ${build_rest%%:*}" variant="$2" group=all size=100k \
			peer="$1" unit=s || return 1
	done
	cp "$build_tree/.git/index" "$PERF_DIR/build-index"
	GIT_INDEX_FILE=$PERF_DIR/build-index $GIT -C "$build_tree" -c core.fsmonitor=false \
		-c core.untrackedCache=false status --porcelain >"$PERF_DIR/build-want"
	if cmp -s "$PERF_DIR/build-got" "$PERF_DIR/build-want" && test -s "$PERF_DIR/build-want"
	then
		echo 0
	else
		note "$1: status after the build is wrong"
		echo 1
	fi |
	record part=build what="wrong status" variant="$2" group=all size=100k peer="$1" unit=count
	if test "$1" = treewatch
	then
		treewatch_status "$build_tree" resyncs |
		record part=build what=resyncs variant="$2" group=all size=100k peer=treewatch unit=count
	fi
}

# The CPU time of floor.c against the writers', "first" only.
build_floor () {
	"$BIN/floor" follow "$build_tree/ignored" >"$PERF_DIR/build-floor" &
	build_pid=$!
	"$BIN/timer" -n 1 -w 0 "$BIN/writer" "$build_tree/ignored/floor" 200 1000 2 >"$PERF_DIR/build" ||
		return 1
	wait_for 20 idle "$build_pid"
	kill -TERM "$build_pid"
	wait "$build_pid"
	build_cpu=$(cat "$PERF_DIR/build-floor")
	awk -v w="$build_cpu" '{ print 100 * w / (($3 + $4) * 1000) }' "$PERF_DIR/build" |
	record part=build what=watcher-share variant=first group=all size=100k peer=floor unit=percent
	echo "$build_cpu" |
	record part=build what=watcher-cpu variant=first group=all size=100k peer=floor unit=ns
}

# idle PID: it waits for something.
idle () {
	grep -q '^State:.S' /proc/"$1"/status
}

build_tree=$(tree_of 100k) || exit 1
rm -rf "$build_tree/ignored"
mkdir "$build_tree/ignored"
build_floor || exit 1
for build_peer in none $(watchers)
do
	stop_all
	peer_start "$build_peer" "$build_tree" || exit 1
	( use_index "$build_peer" "$build_tree" true ) || exit 1
	build_pid=$(peer_pid "$build_peer" "$build_tree")
	build_once "$build_peer" "first" && build_once "$build_peer" "again" || exit 1
	: >"$build_tree/ballast/file1"
	peer_stop "$build_peer" "$build_tree"
done
rm -rf "$build_tree/ignored"
