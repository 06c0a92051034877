//! Cookie files: a change of our own, whose event comes after those of all changes
//! before it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::queue::COOKIE;

/// Names that are taken are passed over so often.
const TRIES: u32 = 16;

/// Where cookies are made, and under which names.
pub struct Cookies {
    dir: PathBuf,
    prefix: Vec<u8>,
    last: u64,
}

/// A cookie file. Removed when dropped.
pub struct Cookie {
    path: PathBuf,
}

impl Cookies {
    /// Cookies in `dir` (absolute); nobody else has files there that begin with `name`.
    pub fn new(dir: &Path, name: &OsStr) -> Self {
        let mut prefix = name.as_bytes().to_vec();
        prefix.extend_from_slice(COOKIE);
        Self {
            dir: dir.to_owned(),
            prefix,
            last: 0,
        }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How many have been made.
    #[cfg(test)]
    pub fn made(&self) -> u64 {
        self.last
    }

    /// The top of the worktree has a new name: the directory may lie in it.
    pub fn relocate(&mut self, old: &Path, new: &Path) {
        if let Ok(below) = self.dir.strip_prefix(old) {
            self.dir = new.join(below);
        }
    }

    /// Removes those that a process that was killed has left.
    pub fn clean(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else {
            return;
        };
        for entry in entries.flatten() {
            if entry.file_name().as_bytes().starts_with(&self.prefix) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Makes one. `before` is called with its path first.
    pub fn make(&mut self, before: &mut dyn FnMut(&Path)) -> io::Result<Cookie> {
        let mut tries = 0;
        loop {
            self.last += 1;
            tries += 1;
            let mut name = self.prefix.clone();
            name.extend_from_slice(self.last.to_string().as_bytes());
            let path = self.dir.join(std::ffi::OsString::from_vec(name));
            before(&path);
            let made = File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            match made {
                Ok(_) => return Ok(Cookie { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
