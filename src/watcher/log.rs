//! The watcher's log: few lines, bounded, and never a descriptor held.
//!
//! One file beside the socket, and the one before it with `.1` at its end. A log that
//! cannot be written (a full disk) is no reason for anything.

use std::fmt::Arguments;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file longer than this, in bytes, becomes the one before.
const LENGTH_MAX: u64 = 64 << 10;

/// Where and whether to write.
pub struct Log {
    path: PathBuf,
    to_stderr: bool,
}

impl Log {
    /// A log at `path`; with `to_stderr` also, and first of all, there.
    pub fn new(path: PathBuf, to_stderr: bool) -> Self {
        Self { path, to_stderr }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether somebody looks on, on stderr.
    pub fn is_shown(&self) -> bool {
        self.to_stderr
    }

    /// The directory that holds it has a new path.
    pub fn moved_to(&mut self, dir: &Path) {
        if let Some(name) = self.path.file_name() {
            self.path = dir.join(name);
        }
    }

    /// Writes the first line, and makes the file for it.
    pub fn begin(&self, text: Arguments<'_>) {
        self.write(text, true);
    }

    /// Writes one more line, if the file is still there: a file made anew in a directory
    /// that somebody is removing would make their rm -r fail.
    pub fn line(&self, text: Arguments<'_>) {
        self.write(text, false);
    }

    fn write(&self, text: Arguments<'_>, mut create: bool) {
        let line = format!(
            "{} {text}\n",
            humantime::format_rfc3339_seconds(SystemTime::now())
        );
        if self.to_stderr {
            // Whoever runs the watcher in the foreground may have closed the terminal.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
        if self
            .path
            .symlink_metadata()
            .is_ok_and(|found| found.len() > LENGTH_MAX)
        {
            let _ = std::fs::rename(&self.path, self.before());
            create = true;
        }
        let opened = File::options()
            .append(true)
            .create(create)
            .mode(0o600)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .open(&self.path);
        if let Ok(mut file) = opened {
            let _ = file.write_all(line.as_bytes());
        }
    }

    /// Removes both files.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.before());
    }

    fn before(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".1");
        PathBuf::from(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_stays_bounded() {
        let dir = std::env::temp_dir().join(format!("treewatch-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let log = Log::new(dir.join("x.log"), false);
        log.line(format_args!("nothing is made by this"));
        assert!(!log.path().exists());
        log.begin(format_args!("begun"));
        let long = "x".repeat(1000);
        for _ in 0..200 {
            log.line(format_args!("{long}"));
        }
        let size = |path: &Path| path.metadata().unwrap().len();
        assert!(size(log.path()) <= LENGTH_MAX + 1100);
        assert!(size(&log.before()) <= LENGTH_MAX + 1100);
        log.remove();
        std::fs::remove_dir(&dir).unwrap();
    }
}
