//! `treewatch run`: the watcher in the foreground, for looking at what it does.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::start::{Mark, try_lock};
use crate::watcher::{self, files::Files, give_way::GiveWay};
use crate::{client, sys};

use super::problem::{Outcome, Problem};
use super::worktree::{Worktree, no_worktree};
use super::{exit, watcher as ask};

/// `treewatch run [DIR]`.
pub fn run(dir: Option<&Path>) -> Outcome {
    let mut worktree = Worktree::enter(dir)?;
    worktree.must_be_ours("cannot watch")?;
    name_worktree(dir, &worktree)?;
    worktree
        .place
        .resolve()
        .map_err(|error| no_worktree(&worktree.top, &error))?;
    let top = worktree.top;
    let cannot =
        |why: &std::io::Error| Problem::new(format_args!("cannot watch {}: {why}", top.display()));
    let dir = worktree.place.state_directory().map_err(|error| {
        cannot(&error).advice("There must be room for a socket in the git directory or in /tmp.")
    })?;
    let dir = dir.canonicalize().map_err(|error| cannot(&error))?;
    let (lock, got) =
        try_lock(&dir.join(worktree.place.file("lock"))).map_err(|error| cannot(&error))?;
    if !got {
        return Err(already_running(&worktree.place, &top, &lock));
    }
    sys::set_name(c"treewatch");
    // The watcher is in nobody's way when a file system is to be unmounted.
    std::env::set_current_dir("/").map_err(|error| cannot(&error))?;
    let files = Files::new(&worktree.place, &dir, lock, true);
    watcher::begin(worktree.place, &top, files, None, GiveWay::Never)
        .map_err(|error| cannot(&error))?;
    Ok(exit::OK)
}

/// The command line of a watcher names its worktree: if it does not yet, this program is
/// run again, in the same process.
fn name_worktree(dir: Option<&Path>, worktree: &Worktree) -> Result<(), Problem> {
    if dir.map(Path::as_os_str) == Some(OsStr::new(&worktree.top))
        || !Path::new("/proc/self/exe").exists()
    {
        return Ok(());
    }
    let mut again = Command::new("/proc/self/exe");
    again.arg0("treewatch").arg("run").arg(&worktree.top);
    if std::env::var_os("GIT_DIR").is_some() {
        again
            .env("GIT_DIR", &worktree.git_dir)
            .env("GIT_WORK_TREE", &worktree.top);
    }
    let error = again.exec();
    Err(Problem::new(format_args!(
        "cannot watch {}: cannot run this program again: {error}",
        worktree.top.display()
    )))
}

fn already_running(place: &crate::repo::Whereabouts, top: &Path, lock: &std::fs::File) -> Problem {
    let who = match ask::status(place) {
        Ok(state) => format!("a watcher is running already (process {})", state["pid"]),
        Err(client::Failure::Silent) => {
            "a watcher is running already, and does not answer".to_owned()
        }
        Err(_) if Mark::read(lock) == Mark::Wedged => {
            "a watcher is running already, and was cut off because it did not answer".to_owned()
        }
        Err(_) => "a watcher is just being started, or ending".to_owned(),
    };
    Problem::new(format_args!("cannot watch {}: {who}", top.display()))
        .advice("Stop it first: treewatch stop")
        .code(exit::RUNNING)
}
