//! The watcher's own files: socket, lock and log, in one directory.
//!
//! The lock's descriptor is held for life, and through it the directory is found again
//! after the worktree was renamed (proc(5), `/proc/self/fd`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::stat::{Mode, umask};

use super::log::Log;
use crate::repo::{self, Whereabouts};
use crate::start::try_lock;

/// See the module's text.
pub struct Files {
    dir: PathBuf,
    socket: OsString,
    lock_name: OsString,
    lock: File,
    /// Device and inode of the socket once it is bound.
    bound: Option<(u64, u64)>,
    /// The log.
    pub log: Log,
}

impl Files {
    /// The files of the watcher of `place`, in `dir`; `lock` is locked.
    pub fn new(place: &Whereabouts, dir: &Path, lock: File, to_stderr: bool) -> Self {
        Self {
            dir: dir.to_owned(),
            socket: place.file("sock"),
            lock_name: place.file("lock"),
            lock,
            bound: None,
            log: Log::new(dir.join(place.file("log")), to_stderr),
        }
    }

    /// Makes the socket, mode 0600, in place of a dead one.
    pub fn bind(&mut self) -> io::Result<UnixListener> {
        let name = &self.socket;
        // From inside the directory: a socket address holds 108 bytes (unix(7)).
        let listener = repo::in_directory(&self.dir, || {
            match std::fs::remove_file(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let before = umask(Mode::from_bits_truncate(0o177));
            let listener = UnixListener::bind(Path::new(name));
            umask(before);
            listener
        })??;
        listener.set_nonblocking(true)?;
        self.bound = identity(&self.socket_path());
        Ok(listener)
    }

    /// The locked file, to leave word in.
    pub fn lock(&self) -> &File {
        &self.lock
    }

    /// Where the socket is.
    pub fn socket_path(&self) -> PathBuf {
        self.dir.join(&self.socket)
    }

    /// What the names of all of them begin with, and of nobody else's.
    pub fn name(&self) -> &OsStr {
        Path::new(&self.socket).file_stem().unwrap_or(&self.socket)
    }

    /// Where the directory is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Finds the directory again if it was renamed; whether it is anywhere.
    pub fn find(&mut self) -> bool {
        let link = format!("/proc/self/fd/{}", self.lock.as_raw_fd());
        if let Ok(path) = std::fs::read_link(link) {
            // The kernel adds this to the path of a removed file.
            if path.as_os_str().as_bytes().ends_with(b" (deleted)") {
                return false;
            }
            if let Some(dir) = path.parent()
                && dir != self.dir
            {
                self.dir = dir.to_owned();
                self.log.moved_to(dir);
            }
        }
        self.dir.is_dir()
    }

    /// Whether clients can still find the socket.
    pub fn socket_is_there(&mut self) -> bool {
        self.find() && self.bound.is_some() && identity(&self.socket_path()) == self.bound
    }

    /// Removes what watchers that were killed have left here, if it is a day old and they
    /// are gone: their worktrees may be gone as well, so that nobody else ever would.
    pub fn sweep_left_over(&self) {
        const AGE: Duration = Duration::from_secs(86_400);
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return;
        };
        for entry in entries.flatten().take(10_000) {
            let path = entry.path();
            if path.extension() != Some(OsStr::new("lock")) || entry.file_name() == self.lock_name {
                continue;
            }
            let old = entry.metadata().is_ok_and(|found| {
                found.is_file()
                    && found
                        .modified()
                        .is_ok_and(|then| then.elapsed().is_ok_and(|age| age > AGE))
            });
            // Whoever holds the lock is alive, and nobody starts while we hold it.
            if old && let Ok((_held, true)) = try_lock(&path) {
                let _ = std::fs::remove_file(path.with_extension("sock"));
                Log::new(path.with_extension("log"), false).remove();
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    /// Removes socket and lock, and the directory if nothing else is in it. `log`: the log
    /// as well. The lock itself goes when this process does.
    pub fn remove(&mut self, log: bool) {
        if !self.find() {
            return;
        }
        if identity(&self.socket_path()) == self.bound {
            let _ = std::fs::remove_file(self.socket_path());
        }
        if log || self.dir == repo::users_directory() {
            self.log.remove();
        }
        let _ = std::fs::remove_file(self.dir.join(&self.lock_name));
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// Device and inode of what is at `path`.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata()
        .ok()
        .map(|found| (found.dev(), found.ino()))
}
