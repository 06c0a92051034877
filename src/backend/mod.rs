//! What the watcher needs from an operating system: one trait.
//!
//! A backend watches single directories, hands over the events of those watches in
//! the order in which the system made them, and looks at the disk. It knows nothing of
//! journals, tokens or sockets, and it decides nothing: what an event means for the
//! tree is the business of [`crate::watcher::tracker`].
//!
//! | backend | used for | what a drained queue proves |
//! |---|---|---|
//! | [`inotify`] | Linux | every change made before the call is in |
//! | [`notify`] | everything else, or `treewatch.backend=notify` | the same, by a cookie file; unsure in more cases |
//! | `scripted` | tests | whatever the script says |
//!
//! All paths are bytes, relative to the top of the worktree, without a leading or a
//! trailing slash; the empty path is the top itself.

use std::io;
use std::os::fd::BorrowedFd;

pub mod disk;
#[cfg(target_os = "linux")]
pub mod inotify;
pub mod notify;
#[cfg(test)]
pub mod scripted;
#[cfg(test)]
mod tests;

/// Identity of a watched directory (on inotify the watch descriptor, always positive).
///
/// Two calls of [`Backend::watch`] that reach the same directory by two names give the
/// same id as long as the watch lives. A backend that cannot tell that two names mean
/// the same directory gives two ids; the tracker then takes a rename for a removal and
/// a creation.
pub type WatchId = i32;

/// Nanoseconds since 1970, by the clock that file systems take (CLOCK_REALTIME).
pub type Time = i128;

/// What is known of a file without its name.
#[derive(Clone, Copy, Debug)]
pub struct Inode {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The number of its names, unless it is a directory.
    pub links: u64,
    /// When its content or its attributes changed last (inode(7), ctime).
    pub changed: Time,
}

/// What happened to the entry an [`Event`] names, or to the watched directory itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The entry `name` appeared (made, or linked).
    Created,
    /// The entry `name` was removed.
    Deleted,
    /// The entry `name` was renamed to somewhere else (perhaps out of the tree).
    MovedFrom,
    /// The entry `name` came here by a rename (perhaps from outside the tree).
    MovedTo,
    /// The content of the file `name` changed.
    Written,
    /// A writer closed the file `name`, whether it wrote anything or not.
    Closed,
    /// Mode, owner, times or extended attributes of `name` changed.
    Attributes,
    /// The watched directory itself was deleted. No name.
    SelfDeleted,
    /// The watched directory itself was renamed. No name. Not every backend says so.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    SelfMoved,
    /// The file system of the watched directory was unmounted. No name. Not every backend
    /// says so.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    Unmounted,
    /// The watch is gone, whoever removed it; its id means nothing any more. No name.
    WatchGone,
}

/// One event, as the system told it.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The directory whose watch fired.
    pub watch: WatchId,
    /// What happened.
    pub what: What,
    /// Whether the entry is a directory.
    pub is_dir: bool,
    /// The entry in that directory; empty for the kinds that have no name, and for
    /// `Attributes` of the watched directory itself.
    pub name: &'a [u8],
    /// Connects the two halves of a rename; 0 where the system does not say.
    pub cookie: u32,
}

/// Why a directory could not be watched.
#[derive(Debug)]
pub enum WatchError {
    /// Nothing is there, or something that is not a directory.
    NotADirectory,
    /// It may not be read, or a directory above it may not be searched.
    NoAccess,
    /// The system's limit is used up (ENOSPC on inotify).
    LimitReached,
    /// Anything else.
    Other(io::Error),
}

/// Why watching could not begin.
#[derive(Debug)]
pub enum StartError {
    /// The system's limit on watchers is used up (EMFILE on inotify: instances).
    LimitReached,
    /// This process, or the system, can open no more files.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    Descriptors,
    /// Anything else.
    Other(io::Error),
}

/// What a drained queue said about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every change made before the call was handed to the sink.
    Complete,
    /// What was there was handed over, and more may be on its way ([`Backend::gather`]).
    Some,
    /// Events were lost, or the backend cannot vouch for them: start again.
    Lost,
}

/// Why the top of the worktree could not be entered.
#[derive(Debug)]
pub enum EnterError {
    /// The path does not lead to the directory that is being watched; it may have been
    /// renamed (a new path can be given with [`Backend::relocate`]) or deleted.
    Elsewhere,
    /// Anything else.
    Other(io::Error),
}

/// Looking at the disk below the top of the worktree. All but `enter` may be called only
/// between [`OnDisk::enter`] and [`OnDisk::leave`], and so may [`Backend::watch`].
pub trait OnDisk {
    /// Begins a time of looking at the disk.
    fn enter(&mut self) -> Result<(), EnterError>;

    /// Ends it: nothing of the worktree's file system is held afterwards, so that it
    /// can be unmounted.
    fn leave(&mut self);

    /// Lists a directory: each name (never `.` or `..`) and whether it is a directory.
    /// Whether names in it can be looked up, too.
    fn list(&mut self, path: &[u8], sink: &mut dyn FnMut(&[u8], bool)) -> io::Result<bool>;

    /// Whether the directory surely has no subdirectories, by its link count, and surely
    /// can be listed and searched. `false` is always a right answer.
    fn leaf(&mut self, path: &[u8]) -> bool;

    /// What is at a path, not following a symbolic link; `None` if nothing is.
    fn inode(&mut self, path: &[u8]) -> Option<Inode>;

    /// Whether this process may list the directory and look up names in it.
    fn searchable(&mut self, path: &[u8]) -> bool;
}

/// The services of an operating system. See the module's text for the terms.
pub trait Backend {
    /// Begins anew: every watch is dropped, and no event of before is ever handed out.
    fn restart(&mut self) -> Result<(), StartError>;

    /// Drops every watch and all it costs, until the next `restart`.
    fn shut(&mut self);

    /// A descriptor that becomes readable when there are events to drain.
    fn wakeup(&self) -> Option<BorrowedFd<'_>>;

    /// Hands over, in order, every event that the system made before this call, and
    /// perhaps some later ones.
    /// Never [`Drained::Some`].
    fn drain(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained;

    /// Hands over what is there, in order, without making sure that it is everything:
    /// for when no answer depends on it, and `drain` costs more than this.
    fn gather(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained {
        self.drain(sink)
    }

    /// Why the last [`Drained::Lost`] was one.
    fn why_lost(&self) -> &'static str {
        "the system's queue of events was full"
    }

    /// The disk, to look at.
    fn disk(&mut self) -> &mut dyn OnDisk;

    /// Starts to watch a directory, or finds that it is being watched. The last
    /// component is never followed if it is a symbolic link.
    fn watch(&mut self, path: &[u8]) -> Result<WatchId, WatchError>;

    /// Watches a directory outside the tree (absolute path) for the removal of its
    /// entries and of itself, and for entries that are renamed into it.
    fn guard(&mut self, path: &[u8]) -> Result<WatchId, WatchError>;

    /// Stops a watch. An id that is gone already is no error.
    fn unwatch(&mut self, id: WatchId);

    /// Tells the backend that the top of the worktree is now found at `top` (absolute).
    /// `false` if that is not the watched directory.
    fn relocate(&mut self, top: &[u8]) -> bool;

    /// The name people know the backend by: `inotify`, `notify`.
    fn name(&self) -> &'static str;
}

impl Backend for Box<dyn Backend> {
    fn restart(&mut self) -> Result<(), StartError> {
        (**self).restart()
    }
    fn shut(&mut self) {
        (**self).shut();
    }
    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        (**self).wakeup()
    }
    fn drain(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained {
        (**self).drain(sink)
    }
    fn gather(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained {
        (**self).gather(sink)
    }
    fn why_lost(&self) -> &'static str {
        (**self).why_lost()
    }
    fn disk(&mut self) -> &mut dyn OnDisk {
        (**self).disk()
    }
    fn watch(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        (**self).watch(path)
    }
    fn guard(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        (**self).guard(path)
    }
    fn unwatch(&mut self, id: WatchId) {
        (**self).unwatch(id);
    }
    fn relocate(&mut self, top: &[u8]) -> bool {
        (**self).relocate(top)
    }
    fn name(&self) -> &'static str {
        (**self).name()
    }
}
