//! Mounts below the top: the kernel sends no inotify event when a file system comes over
//! a watched directory or goes from it, but it wakes whoever polls its list of mounts
//! (proc(5), `/proc/pid/mountinfo`).

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The mounts at and below one directory, as they were last seen.
pub struct Mounts {
    list: Option<File>,
    below: Vec<Vec<u8>>,
}

impl Mounts {
    /// Reads the list. Where there is none (no /proc), nothing is ever noticed.
    pub fn new(top: &Path) -> Self {
        let mut mounts = Self {
            list: File::open("/proc/self/mountinfo").ok(),
            below: Vec::new(),
        };
        mounts.woken();
        mounts.changed(top);
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
        let below = below(&text, top.as_os_str().as_bytes());
        let changed = below != self.below;
        self.below = below;
        changed
    }

    /// The types of the file systems mounted below the top.
    pub fn types(&self) -> impl Iterator<Item = &[u8]> {
        self.below.iter().filter_map(|line| {
            let mut fields = line
                .split(|&byte| byte == b' ')
                .skip_while(|field| *field != b"-");
            fields.next()?;
            fields.next()
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
        };
        assert_eq!(
            mounts.types().collect::<Vec<_>>(),
            [&b"tmpfs"[..], b"fuse.sshfs"]
        );
        assert_eq!(below(LIST, b"/").len(), 4);
    }
}
