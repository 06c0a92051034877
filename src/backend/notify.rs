//! Every system the notify crate knows how to watch well enough: Linux (its inotify) and
//! macOS (its FSEvents). The crate's thread reads the system's events; see [`queue`].
//!
//! # What is exact
//!
//! A queue is whole when a *cookie* has come back: a file made in our own directory by
//! [`Backend::drain`]. What makes it a fence:
//!
//! - Linux: the kernel queues an event before the system call that caused it returns, and
//!   one inotify instance, which is what the crate has, is one queue. The crate reads it
//!   on one thread and calls us for each event before it reads the next (notify 8.2:
//!   inotify.rs, `handle_inotify`). So the events of all changes made before the cookie
//!   have come when the cookie's has.
//! - macOS: all directories are in one stream, and a stream is in the order of its event
//!   ids. This holds within one volume only, so the cookies' directory must lie on that of
//!   the worktree; or else nothing is watched.
//!
//! On Linux each directory is registered by itself, and the kernel watches it before
//! `watch` returns (the crate's thread adds it and then replies), so that a directory is
//! watched first and listed second. On macOS each registration would start the stream
//! anew and lose what happens meanwhile, so the top is registered once, recursively.
//!
//! # What is not, and becomes "everything"
//!
//! - The crate knows directories by path. A directory that is renamed is one that is
//!   removed and another that is made, with what was in it unknown.
//! - The crate opens its eyes for every file that is opened or read as well, so the
//!   kernel's queue is full sooner than with inotify proper. A full queue, one of ours that
//!   is full, an error the crate reports, and a cookie that does not come back in
//!   [`PATIENCE`] are a loss of sync.
//! - A file that is written to after it was removed is told of under its old name.
//! - On Linux an unmounted file system is not told of at all; the watcher hears of it from
//!   the list of mounts.
//! - FSEvents merges what happens to one path. Whatever was written and is gone at the
//!   next look, as are most editors' temporary files, could have had another name.
//! - FSEvents tells of a write when the file is closed, as it tells git's own daemon. This
//!   alone is *not* made up for: on macOS a writer that keeps a file open is seen late.
//! - Elsewhere (kqueue) the crate tells of a directory's new entries one at a time and of
//!   writes not at all unless it holds every file open. Nothing is watched there.
//!
//! # What it costs
//!
//! A file is made and removed for each answer, which other programs that watch the git
//! directory see. None is made while nobody asks. Each registration is a message to the
//! crate's thread and back.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::disk::Disk;
use super::{Backend, Drained, Event, OnDisk, StartError, WatchError, WatchId};
use cookie::Cookies;
use queue::Waited;
use session::{RENAMED, Session, WHOLE_TREE};

mod cookie;
mod queue;
mod raw;
mod registry;
mod session;
mod translate;

/// So long a cookie may take to come back.
pub const PATIENCE: Duration = Duration::from_millis(400);

const NO_COOKIE: &str = "no file can be made in the watcher's own directory";
const LATE: &str = "the system's file watching is too slow";

/// See the module's text.
pub struct Notify {
    disk: Disk,
    cookies: Cookies,
    session: Option<Session>,
    why_lost: &'static str,
}

impl Notify {
    /// A backend for the worktree at `disk`; it watches nothing before
    /// [`Backend::restart`]. Cookies are made in `dir`, an absolute path without symbolic
    /// links, where nobody else has files that begin with `name`.
    pub fn new(disk: Disk, dir: &Path, name: &OsStr) -> Self {
        Self {
            disk,
            cookies: Cookies::new(dir, name),
            session: None,
            why_lost: LATE,
        }
    }

    fn lose(&mut self, why: &'static str) -> Drained {
        self.why_lost = why;
        Drained::Lost
    }

    /// Waits until the events of everything done before this call are in the queue.
    fn fence(&mut self) -> Result<(), &'static str> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let dir = self.cookies.dir().as_os_str().as_bytes().to_vec();
        session.guard(&dir).map_err(|_| NO_COOKIE)?;
        let cookie = self
            .cookies
            .make(&mut |path| session.queue.expect(path.as_os_str().as_bytes().to_owned()))
            .map_err(|_| NO_COOKIE)?;
        let waited = session.queue.wait(PATIENCE);
        drop(cookie);
        match waited {
            // Why they were lost is in the queue.
            Waited::Reached | Waited::Lost => Ok(()),
            Waited::TimedOut => Err(LATE),
        }
    }

    /// Hands over what is in the queue.
    fn hand_over(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Result<(), &'static str> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        if WHOLE_TREE && session.top.is_some() && !self.disk.is_in_place() {
            // A stream goes by path, and stays silent about another.
            session.lost = Some(RENAMED);
        }
        session.hand_over(sink)
    }
}

impl Backend for Notify {
    fn restart(&mut self) -> Result<(), StartError> {
        self.session = None;
        self.cookies.clean();
        self.session = Some(Session::start(&self.cookies)?);
        Ok(())
    }

    fn shut(&mut self) {
        self.session = None;
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.session.as_ref().map(|session| session.queue.wakeup())
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained {
        match self.fence().and_then(|()| self.hand_over(sink)) {
            Ok(()) => Drained::Complete,
            Err(why) => self.lose(why),
        }
    }

    fn gather(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained {
        match self.hand_over(sink) {
            Ok(()) => Drained::Some,
            Err(why) => self.lose(why),
        }
    }

    fn why_lost(&self) -> &'static str {
        self.why_lost
    }

    fn disk(&mut self) -> &mut dyn OnDisk {
        &mut self.disk
    }

    fn watch(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        let Some(session) = &mut self.session else {
            return Err(WatchError::Other(io::ErrorKind::NotConnected.into()));
        };
        if path.is_empty() {
            let dir = self.cookies.dir().as_os_str().as_bytes();
            session.guard(dir)?;
            if WHOLE_TREE && !self.disk.is_on_the_device_of(self.cookies.dir()) {
                return Err(WatchError::Other(io::Error::other(
                    "the watcher's own directory is on another volume than the worktree",
                )));
            }
        }
        session.watch(&self.disk, path)
    }

    fn guard(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        match &mut self.session {
            Some(session) => session.guard(path),
            None => Err(WatchError::Other(io::ErrorKind::NotConnected.into())),
        }
    }

    fn unwatch(&mut self, id: WatchId) {
        if let Some(session) = &mut self.session
            && let Some(path) = session.registry.get(id)
        {
            session.forget(&path);
        }
    }

    fn relocate(&mut self, top: &[u8]) -> bool {
        let old = self.disk.top().to_owned();
        if !self.disk.relocate(top) {
            return false;
        }
        let new = self.disk.top();
        if new != old {
            self.cookies.relocate(&old, new);
            if let Some(session) = &mut self.session {
                session
                    .queue
                    .set_cookies(self.cookies.dir().as_os_str().as_bytes());
                if session.top.is_some() {
                    // Everything is registered under its old path.
                    session.lost = Some(RENAMED);
                }
            }
        }
        true
    }

    fn name(&self) -> &'static str {
        "notify"
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::session::{start_error, watch_error};
    use super::*;
    use crate::backend::tests::Place;
    use nix::errno::Errno;

    fn notify(place: &Place) -> Notify {
        Notify::new(place.disk(), &place.state(), OsStr::new("0123456789abcdef"))
    }

    fn files(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_cookie_is_made_for_a_drain_and_for_nothing_else() {
        let place = Place::new();
        let left = place.state().join("0123456789abcdef.cookie-1");
        let foreign = place.state().join("fedcba9876543210.cookie-1");
        std::fs::write(&left, "").unwrap();
        std::fs::write(&foreign, "").unwrap();
        let mut backend = notify(&place);
        backend.restart().unwrap();
        assert_eq!(files(&place.state()), ["fedcba9876543210.cookie-1"]);
        backend.disk().enter().unwrap();
        backend.watch(b"").unwrap();
        backend.disk().leave();
        for _ in 0..5 {
            assert_eq!(backend.gather(&mut |_| {}), Drained::Some);
        }
        assert_eq!(backend.cookies.made(), 0);
        assert_eq!(backend.drain(&mut |_| {}), Drained::Complete);
        assert_eq!(backend.cookies.made(), 1);
        assert_eq!(files(&place.state()), ["fedcba9876543210.cookie-1"]);
    }

    #[test]
    fn without_cookies_nothing_is_vouched_for() {
        let place = Place::new();
        let mut backend = notify(&place);
        backend.restart().unwrap();
        backend.disk().enter().unwrap();
        backend.watch(b"").unwrap();
        backend.disk().leave();
        std::fs::remove_dir(place.state()).unwrap();
        assert_eq!(backend.drain(&mut |_| {}), Drained::Lost);
        assert_eq!(backend.why_lost(), NO_COOKIE);
        backend.restart().unwrap();
        backend.disk().enter().unwrap();
        assert!(backend.watch(b"").is_err());
        backend.disk().leave();
    }

    #[test]
    fn the_system_s_limits_are_told_apart() {
        let error = |errno: Errno| io::Error::from(errno);
        assert!(matches!(
            start_error(error(Errno::EMFILE)),
            StartError::LimitReached
        ));
        assert!(matches!(
            start_error(error(Errno::ENOMEM)),
            StartError::Other(_)
        ));
        assert!(matches!(
            watch_error(error(Errno::ENOSPC)),
            WatchError::LimitReached
        ));
        assert!(matches!(
            watch_error(error(Errno::EACCES)),
            WatchError::NoAccess
        ));
        assert!(matches!(
            watch_error(error(Errno::ENOTDIR)),
            WatchError::NotADirectory
        ));
    }
}
