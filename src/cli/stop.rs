//! `treewatch stop`: returns when the watcher is gone, however wedged it was.
//!
//! First it is asked. If it does not answer, its process gets SIGTERM (and SIGCONT, should
//! it be stopped), and SIGKILL after that. Which process that is, the kernel says: it is
//! the one that listens at the other end of the socket, or, where there is no socket any
//! more, the one that holds the lock. Nobody else's process is ever signalled, nor any
//! that got the number of one that ended.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::client::{self, Failure};
use crate::repo::{Whereabouts, is_private, users_directory};
use crate::sys::{self, Process};
use crate::wire::Kind;

use super::problem::{Outcome, Problem};
use super::worktree::{Worktree, not_ours};
use super::{exit, out, process, watcher};

/// So long a watcher that was asked, or got SIGTERM, may take to end.
const GRACE: Duration = Duration::from_secs(3);

/// So long the lock may be held by somebody who is no watcher (yet).
const PATIENCE: Duration = Duration::from_secs(3);

/// So many watchers, one after the other, are stopped before it is given up.
const TRIES: u32 = 10;

/// What there was to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing.
    Nothing,
    /// This process, which ended when asked.
    Asked(i32),
    /// This process, which was ending by itself already: its settings have changed, or its
    /// socket is gone.
    Itself(i32),
    /// This process, which had to be made to.
    Forced(i32),
}

impl Stopped {
    /// What to tell the person, about the worktree at `top`.
    pub fn words(self, top: &Path) -> String {
        let top = top.display();
        match self {
            Self::Nothing => format!("no watcher is running for {top}\n"),
            Self::Asked(pid) => format!("stopped the watcher of {top} (process {pid})\n"),
            Self::Itself(pid) => {
                format!("the watcher of {top} (process {pid}) has ended by itself\n")
            }
            Self::Forced(pid) => {
                format!("stopped the watcher of {top} (process {pid}), which did not answer\n")
            }
        }
    }
}

/// `treewatch stop [DIR]`.
pub fn run(dir: Option<&Path>) -> Outcome {
    let worktree = Worktree::enter(dir)?;
    let stopped = stop(&worktree.place, &worktree.top)?;
    out::print(&stopped.words(&worktree.top))?;
    Ok(exit::OK)
}

/// `treewatch stop --all`: every watcher of this user. One that does not end keeps none of
/// the others alive.
pub fn run_all() -> Outcome {
    let mut code = exit::OK;
    let running = process::all();
    if running.is_empty() {
        out::print("no watcher is running\n")?;
    }
    for running in running {
        let top = running.root().unwrap_or_else(|| running.lock.clone());
        let target = Target {
            socket: client::reach_at(&running.socket()).ok(),
            process: Some(running.process),
            locks: vec![running.lock],
        };
        match end(target, &top) {
            Ok(stopped) => out::print(&stopped.words(&top))?,
            Err(problem) => code = problem.tell(),
        }
    }
    Ok(code)
}

/// Stops the watcher of a worktree, and returns when there is none.
pub fn stop(place: &Whereabouts, top: &Path) -> Result<Stopped, Problem> {
    let mut stopped = Stopped::Nothing;
    let mut until = Instant::now() + PATIENCE;
    let mut tries = 0;
    while tries < TRIES && Instant::now() < until {
        let target = find(place).map_err(|failure| match failure {
            Failure::Stranger(uid) => not_ours("cannot stop the watcher of", top, uid),
            failure => Problem::new(format_args!(
                "cannot stop the watcher of {}: {}",
                top.display(),
                watcher::words(&failure)
            )),
        })?;
        match target {
            Some(target) => {
                stopped = end(target, top)?;
                tries += 1;
                until = Instant::now() + PATIENCE;
            }
            None if tidy(&locks(place)) => match strangers_watcher(&locks(place)) {
                None => return Ok(stopped),
                Some(uid) => return Err(not_ours("cannot stop the watcher of", top, uid)),
            },
            // Somebody holds the lock who is no watcher: one that is just being started.
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    let why = if tries == TRIES {
        "as often as it is stopped, something starts another"
    } else {
        "its lock is held by a process that is no watcher"
    };
    let holder = locks(place).into_iter().find(|lock| lock.exists());
    let problem = Problem::new(format_args!(
        "cannot stop the watcher of {}: {why}",
        top.display()
    ));
    Err(match holder {
        Some(lock) => problem.advice(format_args!("Who holds it: fuser -v {}", lock.display())),
        None => problem,
    })
}

/// A watcher to stop.
struct Target {
    /// A connection to it, if it takes any.
    socket: Option<OwnedFd>,
    /// Its process; `None` where it cannot be told, in another container.
    process: Option<Process>,
    /// Where its lock is.
    locks: Vec<PathBuf>,
}

fn find(place: &Whereabouts) -> Result<Option<Target>, Failure> {
    match client::reach(place) {
        Ok(socket) => {
            let process = sys::peer_pid(socket.as_fd())
                .ok()
                .filter(|&pid| pid > 0)
                .and_then(|pid| Process::open(pid).ok());
            // Whoever listened had this number when the connection was made. If the
            // connection still stands, it had not ended when the process was opened.
            if hung_up(&socket) {
                return find_by_lock(place);
            }
            Ok(Some(Target {
                socket: Some(socket),
                process,
                locks: locks(place),
            }))
        }
        Err(Failure::Stranger(uid)) => Err(Failure::Stranger(uid)),
        Err(Failure::Broken(error)) => Err(Failure::Broken(error)),
        Err(_) => find_by_lock(place),
    }
}

fn find_by_lock(place: &Whereabouts) -> Result<Option<Target>, Failure> {
    Ok(process::of(place).pop().map(|running| Target {
        socket: None,
        process: Some(running.process),
        locks: vec![running.lock],
    }))
}

fn hung_up(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Ends one watcher.
fn end(target: Target, top: &Path) -> Result<Stopped, Problem> {
    let pid = target.process.as_ref().map_or(0, Process::pid);
    // Where there is a process and no connection, as a rule it has just closed its socket and
    // is ending. It gets the time in which one that is asked has to answer.
    if target.socket.is_none()
        && let Some(process) = &target.process
        && process.ends_within(client::DEADLINE)
    {
        tidy(&target.locks);
        return Ok(Stopped::Itself(pid));
    }
    let agreed = target.socket.is_some_and(|socket| {
        client::ask(&socket, &Whereabouts::any(), Kind::Stop, b"")
            .and_then(|()| client::answer(&socket, client::DEADLINE))
            // An answer in another protocol is an answer.
            .map_or_else(
                |failure| matches!(failure, Failure::Nobody | Failure::Protocol(_)),
                |_| true,
            )
    });
    let Some(process) = target.process else {
        // It can be asked, and not be seen: its lock says when it is gone.
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            if agreed && tidy(&target.locks) {
                return Ok(Stopped::Asked(pid));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        return Err(Problem::new(format_args!(
            "cannot stop the watcher of {}: it does not answer, and runs in another container",
            top.display()
        ))
        .advice("Run treewatch stop where the watcher was started."));
    };
    if agreed && process.ends_within(GRACE) {
        return Ok(Stopped::Asked(pid));
    }
    let signal = |signal| match process.signal(signal) {
        Err(error) if error.raw_os_error() != Some(nix::libc::ESRCH) => {
            Err(Problem::new(format_args!(
                "cannot stop the watcher of {} (process {pid}): {error}",
                top.display()
            )))
        }
        _ => Ok(()),
    };
    signal(Signal::SIGTERM)?;
    signal(Signal::SIGCONT)?;
    if !process.ends_within(GRACE) {
        signal(Signal::SIGKILL)?;
        if !process.ends_within(GRACE) {
            return Err(Problem::new(format_args!(
                "the watcher of {} (process {pid}) does not end, even when killed",
                top.display()
            ))
            .advice(format_args!(
                "It waits for the kernel: for a file system that does not answer, perhaps. See /proc/{pid}/stack."
            )));
        }
    }
    tidy(&target.locks);
    Ok(Stopped::Forced(pid))
}

/// Where the lock may be. Not below /tmp if somebody else has made the directory there:
/// nothing that they put into it is to stand in our way.
fn locks(place: &Whereabouts) -> Vec<PathBuf> {
    let below_tmp = users_directory();
    place
        .sockets()
        .filter(|socket| !socket.starts_with(&below_tmp) || is_private(&below_tmp))
        .map(|socket| socket.with_extension("lock"))
        .collect()
}

fn open(lock: &Path) -> Option<(File, std::fs::Metadata)> {
    let opened = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(lock);
    let file = opened.ok()?;
    let found = file.metadata().ok()?;
    found.is_file().then_some((file, found))
}

/// Whose watcher it is, if it is somebody else's and we can tell, as root can.
fn strangers_watcher(locks: &[PathBuf]) -> Option<u32> {
    locks.iter().find_map(|lock| {
        let (file, found) = open(lock)?;
        let held = matches!(
            file.try_lock_shared(),
            Err(std::fs::TryLockError::WouldBlock)
        );
        (held && found.uid() != geteuid().as_raw()).then(|| found.uid())
    })
}

/// Removes what a watcher of ours that was killed left behind. `false`: somebody holds a
/// lock of ours.
fn tidy(locks: &[PathBuf]) -> bool {
    locks.iter().all(|lock| {
        let Some((file, held)) = open(lock) else {
            return true;
        };
        if held.uid() != geteuid().as_raw() {
            return true;
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return false,
            Err(std::fs::TryLockError::Error(_)) => return true,
        }
        // Whoever got the lock before us may have removed the file and made a new one.
        let same = |held: &std::fs::Metadata, found: &std::fs::Metadata| {
            held.ino() == found.ino() && held.dev() == found.dev()
        };
        if let Ok(found) = lock.symlink_metadata()
            && same(&held, &found)
        {
            let _ = std::fs::remove_file(lock.with_extension("sock"));
            let _ = std::fs::remove_file(lock);
            if let Some(dir) = lock.parent() {
                let _ = std::fs::remove_dir(dir);
            }
        }
        true
    })
}
