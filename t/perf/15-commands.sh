# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# diff, add, checkout and commit, with the untracked cache on and the whole tree there.
#
# Fair: as in "matrix": one git, one worktree, turns. "add" has 50 changed and 10 new
# files to find; "checkout" switches between commits that differ in 1,000 files, and is
# brought back outside of the timing; "commit" is "commit -a" with one changed file.
# Not shown: hooks, signing, and what a pager costs.

commands_one () {
	# size what prepare command-words; commands_rounds and commands_runs say how often
	commands_round=0
	while test "$commands_round" -lt "$commands_rounds"
	do
		for commands_peer in $(rotate "$commands_round" $commands_peers)
		do
			GIT_INDEX_FILE=$(index_of "$commands_peer" "$commands_tree" true)
			export GIT_INDEX_FILE
			commands_git=$(peer_git "$commands_peer" "$commands_tree" true)
			commands_prepare=$(printf '%s' "$3" | sed "s,GIT_OF_PEER,$commands_git,")
			hyper commands "$2" "full, untracked cache true" "$commands_group" "$1" \
				"$commands_peer" "$commands_runs" "$commands_prepare" "$commands_git $4" || return 1
			case $2 in
			checkout) $commands_git checkout -q base ;;
			commit) $GIT -C "$commands_tree" update-ref refs/heads/base "$commands_base" ;;
			esac || return 1
			unset GIT_INDEX_FILE
		done
		commands_round=$((commands_round + 1))
	done
}

commands_size () {
	# size rounds runs-in-each
	commands_rounds=$2
	commands_runs=$3
	commands_tree=$(tree_of "$1") || return 1
	commands_base=$($GIT -C "$commands_tree" rev-parse base) || return 1
	groups "$(directories_of "$1")" >"$PERF_DIR/groups"
	while read -r commands_group commands_peers <&3
	do
		for commands_peer in $commands_peers
		do
			peer_start "$commands_peer" "$commands_tree" || return 1
			( use_index "$commands_peer" "$commands_tree" true ) || return 1
		done
		commands_one "$1" diff '' diff &&
		commands_one "$1" add "perl $PERF/change $commands_tree 50 10" "add -A" || return 1
		perl "$PERF/change" "$commands_tree" restore
		for commands_peer in $commands_peers
		do
			( use_index "$commands_peer" "$commands_tree" true ) || return 1
		done
		commands_one "$1" checkout 'GIT_OF_PEER checkout -q base' "checkout -q change-1k" &&
		commands_one "$1" commit "perl $PERF/change $commands_tree 1 0" \
			"commit -q -a -m perf" || return 1
		perl "$PERF/change" "$commands_tree" restore
		for commands_peer in $commands_peers
		do
			peer_stop "$commands_peer" "$commands_tree"
		done
	done 3<"$PERF_DIR/groups"
}

commands_size 4k 3 4 || exit 1
commands_size 100k 3 4 || exit 1
test "$PERF_SIZE" != large || commands_size 1M 2 3 || exit 1
