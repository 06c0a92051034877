# shellcheck shell=sh disable=SC2034,SC2046,SC2086,SC2154
# git status: {monitor} x {clean, dirty} x {untracked cache on, off} x {layout} x {size}.
#
# Fair: one git, one worktree, one machine; the peers take turns (a few runs each, then
# the next, beginning with another one each round), so that noise falls on all of them.
# Each has an index of its own, settled by three runs and checked to hold entries that
# git may skip. All watchers watch at the same time, which costs them something only
# when files change, that is, before the timing of the dirty runs. "dirty" gives 50
# tracked files new content and makes 10 untracked ones new before each run.
# Not shown: a cold disk cache. "null" is no monitor: it misses the changes of the dirty
# runs, its figure is only the floor of any hook. "full" is the whole tree; "cone" and
# "sparse" are a sparse checkout of a tenth of it, with a full and with a sparse index.

matrix_cell () {
	# size layout uc state rounds runs
	matrix_tree=$(layout_of "$1" "$2") || return 1
	matrix_prepare=''
	test "$4" = clean || matrix_prepare="perl $PERF/change $matrix_tree 50 10"
	for matrix_peer in $matrix_peers
	do
		( use_index "$matrix_peer" "$matrix_tree" "$3" ) || return 1
	done
	matrix_round=0
	while test "$matrix_round" -lt "$5"
	do
		for matrix_peer in $(rotate "$matrix_round" $matrix_peers)
		do
			GIT_INDEX_FILE=$(index_of "$matrix_peer" "$matrix_tree" "$3")
			export GIT_INDEX_FILE
			hyper matrix "status, $4" "$2, untracked cache $3" "$matrix_group" "$1" \
				"$matrix_peer" "$6" "$matrix_prepare" \
				"$(peer_git "$matrix_peer" "$matrix_tree" "$3") status" || return 1
			unset GIT_INDEX_FILE
		done
		matrix_round=$((matrix_round + 1))
	done
	if test "$4" = dirty
	then
		perl "$PERF/change" "$matrix_tree" restore
	fi
}

matrix_size () {
	groups "$(directories_of "$1")" >"$PERF_DIR/groups"
	while read -r matrix_group matrix_peers <&3
	do
		for matrix_layout in full cone sparse
		do
			matrix_at=$(layout_of "$1" "$matrix_layout") || return 1
			for matrix_peer in $matrix_peers
			do
				peer_start "$matrix_peer" "$matrix_at" || return 1
			done
			for matrix_state in clean dirty
			do
				for matrix_uc in true false
				do
					matrix_rounds=$2
					# The cell the figures are about gets more runs.
					test "$matrix_layout $matrix_state $matrix_uc" != "full clean true" ||
						matrix_rounds=$(($2 * 3))
					matrix_cell "$1" "$matrix_layout" "$matrix_uc" "$matrix_state" \
						"$matrix_rounds" "$3" || return 1
				done
			done
			for matrix_peer in $matrix_peers
			do
				peer_stop "$matrix_peer" "$matrix_at"
			done
		done
	done 3<"$PERF_DIR/groups"
}

matrix_size 4k 3 5 || exit 1
matrix_size 100k 3 3 || exit 1
test "$PERF_SIZE" != large || matrix_size 1M 2 3 || exit 1
