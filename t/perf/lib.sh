# shellcheck shell=sh
# What every part of the benchmarks shares: the peers, the trees, and how a measurement
# is put on record. Sourced by t/perf/run, which has set PERF, PERF_DIR, PERF_OUT, BIN,
# GIT, TREEWATCH, WM and PERF_SIZE.
#
# The peers' names: "none" (no monitor), "null" (the do-nothing hook), "watchman" (with
# git's own sample hook), "builtin" (git's fsmonitor--daemon), "treewatch".
#
# All peers run under one and the same git, on one and the same worktree; each has an
# index file of its own (GIT_INDEX_FILE), so that none sees the bits of another.

note () {
	printf '# %s\n' "$*" >&2
}

record () {
	perl "$PERF/record.pl" "$@"
}

# A second of patience at a time is too coarse and a busy loop too costly.
nap () {
	perl -e 'select undef, undef, undef, 0.02'
}

# wait_for LIMIT_SECONDS COMMAND...: until COMMAND succeeds.
wait_for () {
	wait_left=$(($1 * 40))
	shift
	until "$@" >/dev/null 2>&1
	do
		wait_left=$((wait_left - 1))
		test "$wait_left" -gt 0 || return 1
		nap
	done
}

# ---- trees

# tree_of SIZE: prints the directory; makes the tree if it is not there.
tree_of () {
	case $1 in
	1k) tree_shape="-d 3 -w 4 -f 12" ;;
	4k) tree_shape="-d 3 -w 7 -f 10" ;;
	100k) tree_shape="-d 4 -w 10 -f 9" ;;
	1M) tree_shape="-d 5 -w 10 -f 9" ;;
	dirs) tree_shape="-d 5 -w 10 -f 1" ;; # 111,111 directories, one file in each
	*) note "no such size: $1"; return 1 ;;
	esac
	# shellcheck disable=SC2086
	"$PERF/gen-tree" "$PERF_DIR/tree-$1" $tree_shape || return 1
	echo "$PERF_DIR/tree-$1"
}

# layout_of SIZE full|cone|sparse: the tree as a whole, a cone of a tenth of it with the
# whole index, the same cone with a sparse index.
layout_of () {
	layout_tree=$(tree_of "$1") || return 1
	if test "$2" = full
	then
		echo "$layout_tree"
		return 0
	fi
	layout_dir=$layout_tree-$2
	if ! test -e "$layout_dir/.git/perf-stamp"
	then
		rm -rf "$layout_dir"
		$GIT clone -q --no-checkout --shared "$layout_tree" "$layout_dir" || return 1
		$GIT -C "$layout_dir" config gc.auto 0
		$GIT -C "$layout_dir" config maintenance.auto false
		layout_flag=--no-sparse-index
		test "$2" = cone || layout_flag=--sparse-index
		$GIT -C "$layout_dir" sparse-checkout set --cone "$layout_flag" ballast/dir1 >&2 &&
		$GIT -C "$layout_dir" checkout -q base &&
		grep '^ballast/dir1/' "$layout_tree/.git/perf-files" >"$layout_dir/.git/perf-files" &&
		sleep 2 && # see gen-tree: out of the second of "racily clean"
		$GIT -C "$layout_dir" update-index -q --refresh --force-write-index &&
		echo made >"$layout_dir/.git/perf-stamp" || return 1
	fi
	echo "$layout_dir"
}

# ---- peers

# peer_here PEER: can it be measured here? Says why not, once.
peer_here () {
	case $1 in
	none | null) return 0 ;;
	watchman)
		command -v watchman >/dev/null && test -x "$PERF_DIR/hooks/fsmonitor-watchman" ;;
	builtin)
		test "$GIT_HAS_DAEMON" = yes ;;
	treewatch)
		test -x "$TREEWATCH" ;;
	esac
}

# The peers asked for (PERF_PEERS) that are here.
peers () {
	for peer_name in ${PERF_PEERS:-none null watchman builtin treewatch}
	do
		if peer_here "$peer_name"
		then
			printf '%s ' "$peer_name"
		fi
	done
}

watchers () {
	for peer_name in $(peers)
	do
		case $peer_name in
		watchman | builtin | treewatch) printf '%s ' "$peer_name" ;;
		esac
	done
}

# rotate N WORD...: the words, beginning with another one each time.
rotate () {
	rotate_by=$1
	shift
	rotate_by=$((rotate_by % $#))
	while test "$rotate_by" -gt 0
	do
		rotate_first=$1
		shift
		set -- "$@" "$rotate_first"
		rotate_by=$((rotate_by - 1))
	done
	echo "$@"
}

# What core.fsmonitor is set to for a peer.
peer_value () {
	case $1 in
	none) echo false ;;
	null) echo "$BIN/null-hook" ;;
	watchman) echo "$PERF_DIR/hooks/fsmonitor-watchman" ;;
	builtin) echo true ;;
	treewatch) echo "$TREEWATCH" ;;
	esac
}

# peer_git PEER TREE UC: the words of a git command for it; index_of names its index.
peer_git () {
	echo "$GIT -C $2 -c core.fsmonitor=$(peer_value "$1") -c core.untrackedCache=$3"
}

index_of () {
	echo "$2/.git/perf-index-$1-$3"
}

# Watchers that this run started, as "PEER:TREE" words.
started=''

# peer_start PEER TREE: returns when it gives exact answers.
peer_start () {
	case $1 in
	none | null) return 0 ;;
	watchman)
		# A server that was told to end a moment ago may still be in the way.
		wait_for 20 watchman watch "$2" &&
		watchman clock "$2" >/dev/null ;;
	builtin)
		# In the foreground of a job of ours, so that its process id is known.
		# shellcheck disable=SC2086
		(cd "$2" && exec $GIT -c core.fsmonitor=true fsmonitor--daemon run) </dev/null >/dev/null 2>&1 &
		builtin_pid=$!
		# shellcheck disable=SC2086
		wait_for 120 $GIT -C "$2" fsmonitor--daemon status ;;
	treewatch)
		treewatch_start "$2" &&
		treewatch_exact "$2" 0 >/dev/null ;;
	esac || { note "$1 did not start on $(basename "$2")"; return 1; }
	started="$started $1:$2"
}

peer_stop () {
	case $1 in
	none | null) return 0 ;;
	watchman) watchman --no-spawn watch-del "$2" ;;
	builtin)
		$GIT -C "$2" fsmonitor--daemon stop
		wait "$builtin_pid" ;;
	treewatch) treewatch_stop "$2" ;;
	esac >/dev/null 2>&1
	stopped=$1:$2
	set -- ''
	for peer_one in $started
	do
		test "$peer_one" = "$stopped" || set -- "$@" "$peer_one"
	done
	started=$*
	return 0
}

watchman_gone () {
	! watchman --no-spawn get-pid
}

stop_all () {
	toy_stop
	for peer_pair in $started
	do
		peer_stop "${peer_pair%%:*}" "${peer_pair#*:}"
	done
	if test -S "$WM/${USER:-}-state/sock"
	then
		watchman --no-spawn shutdown-server >/dev/null 2>&1
		wait_for 20 watchman_gone
	fi
	return 0
}

# peer_pid PEER TREE
peer_pid () {
	case $1 in
	watchman) watchman --no-spawn get-pid | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' ;;
	builtin) echo "$builtin_pid" ;;
	treewatch) treewatch_status "$2" pid ;;
	esac
}

# CPU nanoseconds of all threads of a process, living ones, so far. (Some awks have %d
# end at 2^31.)
cpu_ns () {
	cat /proc/"$1"/task/*/schedstat 2>/dev/null | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# ---- treewatch only

# It is started as git starts it, by the hook, and asked and ended over its socket (see
# client.c): nothing here depends on the commands for people.
treewatch_start () {
	(cd "$1" && "$TREEWATCH" 2 none) >/dev/null
}

treewatch_ask () {
	ask_socket=$(treewatch_socket "$1") || return 1
	(cd "$(dirname "$ask_socket")" && "$BIN/client" "$2" "$1" "$(basename "$ask_socket")")
}

treewatch_stop () {
	! treewatch_socket "$1" >/dev/null || treewatch_ask "$1" stop >/dev/null
}

# treewatch_status TREE KEY: a number or a word of the watcher's status.
treewatch_status () {
	treewatch_ask "$1" status | perl -MJSON::PP -e '
		local $/;
		my $v = decode_json(<STDIN>)->{$ARGV[0]};
		print defined $v ? $v : "", "\n";
	' "$2"
}

treewatch_socket () {
	set -- "$1"/.git/treewatch/*.sock
	test -S "$1" && echo "$1"
}

# Waits for an exact answer; nanoseconds since T0 (client now). The socket's address is
# short because it is asked for from the directory it is in.
treewatch_exact () {
	exact_socket=$(treewatch_socket "$1") || return 1
	(cd "$(dirname "$exact_socket")" &&
		"$BIN/client" exact "$1" "$(basename "$exact_socket")" "$2")
}

# treewatch_token TREE: a token of now.
treewatch_token () {
	(cd "$1" && "$TREEWATCH" 2 none | perl -0 -ne 'chomp; print "$_\n"; exit')
}

# ---- the toy server of roundtrip.c

toy_pid=''

toy_start () {
	"$BIN/roundtrip" -s "$1" &
	toy_pid=$!
	toy_socket=$1
	wait_for 10 test -S "$1"
}

toy_stop () {
	test -n "$toy_pid" || return 0
	kill "$toy_pid"
	wait "$toy_pid" 2>/dev/null
	rm -f "$toy_socket"
	toy_pid=''
}

# ---- indexes

# Puts PEER's index for TREE into use (exports GIT_INDEX_FILE), made from the tree's own,
# and lets git settle it. A monitor whose answers git does not use would make every
# figure a lie: entries that git may skip must be there (ls-files -f, lower case).
use_index () {
	GIT_INDEX_FILE=$(index_of "$1" "$2" "$3")
	export GIT_INDEX_FILE
	cp "$2/.git/index" "$GIT_INDEX_FILE"
	use_git=$(peer_git "$1" "$2" "$3")
	for use_round in 1 2 3
	do
		$use_git status >/dev/null || return 1
	done
	if test "$1" != none
	then
		use_valid=$($use_git ls-files -f | head -1000 | grep -c '^[a-z]')
		if test "$use_valid" -lt 100
		then
			note "$1: git takes no entry for valid ($use_valid of 1000, round $use_round)"
			return 1
		fi
	fi
}

# Can all watchers have this many directories at once? (Watches are counted per user.)
room_for () {
	room_max=$(cat /proc/sys/fs/inotify/max_user_watches)
	room_count=$(watchers | wc -w)
	test $(($1 * room_count + 2000)) -lt "$room_max"
}

# groups DIRECTORIES: the sets of peers that run side by side, one a line: all, or, where
# the kernel's limit on watches forbids it, each watcher with "none" and "null" beside it.
groups () {
	if room_for "$1"
	then
		echo "all $(peers)"
		return 0
	fi
	for groups_one in $(watchers)
	do
		echo "solo-$groups_one none null $groups_one"
	done
}

directories_of () {
	case $1 in
	1k) echo 85 ;;
	4k) echo 400 ;;
	100k) echo 11111 ;;
	1M | dirs) echo 111111 ;;
	esac
}

# hyper PART WHAT VARIANT GROUP SIZE PEER RUNS PREPARE COMMAND: one turn of hyperfine.
hyper () {
	hyper_json=$PERF_DIR/hyper.json
	if test -n "$8"
	then
		hyperfine -N -w 1 -r "$7" -n "$6" --prepare "$8" \
			--export-json "$hyper_json" "$9" >/dev/null 2>"$PERF_DIR/hyper.err"
	else
		hyperfine -N -w 1 -r "$7" -n "$6" \
			--export-json "$hyper_json" "$9" >/dev/null 2>"$PERF_DIR/hyper.err"
	fi || { note "hyperfine: $6 $2: $(tail -2 "$PERF_DIR/hyper.err")"; return 1; }
	record part="$1" what="$2" variant="$3" group="$4" size="$5" peer="$6" unit=s \
		from="$hyper_json"
}
