//! Finding watchers among the processes, for when their sockets do not tell: by the lock.
//!
//! A watcher holds the lock of its worktree for life (see [`crate::start`]), and /proc
//! shows which process holds it: /proc/PID/fdinfo/N names the locks of that open file
//! (proc(5)). The file's name tells the worktree. No number is ever taken on trust: a
//! process is opened first, then looked at, so that it is the one that was looked at.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::repo::Whereabouts;
use crate::sys::Process;
use crate::watcher;

/// A running watcher of this user.
pub struct Running {
    /// Its process.
    pub process: Process,
    /// Its lock file, which may have been removed.
    pub lock: PathBuf,
}

impl Running {
    /// Where its socket is, or was.
    pub fn socket(&self) -> PathBuf {
        self.lock.with_extension("sock")
    }

    /// The worktree its command line names; `None` if it cannot be told.
    pub fn root(&self) -> Option<PathBuf> {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.process.pid())).ok()?;
        let top = line.split(|&byte| byte == 0).nth(2)?;
        top.starts_with(b"/")
            .then(|| PathBuf::from(OsStr::from_bytes(top)))
    }
}

/// Every watcher of this user. Empty where there is no /proc.
pub fn all() -> Vec<Running> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(examine).collect()
}

/// The watchers of one worktree: none or one, but for a moment two.
pub fn of(place: &Whereabouts) -> Vec<Running> {
    let name = place.file("lock");
    let mut found = all();
    found.retain(|running| running.lock.file_name() == Some(&name));
    found
}

/// The process, if it is a watcher of ours.
fn examine(pid: i32) -> Option<Running> {
    let dir = PathBuf::from(format!("/proc/{pid}"));
    // Cheap tests first: most processes are something else.
    if !is_ours(&dir) || !looks_like_a_watcher(&dir) {
        return None;
    }
    let process = Process::open(pid).ok()?;
    let lock = if is_ours(&dir) && looks_like_a_watcher(&dir) {
        held_lock(&dir)?
    } else {
        return None;
    };
    // It was this very process all along, unless it has ended meanwhile.
    let ended = process.ends_within(std::time::Duration::ZERO);
    (!ended).then_some(Running { process, lock })
}

fn is_ours(dir: &Path) -> bool {
    dir.metadata()
        .is_ok_and(|found| found.uid() == geteuid().as_raw())
}

fn looks_like_a_watcher(dir: &Path) -> bool {
    let Ok(line) = std::fs::read(dir.join("cmdline")) else {
        return false;
    };
    let Ok(name) = std::fs::read(dir.join("comm")) else {
        return false;
    };
    let first = line.split(|&byte| byte == 0).nth(1);
    name == b"treewatch\n"
        && first.is_some_and(|word| word == watcher::COMMAND.as_bytes() || word == b"run")
}

/// The lock file of ours that the process holds locked.
fn held_lock(dir: &Path) -> Option<PathBuf> {
    for entry in dir.join("fd").read_dir().ok()?.flatten() {
        let Ok(path) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let Some(path) = lock_file(path.as_os_str().as_bytes()) else {
            continue;
        };
        let info = dir.join("fdinfo").join(entry.file_name());
        if std::fs::read_to_string(info).is_ok_and(|text| text.contains("FLOCK")) {
            return Some(path);
        }
    }
    None
}

/// The path of a lock file of ours, from a link in /proc/PID/fd: the kernel adds
/// " (deleted)" to the path of a removed file.
fn lock_file(link: &[u8]) -> Option<PathBuf> {
    let path = link.strip_suffix(b" (deleted)").unwrap_or(link);
    let mut parts = path.rsplitn(3, |&byte| byte == b'/');
    let stem = parts.next()?.strip_suffix(b".lock")?;
    let dir = parts.next()?;
    let ours = stem.len() == 16
        && stem
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && (dir == b"treewatch" || dir.starts_with(b"treewatch-"));
    ours.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_lock_files_count() {
        let name = "/w/.git/treewatch/0123456789abcdef.lock";
        assert_eq!(lock_file(name.as_bytes()), Some(PathBuf::from(name)));
        let deleted = format!("{name} (deleted)");
        assert_eq!(lock_file(deleted.as_bytes()), Some(PathBuf::from(name)));
        for other in [
            "/w/.git/treewatch/0123456789abcdef.sock",
            "/w/.git/treewatch/0123456789ABCDEF.lock",
            "/w/.git/treewatch/123.lock",
            "/w/.git/other/0123456789abcdef.lock",
            "/w/.git/index.lock",
            "socket:[123]",
            "",
        ] {
            assert_eq!(lock_file(other.as_bytes()), None, "{other}");
        }
    }
}
