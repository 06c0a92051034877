# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# The query alone, as git itself sees it: the trace2 region "query" of "fsm_hook" (a hook)
# or "fsm_client" (the built-in daemon) in git status, clean, untracked cache on.
#
# Fair: git's own clock, within the same git status; the peers take turns run by run.
# For a hook it holds git's fork (with the index in memory), exec, the hook and the
# reading of its answer; for the built-in daemon no process is started.
# Not shown: what git does with the answer. A median, since a few runs of a busy machine
# would make a mean useless; mean and deviation are in the table all the same.

query_size () {
	query_tree=$(tree_of "$1") || return 1
	groups "$(directories_of "$1")" >"$PERF_DIR/groups"
	while read -r query_group query_peers <&3
	do
		for query_peer in $query_peers
		do
			peer_start "$query_peer" "$query_tree" || return 1
			( use_index "$query_peer" "$query_tree" true ) || return 1
			rm -f "$PERF_DIR/trace-$query_peer"
		done
		query_round=0
		while test "$query_round" -lt "$2"
		do
			for query_peer in $(rotate "$query_round" $query_peers)
			do
				test "$query_peer" != none || continue
				GIT_INDEX_FILE=$(index_of "$query_peer" "$query_tree" true) \
				GIT_TRACE2_EVENT="$PERF_DIR/trace-$query_peer" GIT_TRACE2_EVENT_NESTING=10 \
					$(peer_git "$query_peer" "$query_tree" true) status >/dev/null || return 1
			done
			query_round=$((query_round + 1))
		done
		for query_peer in $query_peers
		do
			test "$query_peer" != none || continue
			perl -MJSON::PP -ne '
				my $e = decode_json($_);
				print "$e->{t_rel}\n" if $e->{event} eq "region_leave" &&
					($e->{label} || "") eq "query" &&
					($e->{category} || "") =~ /^fsm_(hook|client)$/;
			' "$PERF_DIR/trace-$query_peer" |
			record part=query what="region query" variant="in git status" \
				group="$query_group" size="$1" peer="$query_peer" unit=s || return 1
			peer_stop "$query_peer" "$query_tree"
		done
	done 3<"$PERF_DIR/groups"
}

query_size 4k 60 || exit 1
query_size 100k 60 || exit 1
test "$PERF_SIZE" != large || query_size 1M 25 || exit 1
