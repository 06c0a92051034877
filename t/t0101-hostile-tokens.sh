#!/usr/bin/env bash
#
# Tokens that are not ours: each gets a fresh token and everything, never a
# crash, never an exact answer.
. "$(dirname "$0")/test-lib.sh"

# foreign TOKEN: what it must get.
foreign() {
	hook 2 "$1" repo >"$HOME/answer" 2>err
	empty err
	assert_well_formed
	assert_everything || fail "for the token: $(printf %s "$1" | head -c 300 | cat -v)"
	answer_token | grep -qE '^\{"v":2,"id":"[^"]+","seq":[0-9]+\}$'
}

test_tokens_of_other_monitors() {
	make_repo repo
	foreign 1700000000000000000
	foreign 'c:1700000000:1234:1:5678'
	foreign 'builtin:0.12345.20260101T000000.000000Z:17'
	foreign 'builtin:fake'
	foreign '0'
	foreign '-1'
	foreign ''
}

test_tokens_almost_right() {
	make_repo repo
	local token id
	token=$(exact_token repo)
	id=${token#*\"id\":\"}
	id=${id%%\"*}
	foreign "${token%?}"
	foreign "${token#?}"
	foreign "$token}"
	foreign "$token$token"
	foreign "x$token"
	foreign "{\"v\":1,\"id\":\"$id\",\"seq\":0}"
	foreign "{\"v\":3,\"id\":\"$id\",\"seq\":0}"
	foreign "{\"v\":\"2\",\"id\":\"$id\",\"seq\":0}"
	foreign "{\"v\":2,\"id\":\"$id\"}"
	foreign "{\"v\":2,\"id\":\"$id\",\"seq\":-1}"
	foreign "{\"v\":2,\"id\":\"$id\",\"seq\":1.5}"
	foreign "{\"v\":2,\"id\":\"$id\",\"seq\":\"1\"}"
	foreign "{\"v\":2,\"id\":\"$id\",\"seq\":null}"
	foreign "{\"v\":2,\"id\":\"$id\",\"seq\":18446744073709551615}"
	foreign "{\"v\":2,\"id\":\"$id\",\"seq\":99999999999999999999999999}"
	foreign "{\"v\":2,\"id\":\"$id\",\"seq\":1e300}"
	foreign "{\"v\":2,\"id\":[\"$id\"],\"seq\":0}"
	foreign "{\"v\":2,\"id\":\"\",\"seq\":0}"
	foreign "{\"v\":2,\"id\":\"${id}0\",\"seq\":0}"
	foreign "{\"v\":2,\"id\":\"$id\\u0000\",\"seq\":0}"
	foreign "[$token]"
	foreign "[2,\"$id\",0]"
	foreign null
	foreign '{}'
	foreign '"'
	# After all that the right one is still answered exactly.
	ask repo "$token"
	assert_nothing
}

test_a_number_from_the_future_is_not_believed() {
	make_repo repo
	local token
	token=$(exact_token repo)
	foreign "${token%:*}:1000000000}"
}

test_a_token_of_an_earlier_watcher_is_not_believed() {
	make_repo repo
	local token
	token=$(exact_token repo)
	"$TREEWATCH" stop repo
	echo more >>repo/file
	foreign "$token"
	oracle_after_loss repo
}

test_a_token_of_another_worktree_is_not_believed() {
	make_repo repo
	make_repo second
	local token
	token=$(exact_token second)
	foreign "$token"
}

test_bytes_of_every_kind() {
	make_repo repo
	local byte
	for byte in $(seq 1 255); do
		# shellcheck disable=SC2059
		foreign "$(printf "\\x$(printf %x "$byte")x")"
	done
	foreign $'\xff\xfe\xfd'
	foreign $'line\nline'
	foreign $'{"v":2,"id":"\xff","seq":0}'
	foreign "$(head -c 3000 /dev/urandom | tr -d '\0')"
}

test_the_longest_argument_there_is() {
	make_repo repo
	# One argument may have 128 KiB with its NUL.
	foreign "$(printf '%0131071d' 0)"
	foreign "{\"v\":2,\"id\":\"$(printf '%0131000d' 0)\",\"seq\":0}"
	foreign "$(printf '[%.0s' $(seq 50000))"
	foreign "$(printf '{\"v\":%.0s' $(seq 20000))"
	local token
	token=$(exact_token repo)
	ask repo "$token"
	assert_nothing
}

test_git_goes_on_from_any_token_in_its_index() {
	make_repo repo
	local token
	for token in garbage 'c:1:2:3:4' $'\xff' ''; do
		# Another hook puts its token into the index.
		cat >other <<-END
			#!/bin/sh
			printf '%s\\0/\\0' '$token'
		END
		chmod +x other
		git -C repo -c core.fsmonitor="$PWD/other" status >/dev/null
		git -C repo -c core.fsmonitor="$PWD/other" status >/dev/null
		echo "$token" >>repo/file
		oracle_after_loss repo
	done
}

run_tests "$@"
