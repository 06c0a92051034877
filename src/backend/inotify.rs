//! Linux: inotify, through nix.
//!
//! The kernel queues an event before the system call that caused it returns, so a
//! queue read to its end holds every change made before (facts checked on Linux 6.18;
//! the rules are those of inotify(7)). No cookie file is needed.
//!
//! What it cannot tell, and the tracker therefore asks for: that a file has other names
//! (hard links), that a mount covers a directory, and what happened after the queue was
//! full ([`Drained::Lost`]).

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify as Kernel};

use super::disk::Disk;
use super::{Backend, Drained, Event, OnDisk, StartError, WatchError, WatchId, What};
use crate::sys;

/// Bytes read at once. The kernel hands out whole events only.
const BUFFER: usize = 64 << 10;

/// Bytes of `struct inotify_event` before its name (inotify(7)).
const HEADER: usize = 16;

/// The queue's length where /proc cannot be read (the kernel's default).
const QUEUE: usize = 16_384;

/// What is asked of a directory of the tree. `IN_MODIFY` for writers that stay,
/// `IN_CLOSE_WRITE` for those that write through mmap, which sends nothing else. Not
/// `IN_EXCL_UNLINK`: who has a file open under a name that was removed may write to it, and
/// it may have other names.
fn tree_mask() -> AddWatchFlags {
    AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_ONLYDIR
        | AddWatchFlags::IN_DONT_FOLLOW
}

/// What is asked of a directory outside the tree.
fn guard_mask() -> AddWatchFlags {
    AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR
}

/// See the module's text.
pub struct Inotify {
    disk: Disk,
    kernel: Option<Kernel>,
    buffer: Box<[u8]>,
    queue: usize,
}

impl Inotify {
    /// A backend for the worktree at `disk`; it watches nothing before
    /// [`Backend::restart`].
    pub fn new(disk: Disk) -> Self {
        Self {
            disk,
            kernel: None,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            queue: QUEUE,
        }
    }

    fn add(&self, path: &Path, mask: AddWatchFlags) -> Result<WatchId, WatchError> {
        let Some(kernel) = &self.kernel else {
            return Err(WatchError::Other(io::ErrorKind::NotConnected.into()));
        };
        match kernel.add_watch(path, mask) {
            Ok(watch) => Ok(watch.as_raw()),
            Err(error) => Err(refusal(error)),
        }
    }
}

fn refusal(error: Errno) -> WatchError {
    match error {
        Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP => WatchError::NotADirectory,
        // Longer than a path may be: git cannot get there either.
        Errno::EACCES | Errno::EPERM | Errno::ENAMETOOLONG => WatchError::NoAccess,
        Errno::ENOSPC => WatchError::LimitReached,
        error => WatchError::Other(error.into()),
    }
}

/// Calls `sink` for each event in `bytes`, as read from the kernel; returns their number
/// and whether one of them said that events were lost.
fn parse(bytes: &[u8], sink: &mut dyn FnMut(Event<'_>)) -> (usize, bool) {
    let (mut at, mut count, mut lost) = (0, 0, false);
    while let Some(head) = bytes.get(at..at + HEADER) {
        let word = |i: usize| [head[i], head[i + 1], head[i + 2], head[i + 3]];
        let watch = i32::from_ne_bytes(word(0));
        let mask = AddWatchFlags::from_bits_retain(u32::from_ne_bytes(word(4)));
        let cookie = u32::from_ne_bytes(word(8));
        let length = u32::from_ne_bytes(word(12)) as usize;
        let padded = bytes.get(at + HEADER..at + HEADER + length).unwrap_or(&[]);
        let name = padded.split(|&byte| byte == 0).next().unwrap_or(&[]);
        at += HEADER + length;
        count += 1;
        if mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            lost = true;
            continue;
        }
        let is_dir = mask.contains(AddWatchFlags::IN_ISDIR);
        for (bit, what) in KINDS {
            if mask.contains(bit) {
                sink(Event {
                    watch,
                    what,
                    is_dir,
                    name,
                    cookie,
                });
            }
        }
    }
    (count, lost)
}

const KINDS: [(AddWatchFlags, What); 11] = [
    (AddWatchFlags::IN_CREATE, What::Created),
    (AddWatchFlags::IN_DELETE, What::Deleted),
    (AddWatchFlags::IN_MOVED_FROM, What::MovedFrom),
    (AddWatchFlags::IN_MOVED_TO, What::MovedTo),
    (AddWatchFlags::IN_MODIFY, What::Written),
    (AddWatchFlags::IN_CLOSE_WRITE, What::Closed),
    (AddWatchFlags::IN_ATTRIB, What::Attributes),
    (AddWatchFlags::IN_DELETE_SELF, What::SelfDeleted),
    (AddWatchFlags::IN_MOVE_SELF, What::SelfMoved),
    (AddWatchFlags::IN_UNMOUNT, What::Unmounted),
    (AddWatchFlags::IN_IGNORED, What::WatchGone),
];

impl Backend for Inotify {
    fn restart(&mut self) -> Result<(), StartError> {
        // The old queue goes first: instances are scarce (128 a user).
        self.kernel = None;
        match Kernel::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC) {
            Ok(kernel) => {
                self.kernel = Some(kernel);
                // An instance keeps the length it began with.
                self.queue = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")
                    .ok()
                    .and_then(|text| text.trim().parse().ok())
                    .unwrap_or(QUEUE);
                Ok(())
            }
            // The same error for instances and for descriptors (inotify_init(2)).
            Err(Errno::EMFILE) if std::fs::File::open("/dev/null").is_ok() => {
                Err(StartError::LimitReached)
            }
            Err(Errno::EMFILE | Errno::ENFILE) => Err(StartError::Descriptors),
            Err(error) => Err(StartError::Other(error.into())),
        }
    }

    fn shut(&mut self) {
        self.kernel = None;
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.kernel.as_ref().map(AsFd::as_fd)
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained {
        let Some(kernel) = &self.kernel else {
            return Drained::Complete;
        };
        // More than the queue holds need not be read: what was queued before this call
        // is in by then, and a writer that never stops must not keep us here. The event that
        // says that others were lost comes on top of a full queue (inotify(7),
        // IN_Q_OVERFLOW): it must not be left behind.
        let (mut read, mut lost) = (0, false);
        while read <= self.queue {
            match nix::unistd::read(kernel, &mut self.buffer) {
                Ok(0) | Err(Errno::EAGAIN) => break,
                Ok(length) => {
                    let (count, some_lost) = parse(&self.buffer[..length], sink);
                    read += count;
                    lost |= some_lost;
                }
                Err(Errno::EINTR) => {}
                Err(_) => return Drained::Lost,
            }
        }
        if lost {
            Drained::Lost
        } else {
            Drained::Complete
        }
    }

    fn disk(&mut self) -> &mut dyn OnDisk {
        &mut self.disk
    }

    fn watch(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        let mut mask = tree_mask();
        if path.is_empty() {
            mask |= AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF;
        }
        let path = self.disk.lead_to(path).map_err(refusal)?;
        self.add(path, mask)
    }

    fn guard(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        // IN_MASK_ADD: a git directory in the worktree under another name than `.git`
        // is in the tree as well, and its watch must not be narrowed.
        self.add(
            Path::new(OsStr::from_bytes(path)),
            guard_mask() | AddWatchFlags::from_bits_retain(nix::libc::IN_MASK_ADD),
        )
    }

    fn unwatch(&mut self, id: WatchId) {
        if let Some(kernel) = &self.kernel {
            sys::inotify_rm_watch(kernel.as_fd(), id);
        }
    }

    fn relocate(&mut self, top: &[u8]) -> bool {
        self.disk.relocate(top)
    }

    fn name(&self) -> &'static str {
        "inotify"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(watch: i32, mask: u32, cookie: u32, name: &[u8]) -> Vec<u8> {
        let padded = if name.is_empty() {
            0
        } else {
            (name.len() / 16 + 1) * 16
        };
        let mut bytes = Vec::new();
        bytes.extend(watch.to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend(cookie.to_ne_bytes());
        bytes.extend((padded as u32).to_ne_bytes());
        bytes.extend(name);
        bytes.resize(HEADER + padded, 0);
        bytes
    }

    #[test]
    fn events_are_read_in_order_with_their_names() {
        let mut bytes = event(3, AddWatchFlags::IN_MOVED_FROM.bits(), 9, b"old name");
        bytes.extend(event(
            4,
            (AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ISDIR).bits(),
            9,
            b"\xff\n",
        ));
        bytes.extend(event(4, AddWatchFlags::IN_IGNORED.bits(), 0, b""));
        let mut seen = Vec::new();
        let (count, lost) = parse(&bytes, &mut |event| {
            seen.push((
                event.watch,
                event.what,
                event.is_dir,
                event.name.to_vec(),
                event.cookie,
            ));
        });
        assert_eq!((count, lost), (3, false));
        assert_eq!(
            seen,
            [
                (3, What::MovedFrom, false, b"old name".to_vec(), 9),
                (4, What::MovedTo, true, b"\xff\n".to_vec(), 9),
                (4, What::WatchGone, false, vec![], 0),
            ]
        );
    }

    #[test]
    fn an_overflow_is_told_and_what_follows_it_still_read() {
        let mut bytes = event(-1, AddWatchFlags::IN_Q_OVERFLOW.bits(), 0, b"");
        bytes.extend(event(1, AddWatchFlags::IN_CREATE.bits(), 0, b"x"));
        let mut names = 0;
        assert_eq!(parse(&bytes, &mut |_| names += 1), (2, true));
        assert_eq!(names, 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes, &mut |_| {});
        }
    }
}
