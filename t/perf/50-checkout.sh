# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# What watching costs the work that is watched: git checkout between commits that differ
# in 20,000 files; and a checkout back and forth, a hundred times.
#
# Fair: one watcher at a time (a second one would cost the first), started and settled
# outside of the timing; "none" has none at all running; turns. User and system time and
# faults are git's and its children's (wait4), the hook's among them; "watcher-cpu" is the
# watcher's own, which runs on the other core meanwhile. A checkout that others' watchers
# make slower is slower by the kernel's work for the events too.
# Not shown: a machine with one core.

checkout_watched () {
	# peer runs change what
	checkout_peer=$1
	stop_all
	peer_start "$1" "$checkout_tree" || return 1
	( use_index "$1" "$checkout_tree" true ) || return 1
	checkout_pid=$(peer_pid "$1" "$checkout_tree")
	GIT_INDEX_FILE=$(index_of "$1" "$checkout_tree" true)
	export GIT_INDEX_FILE
	checkout_git=$(peer_git "$1" "$checkout_tree" true)
	checkout_before=0
	test -z "$checkout_pid" || checkout_before=$(cpu_ns "$checkout_pid")
	# shellcheck disable=SC2086
	"$BIN/timer" -n "$2" -w 0 -t same $checkout_git checkout -q "$3" ::: $checkout_git checkout -q base \
		>"$PERF_DIR/checkout" || return 1
	$checkout_git checkout -q base
	unset GIT_INDEX_FILE
	for checkout_column in 2:real:1e9 3:user:1e6 4:system:1e6 5:minor-faults:1 6:major-faults:1
	do
		checkout_rest=${checkout_column#*:}
		checkout_unit=s
		test "${checkout_rest#*:}" != 1 || checkout_unit=count
		awk -v c="${checkout_column%%:*}" -v by="${checkout_rest#*:}" '{ print $c / by }' \
			"$PERF_DIR/checkout" |
		record part=checkout what="${checkout_rest%%:*}" variant="$4" group=all size=100k \
			peer="$1" unit="$checkout_unit" || return 1
	done
	awk '{ print 100 * ($3 + $4) / ($2 / 1000) }' "$PERF_DIR/checkout" |
	record part=checkout what=cpu-share variant="$4" group=all size=100k peer="$1" unit=percent
	if test -n "$checkout_pid"
	then
		awk -v n="$(($(cpu_ns "$checkout_pid") - checkout_before))" -v r="$2" \
			'BEGIN { print n / 1e9 / (2 * r) }' |
		record part=checkout what=watcher-cpu variant="$4" group=all size=100k peer="$1" unit=s
	fi
	if test "$1" = treewatch
	then
		treewatch_status "$checkout_tree" resyncs |
		record part=checkout what=resyncs variant="$4" group=all size=100k peer=treewatch unit=count
	fi
	peer_stop "$1" "$checkout_tree"
}

checkout_tree=$(tree_of 100k) || exit 1
for checkout_round in 0 1 2 3
do
	for checkout_who in $(rotate "$checkout_round" none $(watchers))
	do
		checkout_watched "$checkout_who" 2 change-20k "20,000 files" || exit 1
	done
done
for checkout_round in 0 1 2 3 4
do
	for checkout_who in $(rotate "$checkout_round" none $(watchers))
	do
		checkout_watched "$checkout_who" 20 change-1k "1,000 files, a hundred times" || exit 1
	done
done
