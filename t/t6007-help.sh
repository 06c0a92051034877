#!/usr/bin/env bash
#
# Help, man pages, completions, and git treewatch: all from one definition.
. "$(dirname "$0")/test-lib.sh"
. "$(dirname "$0")/lib-cli.sh"

COMMANDS='enable disable status doctor verify bench watch log list start stop restart run query'

test_help_is_short_and_help_of_a_command_is_long() {
	"$TREEWATCH" --help >short
	"$TREEWATCH" help >long
	test "$(wc -l <short)" -lt 40
	test "$(wc -l <short)" -lt "$(wc -l <long)"
	grep 'Exit codes:' long
	for command in $COMMANDS; do
		grep "^  $command " short
		"$TREEWATCH" "$command" --help >short-one
		"$TREEWATCH" "$command" -h >short-too
		same short-one short-too
		"$TREEWATCH" help "$command" >long-one
		test "$(wc -c <short-one)" -lt "$(wc -c <long-one)"
	done
	must_fail grep generate short
	in_terminal "$TREEWATCH" --help >out
	grep Usage out
	exits 0 "$TREEWATCH" --help >&-
}

test_version_is_said() {
	"$TREEWATCH" --version >out
	grep -x 'treewatch [0-9]*\.[0-9]*\.[0-9]*' out
	"$TREEWATCH" -V >short
	same out short
}

# README.md and the help have the same list.
test_exit_codes_are_those_of_the_readme() {
	"$TREEWATCH" help >long
	sed -n 's/^| \([0-9]\) | \(.*\) |$/\1  \2/p' "$TOP/README.md" | tr -d '`' >expected
	test -s expected
	sed -n '/^Exit codes:/,/^$/p' long | sed '1d; $d' | paste -sd' ' | sed 's/  *\([0-9]\)  /\n\1  /g; s/   */ /g' |
		sed '1d; s/^\([0-9]\) /\1  /' >got
	same expected got
}

test_what_only_the_program_itself_says_is_no_command() {
	for words in serve 'serve x' 'serve --help'; do
		# shellcheck disable=SC2086 # words
		exits 2 "$TREEWATCH" $words 2>err
		grep "unrecognized subcommand 'serve'" err
	done
}

test_git_treewatch_is_a_subcommand() {
	plain_repo repo
	mkdir bin
	cp "$TREEWATCH" bin/treewatch
	ln -s treewatch bin/git-treewatch
	PATH=$PWD/bin:$PATH
	git -C repo treewatch start
	is_state watching repo
	git -C repo/dir treewatch status >out
	grep "^$PWD/repo\$" out
	exits 2 git treewatch statsu 2>err
	grep 'Usage: git treewatch' err
	grep "'status'" err
	# What enable sets does not go by the name it was called by.
	git -C repo treewatch enable --no-untracked-cache
	equal "$PWD/bin/treewatch" "$(git -C repo config core.fsmonitor)"
	git -C repo treewatch stop
}

test_man_pages_and_completions_are_made() {
	"$TREEWATCH" generate made
	# shellcheck disable=SC2086 # words
	for page in treewatch git-treewatch $(printf 'treewatch-%s ' $COMMANDS); do
		test -s "made/man1/$page.1"
	done
	must_fail test -e made/man1/treewatch-generate.1
	grep 'Exit codes' made/man1/treewatch.1
	# Nor is an option in them that the command does not take.
	exits 2 "$TREEWATCH" query --version 2>/dev/null
	must_fail grep -F '\-\-version' made/man1/treewatch-query.1
	grep 'Print short help' made/man1/treewatch-query.1
	bash -n made/bash/treewatch
	for file in made/bash/treewatch made/zsh/_treewatch made/fish/treewatch.fish; do
		for command in $COMMANDS; do grep -q "$command" "$file"; done
	done
	if command -v man >/dev/null; then
		man -l made/man1/treewatch-stop.1 >out 2>err
		empty err
		grep SYNOPSIS out
	fi
}

test_completion_in_bash_offers_commands_and_options() {
	"$TREEWATCH" generate made
	# shellcheck disable=SC2016 # for the inner shell
	bash -c '
		. made/bash/treewatch
		COMP_WORDS=(treewatch sta) COMP_CWORD=1
		_treewatch treewatch sta treewatch
		printf "%s\n" "${COMPREPLY[@]}"
		COMP_WORDS=(treewatch status --) COMP_CWORD=2
		_treewatch treewatch -- status
		printf "%s\n" "${COMPREPLY[@]}"
	' >out
	grep -x status out
	grep -x start out
	grep -x -e --json out
	must_fail grep -x stop out
}

run_tests "$@"
