#!/usr/bin/env bash
#
# The tests' own tools: a test that fails is reported, a watcher that is left
# is found, and the oracle is not taken in by a monitor that hides a change.
. "$(dirname "$0")/test-lib.sh"

# inner_test: make inner.sh, a test file of one test function, from stdin; and
# run it with $1 as the program, leaving what it says in ./out.
inner_test() {
	mkdir -p inner/tmp
	cp "$TEST_DIR"/*.sh inner
	{
		echo '#!/usr/bin/env bash'
		# shellcheck disable=SC2016 # for the inner file to expand
		echo '. "$(dirname "$0")/test-lib.sh"'
		cat
		# shellcheck disable=SC2016
		echo 'run_tests "$@"'
	} >inner/inner.sh
	local code=0
	TREEWATCH=$1 TREEWATCH_TEST_TMP=$PWD/inner/tmp bash inner/inner.sh >out 2>&1 || code=$?
	return "$code"
}

# liar: a hook that names nothing as changed once it has been asked.
liar() {
	cat >liar <<-'END'
		#!/bin/sh
		test "$1" = 2 || exit 0
		printf 'liar\0'
		test "$2" = liar || printf '/\0'
	END
	chmod +x liar
}

test_a_failing_command_fails_its_test() {
	must_fail inner_test "$(type -P true)" <<-'END'
		test_it() {
			false
			true
		}
	END
	grep -q '^not ok 1 - it$' out
	grep -q 'failed: false' out
	grep -q '^1\.\.1$' out
}

test_a_failing_command_deep_in_a_helper_fails_its_test() {
	must_fail inner_test "$(type -P true)" <<-'END'
		helper() {
			must_fail true
			echo went on
		}
		test_it() { helper; }
	END
	grep -q '^not ok 1' out
	must_fail grep -q 'went on' out
}

test_a_passing_test_leaves_nothing() {
	inner_test "$(type -P true)" <<-'END'
		test_it() { echo words >file; }
		test_that_this_is_skipped() { skip 'no reason'; }
	END
	grep -q '^ok 1 - it$' out
	grep -q '^ok 2 - that this is skipped # SKIP no reason$' out
	equal '' "$(ls inner/tmp)" 'left behind'
}

test_a_poll_ends_at_its_limit_and_shows_the_last_try() {
	must_fail inner_test "$(type -P true)" <<-'END'
		try() {
			false
			echo not reached
		}
		test_it() { test_poll 0 try; }
	END
	grep -q 'did not come true within 0 seconds: try' out
	must_fail grep -q 'not reached' out
}

test_a_watcher_left_running_fails_its_test_and_is_ended() {
	must_fail inner_test "$(type -P sleep)" <<-'END'
		test_it() { "$TREEWATCH" 1000 & }
	END
	grep -q 'WATCHER LEFT RUNNING' out
	grep -q '^not ok 1' out
}

test_the_oracle_finds_a_hidden_change() {
	liar
	must_fail inner_test "$PWD/liar" <<-'END'
		test_it() {
			make_repo repo
			echo more >>repo/dir/file
			oracle repo
		}
	END
	grep -q '^# - M dir/file' out
}

test_the_oracle_finds_a_hidden_untracked_file() {
	liar
	must_fail inner_test "$PWD/liar" <<-'END'
		test_it() {
			git init -q repo
			use_untracked_cache repo
			plant repo
			commit_all repo
			turn_on repo
			echo new >repo/dir/new
			oracle repo
		}
	END
	grep -q '^# -?? dir/new' out
}

test_the_oracle_agrees_where_nothing_is_hidden() {
	liar
	inner_test "$PWD/liar" <<-'END'
		test_it() {
			make_repo repo
			oracle repo
			oracle repo normal
		}
	END
}

test_the_oracle_will_not_compare_with_a_git_that_scans() {
	must_fail inner_test "$(type -P false)" <<-'END'
		test_it() {
			make_repo repo
			git -C repo config --unset core.fsmonitor
			git -C repo update-index --no-fsmonitor
			echo more >>repo/file
			oracle repo
		}
	END
	grep -q 'so git looks at every file' out
}

test_an_answer_git_would_misread_is_refused() {
	local bad
	for bad in '' 'tok' 'tok\0' 'tok\0\0a\0' 'tok\0./a\0' 'tok\0/a\0' 'tok\0a/.git/b\0' 'tok\0a\0/\0' 'tok\0a' '\0/\0'; do
		# shellcheck disable=SC2059 # the escapes are meant
		printf "$bad" >"$HOME/answer"
		if test "$bad" = 'tok\0'; then
			assert_well_formed
		else
			must_fail assert_well_formed
		fi
	done
	printf 'tok\0a\nb\0d/\0' >"$HOME/answer"
	assert_well_formed
	assert_names $'a\nb' d
	must_fail assert_names a
	must_fail assert_nothing
	must_fail assert_everything
}

run_tests "$@"
