//! Starting a watcher: who may, how it is handed its first request, and when not to try.
//!
//! Whoever holds the lock (flock(2), dropped by the kernel when its last holder ends) may
//! start one, and hands the lock to it. The watcher gets three descriptors: 0 is a socket
//! with the request of whoever started it, 1 the lock, 2 nothing. So there is no moment
//! without a holder, no pid file, and nothing to wait for but an answer.
//!
//! The lock file's content says why not to try: see [`Mark`].

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{AddressFamily, SockType, socketpair};
use nix::unistd::geteuid;

use crate::client::{self, Failure};
use crate::repo::{NoWorktree, Whereabouts};
use crate::sys::SOCKET_FLAGS;
use crate::wire::{Kind, PROTOCOL};

/// How long a first command may wait for a watcher that is being started.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// How long, at the most, a start that failed keeps others from trying.
const BACK_OFF_MAX: u64 = 600;

/// Why no watcher was started.
#[derive(Debug)]
pub enum NotStarted {
    /// There is no worktree here.
    NoWorktree(NoWorktree),
    /// The worktree is somebody else's (their user id): only its owner has a watcher.
    NotOwner(u32),
    /// The directory for its files cannot be used.
    NoPlace(io::Error),
    /// The last start failed, and the next is not due yet.
    BackingOff,
    /// A watcher is there, but wedged, or does not come up in time.
    NotAnswering(Failure),
    /// The process could not be started.
    NoProcess(io::Error),
}

/// In words, as the end of a sentence.
impl std::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoWorktree(_) => f.write_str("there is no worktree"),
            Self::NotOwner(uid) => {
                write!(
                    f,
                    "it belongs to user {uid}, and only the owner has a watcher"
                )
            }
            Self::NoPlace(error) => write!(
                f,
                "there is no place for its socket, neither in the git directory nor below /tmp: {error}"
            ),
            Self::BackingOff => f.write_str("the last start failed, and the next is not due yet"),
            Self::NotAnswering(failure) => failure.fmt(f),
            Self::NoProcess(error) => write!(f, "its process cannot be started: {error}"),
        }
    }
}

/// Bytes of a mark. Always as many, so that on a full disk a mark can still be changed
/// where one could be made.
const MARK_LENGTH: usize = 40;

/// What the lock file says to those who come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing.
    Clear,
    /// Its holder did not answer in time and was cut off: do not wait for it.
    Wedged,
    /// So many starts in a row have failed, the last one then (seconds since 1970). A
    /// start counts as failed until its watcher has walked the tree once or knows why it
    /// cannot, so that one that is killed or crashes before is counted as well.
    Failed { times: u32, at: u64 },
}

impl Mark {
    /// Reads the mark; whatever cannot be read is none.
    pub fn read(mut file: &File) -> Self {
        let mut text = String::new();
        if file.rewind().is_err() || file.take(64).read_to_string(&mut text).is_err() {
            return Self::Clear;
        }
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            Some("wedged") => Self::Wedged,
            Some("failed") => match (
                words.next().and_then(|w| w.parse().ok()),
                words.next().and_then(|w| w.parse().ok()),
            ) {
                (Some(times), Some(at)) => Self::Failed { times, at },
                _ => Self::Clear,
            },
            _ => Self::Clear,
        }
    }

    /// Writes the mark. Fails only where there has been none before.
    pub fn write(self, mut file: &File) -> io::Result<()> {
        let text = match self {
            Self::Clear => String::new(),
            Self::Wedged => "wedged\n".to_owned(),
            Self::Failed { times, at } => format!("failed {times} {at}\n"),
        };
        file.rewind()?;
        file.write_all(format!("{text:<MARK_LENGTH$}").as_bytes())
    }

    /// One more start has failed, or may fail.
    pub fn failed_again(self) -> Self {
        let times = match self {
            Self::Failed { times, .. } => times.saturating_add(1),
            _ => 1,
        };
        Self::Failed { times, at: now() }
    }

    /// Whether the next start is not due yet: after the first failure it is at once, after
    /// the second in a second, then in twice as long each time.
    fn says_wait(self) -> bool {
        let Self::Failed { times, at } = self else {
            return false;
        };
        let Some(doublings) = times.checked_sub(2) else {
            return false;
        };
        let wait = 1u64
            .checked_shl(doublings)
            .unwrap_or(u64::MAX)
            .min(BACK_OFF_MAX);
        // A clock that was set back makes `at` lie ahead: no reason to wait.
        let now = now();
        at <= now && now - at <= wait
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Opens the lock file and tries to get the lock: the file, and whether it was got.
pub fn try_lock(path: &Path) -> io::Result<(File, bool)> {
    loop {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Ok((file, false)),
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        // The last holder removes the file; a lock on a removed file is none.
        let held = file.metadata()?;
        match path.symlink_metadata() {
            Ok(found) if found.ino() == held.ino() && found.dev() == held.dev() => {
                return Ok((file, true));
            }
            _ => {}
        }
    }
}

/// Starts a watcher for the worktree whose top is the working directory, or finds the one
/// that somebody else is starting, and gives it a request. Waits no longer than
/// `patience` for the answer.
pub fn start_and_ask(
    place: &mut Whereabouts,
    kind: Kind,
    body: &[u8],
    patience: Duration,
) -> Result<Vec<u8>, NotStarted> {
    place.resolve().map_err(NotStarted::NoWorktree)?;
    if place.owner != geteuid().as_raw() {
        return Err(NotStarted::NotOwner(place.owner));
    }
    let until = Instant::now() + patience;
    let mut pause = Duration::from_millis(1);
    loop {
        let dir = place.state_directory().map_err(NotStarted::NoPlace)?;
        let (lock, got) = match try_lock(&dir.join(place.file("lock"))) {
            // The last watcher has removed the directory meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < until => {
                continue;
            }
            result => result.map_err(NotStarted::NoPlace)?,
        };
        let mark = Mark::read(&lock);
        if got {
            if mark.says_wait() {
                return Err(NotStarted::BackingOff);
            }
            mark.failed_again()
                .write(&lock)
                .map_err(NotStarted::NoPlace)?;
            let socket = spawn(place, &dir, lock).map_err(NotStarted::NoProcess)?;
            return client::ask(&socket, place, kind, body)
                .and_then(|()| {
                    client::answer(&socket, until.saturating_duration_since(Instant::now()))
                })
                .map_err(NotStarted::NotAnswering);
        }
        // Somebody else is starting one, or one is ending.
        match client::reach(place) {
            Ok(socket) => {
                let asked = client::ask(&socket, place, kind, body)
                    .and_then(|()| client::answer(&socket, client::DEADLINE));
                match asked {
                    Err(Failure::Nobody) => {}
                    result => return result.map_err(NotStarted::NotAnswering),
                }
            }
            Err(Failure::Nobody) => {}
            Err(failure) => return Err(NotStarted::NotAnswering(failure)),
        }
        if mark == Mark::Wedged || Instant::now() + pause >= until {
            return Err(NotStarted::NotAnswering(Failure::Silent));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// Starts the process and gives it the lock; returns the other end of its first client.
fn spawn(place: &Whereabouts, dir: &Path, lock: File) -> io::Result<OwnedFd> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SOCKET_FLAGS)?;
    let top = std::env::current_dir()?;
    let identity = place.identity;
    Command::new(own_program()?)
        .arg0("treewatch")
        .arg(crate::watcher::COMMAND)
        .arg(&top)
        .arg(std::fs::canonicalize(&place.git_dir)?)
        .arg(std::fs::canonicalize(dir)?)
        .arg(format!(
            "{:x}:{:x}:{:x}",
            identity.dev, identity.ino, identity.mntns
        ))
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(OwnedFd::from(lock)))
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    Ok(ours)
}

/// This very program, whatever its path leads to by now; never a name that is looked up.
fn own_program() -> io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        return Ok(link.to_owned());
    }
    match std::env::current_exe() {
        Ok(path) if path.is_absolute() => Ok(path),
        _ => match std::env::args_os().next().map(PathBuf::from) {
            Some(path) if path.is_absolute() => Ok(path),
            _ => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "cannot find my own program: /proc is not mounted, and I was not called by an absolute path",
            )),
        },
    }
}

/// The watcher speaks another protocol: asks an older one to make room and says whether a
/// new one may be started. A newer one is left alone, so that two versions on one
/// repository settle it with one restart instead of fighting.
pub fn replace_older(place: &Whereabouts, theirs: u8) -> bool {
    theirs < PROTOCOL
        && client::reach(place)
            .and_then(|socket| client::ask(&socket, place, Kind::Stop, b"").map(|()| socket))
            // Its answer is in its own protocol: that it came is all we can read.
            .is_ok_and(|socket| !matches!(client::answer(&socket, PATIENCE), Err(Failure::Silent)))
}

/// Lets the next start try at once, whatever became of the last ones.
pub fn forget_failures(place: &Whereabouts) {
    for socket in place.private_sockets() {
        let lock = File::options()
            .read(true)
            .write(true)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(socket.with_extension("lock"));
        if let Ok(file) = lock
            && file.try_lock().is_ok()
        {
            let _ = Mark::Clear.write(&file);
        }
    }
}

/// A watcher did not answer in time: takes its socket away, so that the next command does
/// not wait for it as well. A watcher that finds its socket gone ends; so if this one was
/// merely slow, the next command starts a new one.
pub fn cut_off(place: &Whereabouts) {
    for socket in place.private_sockets() {
        if std::fs::remove_file(&socket).is_ok()
            && let Ok(file) = File::options()
                .write(true)
                // A fifo in its place would be waited for.
                .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
                .open(socket.with_extension("lock"))
        {
            let _ = Mark::Wedged.write(&file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_and_ends() {
        let failed = |times, ago| Mark::Failed {
            times,
            at: now() - ago,
        };
        assert!(!failed(1, 0).says_wait());
        assert!(failed(2, 0).says_wait());
        assert!(!failed(2, 3).says_wait());
        assert!(failed(6, 10).says_wait());
        assert!(!failed(6, 18).says_wait());
        assert!(failed(4_000_000_000, BACK_OFF_MAX - 5).says_wait());
        assert!(!failed(4_000_000_000, BACK_OFF_MAX + 2).says_wait());
        assert!(
            !Mark::Failed {
                times: 9,
                at: now() + 1000
            }
            .says_wait()
        );
        assert!(!Mark::Clear.says_wait());
    }

    #[test]
    fn a_mark_is_read_back_whatever_was_there_before() {
        let path = std::env::temp_dir().join(format!("treewatch-mark-{}", std::process::id()));
        let (file, got) = try_lock(&path).unwrap();
        assert!(got);
        assert_eq!(Mark::read(&file), Mark::Clear);
        let longest = Mark::Failed {
            times: u32::MAX,
            at: u64::MAX,
        };
        for mark in [longest, Mark::Wedged, longest.failed_again(), Mark::Clear] {
            mark.write(&file).unwrap();
            assert_eq!(file.metadata().unwrap().len(), MARK_LENGTH as u64);
            let read = Mark::read(&file);
            match (mark, read) {
                (Mark::Failed { times, .. }, Mark::Failed { times: read, .. }) => {
                    assert_eq!(times, read);
                }
                _ => assert_eq!(mark, read),
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}
