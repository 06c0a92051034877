# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# 64 clients at once, 200 queries each.
#
# Fair: processes that start together and ask without a pause, each query over a
# connection of its own, timed from before the connect to the last byte. "toy" is the
# same against a C server that thinks nothing: what 64 processes on these cores cost by
# themselves.
# Not shown: 64 git commands, which the machine, not the watcher, would be busy with.

clients_tree=$(tree_of 100k) || exit 1
peer_start treewatch "$clients_tree" || exit 1
clients_token=$(treewatch_token "$clients_tree")
clients_socket=$(treewatch_socket "$clients_tree") || exit 1
toy_start "$WM/toy.sock" || exit 1
cd "$(dirname "$clients_socket")" || exit 1
for clients_round in 1 2 3
do
	for clients_who in "treewatch:$(basename "$clients_socket")" "toy:$WM/toy.sock"
	do
		"$BIN/client" many "$clients_tree" "${clients_who#*:}" "$clients_token" 64 200 \
			>"$PERF_DIR/clients" || exit 1
		{ grep -c fail "$PERF_DIR/clients" || true; } |
		record part=clients what=failures variant="64 x 200" group=all \
			size=100k peer="${clients_who%%:*}" unit=count
		sort -n "$PERF_DIR/clients" | awk '
			{ v[NR] = $1 }
			END {
				print "median", v[int(NR * 0.5)]
				print "99%", v[int(NR * 0.99)]
				print "longest", v[NR]
			}' |
		while read -r clients_what clients_ns
		do
			echo "$clients_ns" |
			record part=clients what="$clients_what" variant="64 x 200" group=all size=100k \
				peer="${clients_who%%:*}" unit=ns
		done
	done
done
