# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# An answer of 10,000 paths: to a pipe, a file and /dev/null; the hook's writes; the
# watcher's time.
#
# Fair: the same 10,000 changed files for all; "watchman" is git's sample hook, run the
# same way. The changes are made before, so that only the answering is timed. The same old
# token is given every time. The watcher's CPU (/proc/PID/task/*/schedstat) is that of
# one answer with one more file changed just before, so that no earlier answer will do; "answer-received" is the time until a client has all of it.
# Not shown: what git does with 10,000 paths.

answer_tree=$(tree_of 100k) || exit 1
answer_peers=$(watchers | tr ' ' '\n' | grep -v builtin | tr '\n' ' ')
cd "$answer_tree" || exit 1
for answer_peer in $answer_peers
do
	peer_start "$answer_peer" "$answer_tree" || exit 1
done
answer_words=''
for answer_peer in $answer_peers
do
	answer_hook=$(peer_value "$answer_peer")
	answer_token=$("$answer_hook" 2 none | perl -0 -ne 'chomp; print; exit')
	eval "answer_token_$answer_peer=\$answer_token"
	answer_words="$answer_words ::: $answer_hook 2 $answer_token"
done
perl "$PERF/change" "$answer_tree" 10000 0
answer_words=${answer_words# ::: }
for answer_peer in $answer_peers
do
	eval "answer_token=\$answer_token_$answer_peer"
	answer_hook=$(peer_value "$answer_peer")
	answer_count=$("$answer_hook" 2 "$answer_token" | tr '\0' '\n' | grep -c '^ballast/.*/file')
	test "$answer_count" -ge 9000 || { note "$answer_peer: only $answer_count paths"; exit 1; }
	echo "$answer_count" |
	record part=answer what=paths variant="10,000 paths" group=all size=100k peer="$answer_peer" unit=count
done
for answer_to in pipe file null
do
	answer_out=$answer_to
	test "$answer_to" != file || answer_out=$PERF_DIR/answer-out
	# shellcheck disable=SC2086
	"$BIN/timer" -n 100 -o "$answer_out" $answer_words >"$PERF_DIR/answer" || exit 1
	answer_index=0
	for answer_peer in $answer_peers
	do
		awk -v i="$answer_index" '$1 == i { print $2 }' "$PERF_DIR/answer" |
		record part=answer what="hook to $answer_to" variant="10,000 paths" group=all \
			size=100k peer="$answer_peer" unit=ns || exit 1
		answer_index=$((answer_index + 1))
	done
	if command -v strace >/dev/null && peer_here treewatch
	then
		strace -f -e trace=write,writev,sendfile,splice,copy_file_range \
			-o "$PERF_DIR/strace" "$TREEWATCH" 2 "$answer_token_treewatch" |
		if test "$answer_to" = pipe; then cat >/dev/null; else cat >"$PERF_DIR/answer-out"; fi
		test "$answer_to" = pipe ||
			strace -f -e trace=write,writev,sendfile,splice,copy_file_range -o "$PERF_DIR/strace" \
				"$TREEWATCH" 2 "$answer_token_treewatch" >"$(test "$answer_to" = file &&
					echo "$answer_out" || echo /dev/null)"
		# To stdout only: the request to the watcher is no part of it.
		grep -cE '(write|writev)\(1,|sendfile\(1,|splice\(.*, 1,|copy_file_range\(.*, 1,' \
			"$PERF_DIR/strace" |
		record part=answer what="writes to $answer_to" variant="10,000 paths" group=all \
			size=100k peer=treewatch unit=count
	fi
done
if peer_here treewatch
then
	answer_socket=$(treewatch_socket "$answer_tree") || exit 1
	answer_pid=$(peer_pid treewatch "$answer_tree")
	cd "$(dirname "$answer_socket")" || exit 1
	answer_round=0
	while test "$answer_round" -lt 50
	do
		answer_round=$((answer_round + 1))
		echo "again $answer_round" >"$answer_tree/ballast/file1"
		answer_before=$(cpu_ns "$answer_pid")
		"$BIN/client" lat "$answer_tree" "$(basename "$answer_socket")" "$answer_token_treewatch" 1 0 \
			>"$PERF_DIR/lat" || exit 1
		answer_after=$(cpu_ns "$answer_pid")
		awk '{ print $1 }' "$PERF_DIR/lat" |
		record part=answer what=answer-received variant="10,000 paths" group=all size=100k \
			peer=treewatch unit=ns
		echo $((answer_after - answer_before)) |
		record part=answer what=watcher-cpu variant="10,000 paths" group=all size=100k \
			peer=treewatch unit=ns
	done
fi
perl "$PERF/change" "$answer_tree" restore
