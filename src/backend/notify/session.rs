//! One life of the notify crate's watcher: what is registered with it, and what it said.
//!
//! The crate's functions send a message to its thread and wait for the reply; once the
//! thread is gone they would panic, so it is looked for first.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use ::notify::{Config, ErrorKind, RecommendedWatcher, RecursiveMode, Watcher};
use nix::errno::Errno;
use nix::sys::stat::{FileStat, lstat, stat};

use super::cookie::Cookies;
use super::queue::{self, Queue};
use super::raw;
use super::registry::{Identity, Registry};
use super::translate::{Manner, Translator};
use crate::backend::disk::{Disk, relative};
use crate::backend::{Event, StartError, WatchError, WatchId, What};

/// So long the crate's thread may take to end.
const ENDING: Duration = Duration::from_secs(1);

/// Whether one registration stands for a whole tree.
pub const WHOLE_TREE: bool = cfg!(target_os = "macos");

/// Whether the system's way of watching tells enough.
const SUPPORTED: bool = cfg!(any(target_os = "linux", target_os = "macos"));

const TWICE: &str = "a directory is found in two places, as if mounted twice";

/// Why sync is lost when the top is not where it was.
pub const RENAMED: &str = "the worktree was renamed or removed";

/// What lives from one restart to the next.
pub struct Session {
    /// There until the session is dropped.
    watcher: Option<RecommendedWatcher>,
    /// What the crate said.
    pub queue: Queue,
    /// What is registered.
    pub registry: Registry,
    /// The path of the top once it is registered.
    pub top: Option<Vec<u8>>,
    /// Watches to report as gone.
    gone: Vec<WatchId>,
    /// Sync is lost; why.
    pub lost: Option<&'static str>,
}

impl Session {
    /// Starts the crate's thread; cookies are looked for in the directory of `cookies`.
    pub fn start(cookies: &Cookies) -> Result<Self, StartError> {
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

    /// Hands over what is in the queue; or why sync is lost.
    pub fn hand_over(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Result<(), &'static str> {
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
    pub fn forget(&mut self, path: &[u8]) {
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

    /// See [`crate::backend::Backend::guard`].
    pub fn guard(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        let identity = directory(stat(as_path(path)))?;
        if let Some(id) = self.known(path, identity) {
            return Ok(id);
        }
        self.register(path, RecursiveMode::NonRecursive)?;
        self.queue.only_guard(path);
        self.insert(path, identity)
    }

    /// See [`crate::backend::Backend::watch`].
    pub fn watch(&mut self, disk: &Disk, path: &[u8]) -> Result<WatchId, WatchError> {
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

pub fn watch_error(error: io::Error) -> WatchError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => WatchError::NotADirectory,
        Some(Errno::EACCES | Errno::EPERM) => WatchError::NoAccess,
        Some(Errno::ENOSPC) => WatchError::LimitReached,
        _ => WatchError::Other(error),
    }
}

pub fn start_error(error: io::Error) -> StartError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE | Errno::ENFILE) => StartError::LimitReached,
        _ => StartError::Other(error),
    }
}
