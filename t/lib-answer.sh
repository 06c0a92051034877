# shellcheck shell=bash
#
# Asking treewatch as git does, and saying what the answer must hold.
#
# `ask` leaves the answer, bytes as they came, in $HOME/answer; the assertions
# below read it there.

# hook VERSION TOKEN [REPO]: as git calls it, answer to stdout.
hook() {
	(cd "${3:-.}" && exec "$TREEWATCH" "$1" "$2")
}

# ask REPO TOKEN: what has changed since TOKEN? Fails unless the answer has the
# form git reads without harm.
ask() {
	hook 2 "$2" "$1" >"$HOME/answer"
	assert_well_formed
}

# A token ended by NUL; then "/" alone, or relative paths each ended by NUL, of
# which none is empty, starts with "./" or "/", or has .git as a component.
assert_well_formed() {
	local path
	test "$(tail -c 1 "$HOME/answer" | od -An -tx1)" = ' 00' ||
		fail "the answer is not ended by NUL: $(show_answer)" || return
	test -n "$(answer_token)" || fail "the answer has no token: $(show_answer)" || return
	if answer_is_everything; then return; fi
	while IFS= read -r -d '' path; do
		case /$path/ in
		// | *//?* | */./* | */../* | */.git/*)
			fail "the answer has a path git must not be given: $(show_answer)"
			return
			;;
		esac
	done < <(answer_paths)
}

answer_token() {
	head -z -n 1 "$HOME/answer" | tr -d '\0'
}

# The paths, each ended by NUL.
answer_paths() {
	tail -z -n +2 "$HOME/answer"
}

show_answer() {
	{ tr '\0' ' ' <"$HOME/answer" | cat -v | head -c 2000; } 2>/dev/null || :
}

answer_is_everything() {
	cmp -s <(answer_paths) <(printf '/\0')
}

assert_everything() {
	answer_is_everything || fail "the answer should be everything, but is: $(show_answer)"
}

# Exact, and empty.
assert_nothing() {
	test -z "$(answer_paths | tr '\0' '\n')" || fail "the answer should name nothing, but is: $(show_answer)"
}

# assert_names PATH...: exact, and each PATH is in it.
assert_names() {
	local path
	if answer_is_everything; then
		fail "the answer should be exact, but is everything"
		return
	fi
	for path; do
		answer_has "$path" || fail "the answer does not name <$path>: $(show_answer)" || return
	done
}

# assert_names_not PATH...: none of them is in it.
assert_names_not() {
	local path
	for path; do
		if answer_has "$path"; then
			fail "the answer names <$path>: $(show_answer)"
			return
		fi
	done
}

# answer_has PATH: with or without a slash at its end.
answer_has() {
	local path paths
	mapfile -d '' -t paths < <(answer_paths)
	for path in "${paths[@]}"; do
		if test "${path%/}" = "${1%/}"; then return; fi
	done
	return 1
}

# exact_token REPO: a token of the present instance that is answered exactly.
# Waits for the tree to be walked.
exact_token() {
	test_poll 60 try_exact_token "$1" >&2 || return
	answer_token
}

try_exact_token() {
	ask "$1" 'no token of ours' || return
	ask "$1" "$(answer_token)" || return
	if answer_is_everything; then fail "never answered exactly: $(show_answer)"; fi
}
