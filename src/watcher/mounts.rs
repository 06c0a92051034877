//! Mounts below the top: the kernel sends no inotify event when a file system comes over
//! a watched directory or goes from it, but it wakes whoever polls its list of mounts
//! (proc(5), `/proc/pid/mountinfo`).

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sys;

/// The mounts at and below one directory, as they were last seen.
pub struct Mounts {
    list: Option<File>,
    below: Vec<Vec<u8>>,
    /// The mount that the directory itself is on (its id, which a rename keeps), if it is
    /// in the list: in a chroot it may not be.
    own: Option<u64>,
    own_is_gone: bool,
}

impl Mounts {
    /// Reads the list. Where there is none (no /proc), nothing is ever noticed.
    pub fn new(top: &Path) -> Self {
        let mut mounts = Self {
            list: File::open("/proc/self/mountinfo").ok(),
            below: Vec::new(),
            own: sys::mount_id(top),
            own_is_gone: false,
        };
        mounts.woken();
        mounts.changed(top);
        if std::mem::take(&mut mounts.own_is_gone) {
            mounts.own = None;
        }
        mounts
    }

    /// The descriptor to poll, for [`PollFlags::POLLPRI`].
    pub fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.list.as_ref().map(AsFd::as_fd)
    }

    /// Whether any mount anywhere came or went since the last call. One system call.
    pub fn woken(&mut self) -> bool {
        let Some(list) = &self.list else {
            return false;
        };
        let mut fds = [PollFd::new(list.as_fd(), PollFlags::POLLPRI)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Reads the list again: whether what is mounted below `top` has changed.
    pub fn changed(&mut self, top: &Path) -> bool {
        let Some(list) = &mut self.list else {
            return false;
        };
        let mut text = Vec::new();
        if list
            .rewind()
            .and_then(|()| list.read_to_end(&mut text))
            .is_err()
        {
            return true;
        }
        self.own_is_gone = self.own.is_some_and(|own| !lists(&text, own));
        let below = below(&text, top.as_os_str().as_bytes());
        let changed = below != self.below;
        self.below = below;
        changed
    }

    /// Whether the file system of the directory itself was unmounted, when the list was
    /// last read. Not every backend tells of that.
    pub fn own_is_gone(&self) -> bool {
        self.own_is_gone
    }

    /// Whether something else than a directory is mounted below the top. Its content can be
    /// changed by a name that lies anywhere.
    pub fn has_a_file(&self) -> bool {
        let mut points = self.below.iter().filter_map(|line| point(line));
        points.any(|point| !point.is_dir())
    }

    /// The types of the file systems mounted below the top.
    pub fn types(&self) -> impl Iterator<Item = &[u8]> {
        self.below.iter().filter_map(|line| kind(line))
    }
}

/// Where a line of a mountinfo says that something is mounted (proc(5)).
pub fn point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|&byte| byte == b' ').nth(4)?;
    Some(OsString::from_vec(unescaped(field)).into())
}

/// The type of the file system that is mounted there.
pub fn kind(line: &[u8]) -> Option<&[u8]> {
    let mut fields = line
        .split(|&byte| byte == b' ')
        .skip_while(|field| *field != b"-");
    fields.next()?;
    fields.next()
}

/// Whether a mountinfo has the mount with this id (its first field; the same number as
/// statx's `stx_mnt_id`).
fn lists(text: &[u8], id: u64) -> bool {
    let id = id.to_string();
    text.split(|&byte| byte == b'\n')
        .any(|line| line.split(|&byte| byte == b' ').next() == Some(id.as_bytes()))
}

/// The lines of a mountinfo whose mount point lies below `top`.
fn below(text: &[u8], top: &[u8]) -> Vec<Vec<u8>> {
    let mut prefix = escaped(top);
    if prefix.last() != Some(&b'/') {
        prefix.push(b'/');
    }
    text.split(|&byte| byte == b'\n')
        .filter(|line| {
            let point = line.split(|&byte| byte == b' ').nth(4);
            point.is_some_and(|point| point.starts_with(&prefix))
        })
        .map(<[u8]>::to_vec)
        .collect()
}

/// A path as mountinfo writes it: space, tab, newline and backslash as octal numbers.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for &byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => out.extend(format!("\\{byte:03o}").bytes()),
            _ => out.push(byte),
        }
    }
    out
}

/// And back.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = rest.get(1..4).filter(|_| byte == b'\\');
        let digits = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &rest[4..];
            }
            None => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_with_numbers_is_read_again() {
        for path in [&b"/plain"[..], b"/a b\tc\nd\\e", b"\\", b"\xff 1"] {
            assert_eq!(unescaped(&escaped(path)), path);
        }
        assert_eq!(unescaped(b"\\04"), b"\\04");
    }

    const LIST: &[u8] = b"\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
30 22 0:31 / /w/my\\040tree/sub rw - tmpfs none rw\n\
31 22 0:32 / /w/my\\040tree2 rw - nfs4 host:/x rw\n\
32 22 0:33 / /w/my\\040tree/a/b rw master:3 - fuse.sshfs host: rw\n";

    #[test]
    fn only_mounts_below_the_top_count() {
        let mounts = Mounts {
            list: None,
            below: below(LIST, b"/w/my tree"),
            own: None,
            own_is_gone: false,
        };
        assert_eq!(
            mounts.types().collect::<Vec<_>>(),
            [&b"tmpfs"[..], b"fuse.sshfs"]
        );
        assert_eq!(below(LIST, b"/").len(), 4);
    }
    #[test]
    fn a_mount_is_found_by_its_id() {
        assert!(lists(LIST, 22) && lists(LIST, 32));
        assert!(!lists(LIST, 2) && !lists(LIST, 0));
        assert!(lists(
            &std::fs::read("/proc/self/mountinfo").unwrap_or(b"1 ".to_vec()),
            sys::mount_id(Path::new("/")).unwrap_or(1)
        ));
    }
}
