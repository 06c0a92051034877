# shellcheck shell=bash
#
# What a test runs in: a place of its own, a HOME, an identity, a copy of the
# program, another user; and the end of every watcher it started.

# Nothing the caller of the tests has set may change how git or treewatch act,
# least of all a global config that turns some monitor on.
for name in $(compgen -e); do
	case $name in
	TREEWATCH | TREEWATCH_TEST_*) ;;
	GIT_* | TREEWATCH_* | XDG_*) unset "$name" ;;
	esac
done
unset CDPATH name
export LC_ALL=C TZ=UTC
export GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME='A U Thor' GIT_AUTHOR_EMAIL=author@example.com
export GIT_COMMITTER_NAME='C O Mitter' GIT_COMMITTER_EMAIL=committer@example.com
export GIT_PAGER=cat GIT_EDITOR=: GIT_TERMINAL_PROMPT=0

# A user id that is nobody's, for what root is not stopped from doing.
ORDINARY_UID=54321

# Make $TRASH, the place of this file's tests, with a copy of the program in it.
# The copy makes the watchers of this file known from all others by what they
# run, and can be run by another user when the source cannot be reached.
make_trash() {
	local program=${TREEWATCH:-$TOP/treewatch}
	if ! test -x "$program"; then
		echo "Bail out! there is no $program: run make first"
		exit 1
	fi
	TRASH=$(mktemp -d "${TREEWATCH_TEST_TMP:-${TMPDIR:-/tmp}}/treewatch-$TEST_NAME.XXXXXX") &&
		TRASH=$(cd "$TRASH" && pwd -P) || exit
	chmod 755 "$TRASH"
	mkdir "$TRASH/bin"
	cp "$program" "$TRASH/bin/treewatch" || exit
	chmod 755 "$TRASH/bin/treewatch"
	export TREEWATCH=$TRASH/bin/treewatch
	# Looking for a repository must not go on above the tests.
	export GIT_CEILING_DIRECTORIES=$TRASH
	trap end_of_file EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

# However the file ends, its watchers end too.
end_of_file() {
	local code=$?
	trap - EXIT
	if test -d "$TRASH" && test -n "$(our_processes)"; then
		stop_watchers "$TRASH" >&2 || code=1
	fi
	exit "$code"
}

# new_home PLACE BACKEND: a HOME with git's global settings, and an empty
# directory next to it for the test to work in.
new_home() {
	mkdir -p "$1/home" "$1/work" || exit
	export HOME=$1/home
	export GIT_CONFIG_GLOBAL=$HOME/.gitconfig
	cat >"$GIT_CONFIG_GLOBAL" <<-END
		[init]
			defaultBranch = main
		[advice]
			detachedHead = false
			addEmbeddedRepo = false
			sparseIndexExpanded = false
		[gc]
			auto = 0
		[maintenance]
			auto = false
		[protocol "file"]
			allow = always
		[treewatch]
			backend = $2
	END
}

# remove DIR: also where a test left directories that cannot be entered.
remove() {
	rm -rf "$1" 2>/dev/null && return
	find "$1" -type d -exec chmod u+rwx {} + 2>/dev/null
	rm -rf "$1"
}

# The pids of the processes that run this file's copy of the program.
our_processes() {
	# A process that ends while find looks makes find fail, and is none of them.
	{ find /proc -maxdepth 2 -path '/proc/[0-9]*/exe' -lname "$TREEWATCH*" 2>/dev/null || :; } |
		sed 's|/proc/\([0-9]*\)/exe|\1|'
}

no_process_left() {
	local left
	left=$(our_processes)
	test -z "$left" || fail "still running: $left"
}

# as_owner_of PATH COMMAND...
as_owner_of() {
	local owner
	owner=$(stat -c %u "$1") || return
	shift
	if test "$(id -u)" = 0 && test "$owner" != 0; then
		setpriv --reuid="$owner" --regid="$owner" --clear-groups -- "$@"
	else
		"$@"
	fi
}

# watched DIR: note a worktree whose watcher is to be stopped after the test
# and that has no .git to be found by (--git-dir elsewhere). GIT_DIR counts.
watched() {
	printf '%s\t%s\n' "$(cd "$1" && pwd -P)" "${GIT_DIR:-}" >>"$HOME/watched"
}

# stop_watchers PLACE: stop, by the product's own `stop`, the watcher of each
# worktree below PLACE. One that is then still there is the product's fault:
# said loudly, and only then killed.
stop_watchers() {
	local place=$1 top git_dir left pid code=0
	test -n "$(our_processes)" || return 0
	while IFS= read -r -d '' top; do
		top=$(dirname "$top")
		as_owner_of "$top" "$TREEWATCH" stop "$top" || code=$?
	done < <(find "$place" -name .git -prune -print0 2>/dev/null)
	if test -e "$place/home/watched"; then
		while IFS=$'\t' read -r top git_dir; do
			test -d "$top" || continue
			(
				if test -n "$git_dir"; then export GIT_DIR=$git_dir GIT_WORK_TREE=$top; fi
				as_owner_of "$top" "$TREEWATCH" stop "$top"
			) || code=$?
		done <"$place/home/watched"
	fi
	local end=$((SECONDS + 10))
	if test "$code" != 0; then
		echo "treewatch stop failed with $code"
		end=$SECONDS
	fi

	left=$(our_processes)
	while test -n "$left" && test "$SECONDS" -lt "$end"; do
		sleep 0.02 # the step of this poll
		left=$(our_processes)
	done
	for pid in $left; do
		echo "WATCHER LEFT RUNNING after stop: $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
		kill -9 "$pid"
		code=1
	done
	return "$code"
}

# as_user COMMAND...: run it as somebody who is not root. The directories it
# works in are to be given to that user first: give_to_user DIR.
as_user() {
	if test "$(id -u)" = 0; then
		setpriv --reuid=$ORDINARY_UID --regid=$ORDINARY_UID --clear-groups -- "$@"
	else
		"$@"
	fi
}

give_to_user() {
	test "$(id -u)" != 0 || chown -R -h $ORDINARY_UID:$ORDINARY_UID "$@"
}

# whole_file_as_user "$@": said right after reading test-lib.sh, runs all tests
# of the file as somebody who is not root, to whom permissions mean something.
whole_file_as_user() {
	test "$(id -u)" = 0 || return 0
	local program=${TREEWATCH:-$TOP/treewatch} copy code
	copy=$(mktemp -d "${TREEWATCH_TEST_TMP:-${TMPDIR:-/tmp}}/treewatch-user.XXXXXX") || exit
	mkdir "$copy/t" "$copy/tmp"
	cp -R "$TEST_DIR"/*.sh "$TEST_DIR/helper" "$copy/t" && cp "$program" "$copy/treewatch" || exit
	give_to_user "$copy"
	code=0
	TREEWATCH='' TMPDIR=$copy/tmp TREEWATCH_TEST_TMP=$copy/tmp as_user bash "$copy/t/$(basename "$TEST_FILE")" "$@" || code=$?
	if test "$code" = 0; then remove "$copy"; fi
	exit "$code"
}
