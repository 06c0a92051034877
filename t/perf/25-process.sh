# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# The hook as a process, nothing changed: start to end, system calls, page faults.
#
# Fair: "roundtrip" is the least a static C program can do (roundtrip.c); once against a
# toy server in C, once against treewatch's own watcher, so that the watcher's share is
# seen apart. Runs take turns one by one (timer.c), from the top of the worktree, into a
# pipe, as git does it. "null" starts, prints the token, and asks nobody.
# Not shown: git's fork (see "query").

process_tree=$(tree_of 100k) || exit 1
test "$(watchers | grep -c treewatch)" = 1 || { note "no treewatch"; exit 1; }
peer_start treewatch "$process_tree" || exit 1
process_token=$(treewatch_token "$process_tree")
process_head=$("$BIN/client" header "$process_tree")
cd "$process_tree" || exit 1
process_socket=$(cd "$process_tree" && ls .git/treewatch/*.sock)
toy_start .git/perf-toy.sock || exit 1
"$BIN/timer" -n 2000 -w 50 \
	"$TREEWATCH" 2 "$process_token" ::: \
	"$BIN/roundtrip" .git/perf-toy.sock "$process_head" "$process_token" ::: \
	"$BIN/roundtrip" "$process_socket" "$process_head" "$process_token" ::: \
	"$BIN/null-hook" 2 "$process_token" >"$PERF_DIR/process"
process_rc=$?
toy_stop
test "$process_rc" = 0 || exit 1
process_index=0
for process_peer in treewatch roundtrip-toy roundtrip-treewatch null
do
	for process_column in 2:wall-time:ns 3:user-time:us 4:system-time:us \
		5:minor-faults:count 6:major-faults:count
	do
		process_rest=${process_column#*:}
		awk -v i="$process_index" -v c="${process_column%%:*}" '$1 == i { print $c }' "$PERF_DIR/process" |
		record part=process what="${process_rest%%:*}" variant="nothing changed" group=all \
			size=100k peer="$process_peer" unit="${process_rest#*:}" || exit 1
	done
	process_index=$((process_index + 1))
done
if command -v strace >/dev/null
then
	process_calls () {
		# peer command...
		process_peer=$1
		shift
		strace -f -o "$PERF_DIR/strace" "$@" >/dev/null || return 1
		grep -c '^[0-9]* *[a-z_0-9]*(' "$PERF_DIR/strace" |
		record part=process what=system-calls variant="nothing changed" group=all size=100k \
			peer="$process_peer" unit=count &&
		{ grep -cE '^[0-9]* *open(at)?2?\(' "$PERF_DIR/strace" || true; } |
		record part=process what=files-opened variant="nothing changed" group=all size=100k \
			peer="$process_peer" unit=count
	}
	process_calls treewatch "$TREEWATCH" 2 "$process_token" &&
	process_calls roundtrip-treewatch \
		"$BIN/roundtrip" "$process_socket" "$process_head" "$process_token" &&
	process_calls null "$BIN/null-hook" 2 "$process_token"
fi
