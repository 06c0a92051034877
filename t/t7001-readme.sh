#!/usr/bin/env bash
#
# README.md and CONTRIBUTING.md are true: what is in a ```sh block works as it is
# written, and the tables are whole. (```console blocks are transcripts.)
. "$(dirname "$0")/test-lib.sh"

README=$TOP/README.md

# Write each ```sh block to a file, block.1, block.2, ...
write_blocks() {
	awk '
		/^ *```sh$/ { n++; inside = 1; next }
		/^ *```/    { inside = 0 }
		inside      { print >("block." n) }
	' "$README"
}

# What is run as it is written, with the program found by its name as if it were
# installed, and git finding `git treewatch`.
as_written() {
	mkdir -p "$HOME/bin" "$1.place"
	ln -sf "$TREEWATCH" "$HOME/bin/git-treewatch"
	(
		cd "$1.place"
		git init -q your/repository
		plant your/repository
		commit_all your/repository
		PATH=$(dirname "$TREEWATCH"):$HOME/bin:$PATH bash -eux "../$1.run"
	)
}

test_every_block_is_run() {
	requires make
	write_blocks
	local block line makes=0 others=0
	for block in block.*; do
		: >"$block.run"
		while IFS= read -r line; do
			case $line in
			make | 'make '* | 'sudo make '*)
				# Its targets are there. What they do is tested elsewhere, and
				# one of them is this test.
				makes=$((makes + 1))
				line=${line%%#*}
				echo "+ make -n ${line#*make}"
				# shellcheck disable=SC2086 # words of a command line
				make -n -C "$TOP" ${line#*make} >/dev/null
				;;
			'' | '#'*) ;;
			*--all*)
				# Would reach the watchers of whoever runs the tests.
				fail "not to be in a block that is run: $line"
				;;
			*)
				others=$((others + 1))
				printf '%s\n' "$line" >>"$block.run"
				;;
			esac
		done <"$block"
		if test -s "$block.run"; then as_written "$block"; fi
	done
	# A README whose blocks are not found is none that works.
	echo "$makes lines with make, $others others"
	test "$makes" -ge 4
	test "$others" -ge 15
	# Nothing but what was undone again is left in the global settings.
	must_fail git config --global --get-regexp '^core\.'
}

# in_readme WORD...: each of them is there, in `...`.
in_readme() {
	local word missing=''
	for word; do
		grep -qF -- "\`$word" "$README" || missing="$missing $word"
	done
	test -z "$missing" || fail "not in README.md:$missing"
}

test_every_command_is_named() {
	local commands command
	mapfile -t commands < <("$TREEWATCH" --help |
		sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -vx help)
	test "${#commands[@]}" -ge 10
	in_readme "${commands[@]/#/treewatch }"
	# And no other.
	while read -r command; do
		"$TREEWATCH" help "$command" >/dev/null || fail "no such command: $command"
	done < <(sed -n 's/^| `treewatch \([a-z]*\).*/\1/p' "$README")
}

test_every_option_in_the_table_is_taken() {
	local rest command option count=0
	# shellcheck disable=SC2016 # backticks of the README
	sed -n 's/^| `treewatch \([a-z]*\)\([^`]*\)`.*/\1 \2/p' "$README" >table
	while read -r command rest; do
		for option in $rest; do
			option=${option#[}
			case $option in
			-*) option=${option%]} ;;
			*) continue ;;
			esac
			test "$option" != -- || continue
			count=$((count + 1))
			"$TREEWATCH" help "$command" </dev/null >said
			grep -q -e "$option" said || fail "treewatch $command does not take $option"
		done
	done <table
	test "$count" -ge 10
}

test_every_exit_code_is_named() {
	local code codes
	mapfile -t codes < <("$TREEWATCH" help | sed -n 's/^  \([0-9]\)  .*/\1/p')
	test "${#codes[@]}" -ge 5
	for code in "${codes[@]}"; do
		grep -q "^| $code |" "$README" || fail "exit code $code is not in README.md"
	done
}

test_every_setting_is_named() {
	local source=$TOP/src settings variables
	test -d "$source" || skip 'the source is not here'
	# shellcheck disable=SC2016 # backticks
	mapfile -t settings < <(sed -n 's/^\/\/! | `\([a-zA-Z]*\.[a-zA-Z]*\)`.*/\1/p' "$source/config.rs")
	test "${#settings[@]}" -ge 5
	mapfile -t variables < <(grep -rhoE '"(TREEWATCH_[A-Z_]+|GIT_TRACE_FSMONITOR)"' "$source" | tr -d '"' | sort -u)
	test "${#variables[@]}" -ge 3
	in_readme "${settings[@]}" "${variables[@]}"
}

test_the_map_of_the_source_is_whole() {
	local map=$TOP/CONTRIBUTING.md file
	test -d "$TOP/src" || skip 'the source is not here'
	# Below the directory that each part of the map begins with.
	awk '
		/^    src\/[a-z_]+\.rs / { print $1; next }
		/^    src\/[a-z]+\/ /    { dir = $1; next }
		/^    [a-z.]/            { dir = ""; next }
		/^      [a-z]/ && dir    { for (i = 1; i <= NF && $i ~ /^[a-z_\/]+(\.rs)?,?$/ && $i ~ /\.rs/; i++) { sub(",", "", $i); print dir $i } }
	' "$map" | sort -u >named
	test "$(wc -l <named)" -ge 50
	while read -r file; do
		test -f "$TOP/$file" || fail "CONTRIBUTING.md names $file, which is not there"
	done <named
	(cd "$TOP" && find src -maxdepth 2 -name '*.rs' ! -path '*/tests/*') | sort >there
	comm -13 named there >unnamed
	empty unnamed
}

run_tests "$@"
