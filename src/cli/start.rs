//! `treewatch start`: returns when the watcher can be reached.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::client::Failure;
use crate::start::{self, NotStarted};
use crate::wire::Kind;

use super::problem::{Outcome, Problem};
use super::worktree::{Worktree, no_worktree};
use super::{exit, out, watcher};

/// So long a new watcher may take to say its first word.
const PATIENCE: Duration = Duration::from_secs(10);

/// `treewatch start [DIR]`.
pub fn run(dir: Option<&Path>) -> Outcome {
    let mut worktree = Worktree::enter(dir)?;
    worktree.must_be_ours("cannot start a watcher for")?;
    let (state, new) = start(&mut worktree)?;
    let verb = if new { "started" } else { "running already:" };
    out::print(&format!(
        "{verb} a watcher for {} (process {})\n",
        worktree.top.display(),
        state["pid"]
    ))?;
    Ok(exit::OK)
}

/// Makes sure that a watcher is running: its state, and whether it is a new one.
pub fn start(worktree: &mut Worktree) -> Result<(Value, bool), Problem> {
    let cannot = |why: String| {
        Problem::new(format_args!(
            "cannot start a watcher for {}: {why}",
            worktree.top.display()
        ))
    };
    match watcher::status(&worktree.place) {
        Ok(state) => return Ok((state, false)),
        Err(Failure::Nobody) => {}
        Err(Failure::Protocol(theirs)) if start::replace_older(&worktree.place, theirs) => {}
        Err(Failure::Silent) => {
            return Err(cannot("one is there, and does not answer".to_owned())
                .advice("Replace it: treewatch restart"));
        }
        Err(failure) => return Err(cannot(watcher::words(&failure))),
    }
    // A person who asks for it does not wait for the next try to be due.
    start::forget_failures(&worktree.place);
    let answer =
        start::start_and_ask(&mut worktree.place, Kind::Status, b"", PATIENCE).map_err(|why| {
            match &why {
                NotStarted::NoWorktree(error) => no_worktree(&worktree.top, error),
                NotStarted::NotAnswering(Failure::Silent) => cannot(watcher::not_started(&why))
                    .advice("If a wedged one is in the way: treewatch restart"),
                _ => cannot(watcher::not_started(&why)),
            }
        })?;
    let state = watcher::parse(&answer).map_err(|failure| cannot(watcher::words(&failure)))?;
    Ok((state, true))
}
