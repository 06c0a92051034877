//! `treewatch restart`: stop, however wedged, and start.

use std::path::Path;

use super::problem::Outcome;
use super::stop::{Stopped, stop};
use super::worktree::Worktree;
use super::{exit, out, start};

/// `treewatch restart [DIR]`.
pub fn run(dir: Option<&Path>) -> Outcome {
    let mut worktree = Worktree::enter(dir)?;
    worktree.must_be_ours("cannot start a watcher for")?;
    let stopped = stop(&worktree.place, &worktree.top)?;
    if stopped != Stopped::Nothing {
        out::print(&stopped.words(&worktree.top))?;
    }
    let (state, _) = start::start(&mut worktree)?;
    out::print(&format!(
        "started a watcher for {} (process {})\n",
        worktree.top.display(),
        state["pid"]
    ))?;
    Ok(exit::OK)
}
