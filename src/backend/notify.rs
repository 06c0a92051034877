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

use ::notify::{Config, ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};
use nix::errno::Errno;
use nix::sys::stat::{FileStat, lstat, stat};

use super::disk::{Disk, relative};
use super::{Backend, Drained, EnterError, Event, StartError, WatchError, WatchId, What};
use cookie::Cookies;
use queue::{Queue, Waited};
use registry::{Identity, Registry};
use translate::{Manner, Translator};

mod cookie;
mod queue;
mod raw;
mod registry;
mod translate;

/// So long a cookie may take to come back.
pub const PATIENCE: Duration = Duration::from_millis(400);

/// So long the crate's thread may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// Whether one registration stands for a whole tree.
const WHOLE_TREE: bool = cfg!(target_os = "macos");

/// Whether the system's way of watching tells enough.
const SUPPORTED: bool = cfg!(any(target_os = "linux", target_os = "macos"));

const RENAMED: &str = "the worktree was renamed or removed";
const NO_COOKIE: &str = "no file can be made in the watcher's own directory";
const LATE: &str = "the system's file watching is too slow";
const TWICE: &str = "a directory is found in two places, as if mounted twice";

/// See the module's text.
pub struct Notify {
    disk: Disk,
    cookies: Cookies,
    session: Option<Session>,
    why_lost: &'static str,
}

/// What lives from one restart to the next.
struct Session {
    /// There until the session is dropped.
    watcher: Option<RecommendedWatcher>,
    queue: Queue,
    registry: Registry,
    /// The path of the top once it is registered.
    top: Option<Vec<u8>>,
    /// Watches to report as gone.
    gone: Vec<WatchId>,
    lost: Option<&'static str>,
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

impl Session {
    fn start(cookies: &Cookies) -> Result<Self, StartError> {
        if !SUPPORTED {
            return Err(StartError::Other(io::ErrorKind::Unsupported.into()));
        }
        let dir = cookies.dir().as_os_str().as_bytes();
        let (queue, handler) = queue::pair(dir).map_err(start_error)?;
        let config = Config::default().with_follow_symlinks(false);
        let watcher =
            RecommendedWatcher::new(handler, config).map_err(|error| match error.kind {
                ErrorKind::Io(error) => start_error(error),
                _ => StartError::Other(io::Error::other(error)),
            })?;
        let session = Self {
            watcher: Some(watcher),
            queue,
            registry: Registry::default(),
            top: None,
            gone: Vec::new(),
            lost: None,
        };
        if session.queue.is_closed() {
            // The crate does not say so if its thread cannot be started.
            return Err(StartError::Other(io::Error::other(
                "a thread could not be started",
            )));
        }
        Ok(session)
    }

    fn hand_over(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Result<(), &'static str> {
        if self.queue.is_closed() {
            return Err("the system's file watching has ended");
        }
        let events = self.queue.take()?;
        for id in std::mem::take(&mut self.gone) {
            sink(about_itself(id, What::WatchGone));
        }
        for raw in &events {
            let outcome = Translator {
                registry: &mut self.registry,
                top: self.top.as_deref(),
                manner: if WHOLE_TREE {
                    Manner::Merged
                } else {
                    Manner::Each
                },
                is_dir: &|path| lstat(as_path(path)).ok().map(|found| is_dir(&found)),
            }
            .take(raw, sink);
            // Its own path alone the crate has forgotten by itself, if it was removed.
            let by_itself = matches!(raw.kind, raw::Kind::Removed(_)) && outcome.dropped.len() == 1;
            if !by_itself {
                for path in &outcome.dropped {
                    self.unregister(path);
                }
            }
            if outcome.top {
                let gone = matches!(raw.kind, raw::Kind::Removed(_))
                    && lstat(as_path(&raw.path)) == Err(Errno::ENOENT);
                let id = self.registry.find(&raw.path).map(|(id, _)| id);
                let (Some(id), true) = (id, gone) else {
                    return Err(RENAMED);
                };
                sink(about_itself(id, What::SelfDeleted));
                sink(about_itself(id, What::WatchGone));
                self.forget(&raw.path);
            }
        }
        self.lost.take().map_or(Ok(()), Err)
    }

    /// Registers a directory with the crate.
    fn register(&mut self, path: &[u8], mode: RecursiveMode) -> Result<(), WatchError> {
        let watcher = match &mut self.watcher {
            Some(watcher) if !self.queue.is_closed() => watcher,
            _ => return Err(WatchError::Other(io::ErrorKind::NotConnected.into())),
        };
        watcher
            .watch(as_path(path), mode)
            .map_err(|error| match error.kind {
                ErrorKind::MaxFilesWatch => WatchError::LimitReached,
                ErrorKind::PathNotFound => WatchError::NotADirectory,
                ErrorKind::Io(error) => watch_error(error),
                _ => WatchError::Other(io::Error::other(error)),
            })
    }

    fn unregister(&mut self, path: &[u8]) {
        if WHOLE_TREE || self.queue.is_closed() {
            return;
        }
        if let Some(watcher) = &mut self.watcher {
            // Most have been dropped by the crate itself.
            let _ = watcher.unwatch(as_path(path));
        }
    }

    /// Ends the registration of a path, with whatever ends with it.
    fn forget(&mut self, path: &[u8]) {
        for registration in self.registry.remove_all(path) {
            self.unregister(&registration.path);
            self.gone.push(registration.id);
        }
    }

    /// Looks for a registration that is still good, and ends one that is not: the crate
    /// would take what the old directory does for the new one's doing.
    fn known(&mut self, path: &[u8], identity: Identity) -> Option<WatchId> {
        let (id, known) = self.registry.find(path)?;
        if known == identity {
            return Some(id);
        }
        self.forget(path);
        None
    }

    fn insert(&mut self, path: &[u8], identity: Identity) -> Result<WatchId, WatchError> {
        self.registry
            .insert(path, identity)
            .ok_or_else(|| WatchError::Other(io::Error::other("no ids are left")))
    }

    fn guard(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        let identity = directory(stat(as_path(path)))?;
        if let Some(id) = self.known(path, identity) {
            return Ok(id);
        }
        self.register(path, RecursiveMode::NonRecursive)?;
        self.queue.only_guard(path);
        self.insert(path, identity)
    }

    fn watch(&mut self, disk: &Disk, path: &[u8]) -> Result<WatchId, WatchError> {
        let identity = directory(lstat(relative(path)))?;
        let top = disk.top().as_os_str().as_bytes();
        let mut full = top.to_vec();
        if !path.is_empty() {
            if full.last() != Some(&b'/') {
                full.push(b'/');
            }
            full.extend_from_slice(path);
        }
        if let Some(id) = self.known(&full, identity) {
            // It may have been a guarded directory only.
            self.queue.watch_whole(&full);
            if path.is_empty() {
                self.top = Some(full);
            }
            return Ok(id);
        }
        let is_here =
            |path: &[u8]| directory(lstat(as_path(path))).is_ok_and(|found| found == identity);
        let others = self.registry.other_paths(identity, &full);
        if others.iter().any(|other| is_here(other)) {
            self.lost = Some(TWICE);
        }
        if !WHOLE_TREE || path.is_empty() {
            let mode = if WHOLE_TREE {
                RecursiveMode::Recursive
            } else {
                RecursiveMode::NonRecursive
            };
            self.register(&full, mode)?;
        }
        let id = self.insert(&full, identity)?;
        if !is_here(&full) {
            // The crate went by the absolute path and came to something else.
            self.forget(&full);
            if directory(lstat(relative(path))).is_ok_and(|found| found == identity) {
                self.lost = Some(RENAMED);
            }
            return Err(WatchError::NotADirectory);
        }
        self.queue.watch_whole(&full);
        if path.is_empty() {
            self.top = Some(full);
        }
        Ok(id)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(watcher) = self.watcher.take() else {
            return;
        };
        if self.queue.is_closed() {
            // Dropping it would panic: it sends a message to its thread.
            std::mem::forget(watcher);
            return;
        }
        drop(watcher);
        // What it holds is scarce, and whoever ends it may be about to start another.
        self.queue.wait_closed(ENDING);
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

    fn enter(&mut self) -> Result<(), EnterError> {
        self.disk.enter()
    }

    fn leave(&mut self) {
        self.disk.leave();
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
        if let Some(session) = &mut self.session {
            if let Some(registration) = session.registry.get(id) {
                session.forget(&registration);
            }
        }
    }

    fn list(&mut self, path: &[u8], sink: &mut dyn FnMut(&[u8], bool)) -> io::Result<()> {
        self.disk.list(path, sink)
    }

    fn leaf(&mut self, path: &[u8]) -> bool {
        self.disk.leaf(path)
    }

    fn links(&mut self, path: &[u8]) -> Option<u64> {
        self.disk.links(path)
    }

    fn searchable(&mut self, path: &[u8]) -> bool {
        self.disk.searchable(path)
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

fn about_itself(watch: WatchId, what: What) -> Event<'static> {
    Event {
        watch,
        what,
        is_dir: true,
        name: b"",
        cookie: 0,
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

fn is_dir(found: &FileStat) -> bool {
    found.st_mode & nix::libc::S_IFMT == nix::libc::S_IFDIR
}

/// The identity of what was found, if it is a directory.
fn directory(found: nix::Result<FileStat>) -> Result<Identity, WatchError> {
    match found {
        Ok(found) if is_dir(&found) => Ok((found.st_dev as u64, found.st_ino as u64)),
        Ok(_) => Err(WatchError::NotADirectory),
        Err(error) => Err(watch_error(error.into())),
    }
}

fn watch_error(error: io::Error) -> WatchError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => WatchError::NotADirectory,
        Some(Errno::EACCES | Errno::EPERM) => WatchError::NoAccess,
        Some(Errno::ENOSPC) => WatchError::LimitReached,
        _ => WatchError::Other(error),
    }
}

fn start_error(error: io::Error) -> StartError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE) => StartError::LimitReached,
        _ => StartError::Other(error),
    }
}
