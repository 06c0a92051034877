#!/usr/bin/env bash
#
# A day's work with git on a tree that no test made: sources that lie on this
# machine anyway, up to 3,000 files of them.
# shellcheck disable=SC2016 # sed's and awk's dollars
. "$(dirname "$0")/test-lib.sh"
each_backend

# Places that hold many small files wherever treewatch can be built: the crates
# it is built from, the toolchain's own, perl's, git's, C's.
places=(
	"${CARGO_HOME:-$HOME/.cargo}"/registry/src/*
	"$(rustc --print sysroot 2>/dev/null || echo /usr)/share/doc"
	/usr/share/perl /usr/share/git-core /usr/include /usr/share/doc
)

# origin: the tree as a repository, made once for this file in $TRASH/origin,
# with a topic and a main that have gone different ways.
origin() {
	if test -d "$TRASH/origin"; then return; fi
	local place count
	git init -q "$TRASH/origin.new"
	for place in "${places[@]}"; do
		test -d "$place" || continue
		find "$place" -type f -size -200k ! -path '*/.git/*' ! -name .gitattributes ! -name .gitignore -print0 |
			sort -z | awk -v RS='\0' -v ORS='\0' 'NR <= 3000' >"$HOME/files"
		count=$(tr -cd '\0' <"$HOME/files" | wc -c)
		test "$count" -ge 1500 || continue
		(
			cd "$place"
			tar -cf - --null --no-recursion -T "$HOME/files" -P --transform "s,^$place/*,,"
		) | tar -xf - -C "$TRASH/origin.new"
		break
	done
	test "${count:-0}" -ge 1500 || skip "no tree of 1,500 files in ${places[*]}"
	(
		cd "$TRASH/origin.new"
		find . -name .git -prune -o -type d ! -perm -u+w -exec chmod u+w {} +
		git add -A
		git commit -q -m 'the tree'
		# A topic that touches one file in twenty, drops a few, and moves the
		# directory; and main, which goes on in some of the same.
		git ls-files -z | awk -v RS='\0' -v ORS='\0' 'NR % 20 == 0' >"$HOME/twentieth"
		git ls-files -z | awk -v RS='\0' -v ORS='\0' 'NR % 50 == 1' >"$HOME/fiftieth"
		git checkout -q -b topic
		xargs -0 sed -i '1s/^/topic /' -- <"$HOME/twentieth"
		git commit -q -a -m 'change one in twenty'
		xargs -0 git rm -q -- <"$HOME/fiftieth"
		git commit -q -m 'remove one in fifty'
		local directory
		directory=$(git ls-tree -d --name-only HEAD | sed -n 1p)
		git mv "$directory" moved-by-topic
		git commit -q -m 'move a directory'
		git checkout -q main
		awk -v RS='\0' -v ORS='\0' 'NR % 10 == 0' <"$HOME/twentieth" >"$HOME/both"
		xargs -0 sed -i '1s/^/main /' -- <"$HOME/both"
		git commit -q -a -m 'change some of the same'
	)
	mv "$TRASH/origin.new" "$TRASH/origin"
}

# real_repo: a clone of it in ./repo, watched, with the untracked cache.
real_repo() {
	origin
	git clone -q "$TRASH/origin" repo
	git -C repo branch -q topic origin/topic
	use_untracked_cache repo
	turn_on repo
	oracle repo
}

# one_in N: the tracked files, each N-th one, NUL-terminated.
one_in() { git -C repo ls-files -z | awk -v RS='\0' -v ORS='\0' -v n="$1" 'NR % n == 0'; }

test_edit_add_commit() {
	real_repo
	local token
	token=$(exact_token repo)
	one_in 400 >some
	(cd repo && xargs -0 sed -i '$s/$/ edited/' -- <../some)
	ask repo "$token"
	mapfile -d '' -t edited <some
	assert_names "${edited[@]}"
	oracle repo
	git -C repo add -A
	oracle repo
	git -C repo commit -q -m edited
	oracle repo
	(cd repo && find . -name .git -prune -o -type d -print | awk 'NR % 40 == 0 { print $0 "/new file" }' | xargs -d '\n' touch)
	oracle repo
	git -C repo add -A
	git -C repo commit -q -m added
	oracle repo
	git -C repo commit -q --amend -m amended
	oracle repo
}

test_checkout_back_and_forth() {
	real_repo
	local branch
	for branch in topic main topic main; do
		git -C repo checkout -q "$branch"
		oracle repo
	done
	git -C repo checkout -q HEAD~1
	oracle repo
	git -C repo checkout -q -
	oracle repo
}

test_stash() {
	real_repo
	one_in 300 >some
	(cd repo && xargs -0 sed -i '$s/$/ stashed/' -- <../some)
	touch repo/untracked
	oracle repo
	git -C repo stash -q -u
	oracle repo
	git -C repo checkout -q HEAD~1
	oracle repo
	git -C repo checkout -q main
	git -C repo stash pop -q
	oracle repo
}

test_rebase() {
	real_repo
	# In main's way are the files both have changed; take the topic's.
	git -C repo checkout -q topic
	oracle repo
	git -C repo rebase -q -X theirs main || {
		oracle repo
		git -C repo add -A
		GIT_EDITOR=true git -C repo rebase --continue
	}
	oracle repo
	git -C repo rebase -q --onto HEAD~1 HEAD~1 HEAD
	oracle repo
}

test_reset_and_clean() {
	real_repo
	one_in 100 >some
	(cd repo && xargs -0 rm -- <../some)
	oracle repo
	git -C repo reset -q --hard
	oracle repo
	git -C repo reset -q --soft HEAD~1
	oracle repo
	git -C repo reset -q
	oracle repo
	git -C repo reset -q --hard topic
	oracle repo
	mkdir -p repo/build/a/b/c
	cp -r "repo/$(git -C repo ls-tree -d --name-only HEAD | sed -n 2p)" repo/build/a/b/c
	oracle repo
	git -C repo clean -qfd
	oracle repo
	echo /build/ >>repo/.git/info/exclude
	mkdir -p repo/build/x && echo x >repo/build/x/y
	oracle repo
	git -C repo clean -qfdx
	oracle repo
}

test_merge_with_conflicts() {
	real_repo
	must_fail git -C repo merge -q topic >said 2>&1
	git -C repo ls-files -u >unmerged
	test -s unmerged
	oracle repo
	git -C repo merge --abort
	oracle repo
	must_fail git -C repo merge -q topic >said 2>&1
	git -C repo diff --name-only --diff-filter=U -z >conflicts
	(cd repo && xargs -0 sed -i '/^[<=>]\{7\}/d' -- <../conflicts)
	oracle repo
	git -C repo add -A
	oracle repo
	git -C repo commit -q -m merged
	oracle repo
}

test_what_rewrites_the_repository_is_no_change() {
	real_repo
	local token
	token=$(exact_token repo)
	git -C repo gc -q
	git -C repo pack-refs --all
	git -C repo fetch -q
	ask repo "$token"
	assert_nothing
	equal "$token" "$(answer_token)" token
	oracle repo
	git -C repo prune
	git -C repo worktree prune
	oracle repo
}

test_the_tree_moved_about_by_hand() {
	real_repo
	local first second
	first=$(git -C repo ls-tree -d --name-only HEAD | sed -n 1p)
	second=$(git -C repo ls-tree -d --name-only HEAD | sed -n 2p)
	mv "repo/$first" "repo/$second/inside"
	oracle_after_rename repo
	one_in 150 >some
	(cd "repo/$second/inside" && find . -type f | awk 'NR % 3 == 0' | xargs -d '\n' sed -i '1s/^/x /' --)
	oracle repo
	mv "repo/$second/inside" "repo/$first"
	oracle_after_rename repo
	git -C repo checkout -q .
	oracle repo
	cp -r "repo/$second" repo/copied
	oracle repo
	rm -rf "repo/$second"
	oracle repo
	mv repo/copied "repo/$second"
	oracle_after_rename repo
}

test_without_the_untracked_cache_as_people_have_it() {
	origin
	git clone -q "$TRASH/origin" repo
	git -C repo branch -q topic origin/topic
	turn_on repo
	oracle repo normal
	git -C repo checkout -q topic
	oracle repo normal
	touch repo/new && mkdir -p repo/d/e && touch repo/d/e/f
	oracle repo normal
	git -C repo checkout -q main
	oracle repo normal
	git -C repo clean -qfd
	oracle repo normal
}

run_tests "$@"
