//! What a script can do to the world: system calls, and `rm -r`.

use super::world::{LinkId, Mode, Name};

/// A name that is there.
#[derive(Clone, Debug)]
pub enum Entry {
    /// The so manieth of all, modulo their number; with `outside`, also beside the tree.
    Nth {
        /// Which.
        nth: u8,
        /// Also beside the tree.
        outside: bool,
    },
    /// At a path below the top, or from the root if it begins with a slash.
    At(&'static str),
    /// This one, wherever it is.
    Link(LinkId),
}

/// A place for a name.
#[derive(Clone, Debug)]
pub enum Slot {
    /// In the so manieth directory of all, modulo their number.
    Nth {
        /// Which.
        dir: u8,
        /// The name in it.
        name: Name,
        /// Also beside the tree.
        outside: bool,
    },
    /// See [`Entry::At`].
    At(&'static str),
}

/// An operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// mkdir(2).
    Mkdir(Slot),
    /// symlink(2).
    Symlink(Slot),
    /// Open (and create), write, close.
    Write(Slot),
    /// unlink(2) or rmdir(2); with `true`, somebody keeps the directory open.
    Remove(Entry, bool),
    /// rm -r.
    RemoveAll(Entry),
    /// The rest of an `rm -r` under way.
    RemoveRest(LinkId),
    /// rename(2).
    Rename(Entry, Slot),
    /// renameat2(2) with RENAME_EXCHANGE.
    Exchange(Entry, Slot),
    /// link(2).
    Link(Entry, Slot),
    /// chmod(2).
    Chmod(Entry, Mode),
    /// chmod(2) of the top.
    ChmodTop(Mode),
    /// Removed directories that were kept open are closed.
    Release,
    /// The top's path leads elsewhere (`true`), or to the top again.
    Hide(bool),
}
