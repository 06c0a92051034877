//! The git commands of a run.

use crate::ops::{Bytes, Op};
use crate::tree::View;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A command or a few, in the worktree unless said otherwise.
pub fn command(rng: &mut ChaCha8Rng, view: &View, ops: &mut Vec<Op>) {
    let mut pick = |from: &Vec<Bytes>, other: &str| match from.len() {
        0 => Bytes::of(other),
        n => from[rng.random_range(0..n)].in_worktree(),
    };
    let dir = pick(&view.dirs, "a");
    let dir2 = pick(&view.dirs, "b");
    let file = pick(&view.files, "f");
    let fixed = |args: &str| args.split(' ').map(Bytes::of).collect::<Vec<_>>();
    let with = |args: &str, more: &[&Bytes]| {
        let mut all = fixed(args);
        all.extend(more.iter().map(|b| (*b).clone()));
        all
    };
    let chosen: Vec<Vec<Bytes>> = match rng.random_range(0..44) {
        0..5 => vec![fixed("add -A")],
        5 => vec![with("add --", &[&file])],
        6 => vec![with("add -A --", &[&dir])],
        7..10 => vec![fixed("add -A"), fixed("commit -q -m work")],
        10 => vec![fixed("commit -q -a -m tracked")],
        11..13 => vec![fixed("checkout -q -f side")],
        13 => vec![fixed("checkout -q side")],
        14..16 => vec![fixed("checkout -q -f main")],
        16 => vec![with("checkout -q --", &[&file])],
        17 => vec![with("checkout -q HEAD --", &[&dir])],
        18 => vec![fixed("stash -q")],
        19 => vec![fixed("stash -q -u")],
        20..22 => vec![fixed("stash pop -q")],
        22..24 => vec![fixed("reset -q --hard")],
        24 => vec![fixed("reset -q")],
        25 => vec![fixed("reset -q --hard HEAD~1")],
        26 => vec![with("clean -qfd --", &[&dir])],
        27 => vec![fixed("clean -qfdx")],
        28 => vec![
            fixed("worktree prune"),
            with("worktree add -q -f --detach", &[&dir.join(b"wt")]),
        ],
        29 => vec![with("worktree remove -f -f", &[&dir])],
        30 => vec![with(
            "sparse-checkout set --cone --sparse-index",
            &[&dir, &dir2],
        )],
        31 => vec![with(
            "sparse-checkout set --cone --no-sparse-index",
            &[&dir],
        )],
        32..34 => vec![fixed("sparse-checkout disable")],
        34 => vec![with("mv -f", &[&dir, &dir2])],
        35 => vec![with("mv -f", &[&file, &dir])],
        36 => vec![with("rm -q -r -f --", &[&dir])],
        37 => vec![with("rm -q -r -f --cached --", &[&dir])],
        38 => vec![fixed("merge -q --no-edit -X ours side")],
        39 => vec![fixed("update-index -q --refresh")],
        40 => vec![fixed("restore .")],
        41 => vec![fixed("diff --quiet")],
        42 => vec![with("add -f -N --", &[&file])],
        _ => vec![fixed("branch -f side")],
    };
    for args in chosen {
        ops.push(Op::Git {
            dir: Bytes::of("t"),
            args,
        });
    }
}
