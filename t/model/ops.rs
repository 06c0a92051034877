//! Operations: what can be done to the tree, as data, so that a run can be written
//! down, done again and cut shorter.
//!
//! An operation names its paths relative to the base directory: `t/...` is inside the
//! worktree, `out/...` in its neighbour on the same file system. Every operation may
//! fail (another process was faster, a directory may not be read): that is no error,
//! and it is what makes any part of a list of operations a valid list.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path or an argument: any bytes. In JSON each byte is the character of the same
/// number, which loses nothing and stays readable.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn of(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }

    /// `self/name`.
    pub fn join(&self, name: &[u8]) -> Self {
        let mut all = self.0.clone();
        all.push(b'/');
        all.extend_from_slice(name);
        Self(all)
    }

    pub fn parent(&self) -> Self {
        let cut = self.0.iter().rposition(|&b| b == b'/').unwrap_or(0);
        Self(self.0[..cut].to_vec())
    }

    pub fn name(&self) -> &[u8] {
        let cut = self.0.iter().rposition(|&b| b == b'/').map_or(0, |n| n + 1);
        &self.0[cut..]
    }

    /// Is this path `other`, or below it?
    pub fn within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
            && (self.0.len() == other.0.len() || self.0[other.0.len()] == b'/')
    }

    pub fn os(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    pub fn at(&self, base: &Path) -> PathBuf {
        base.join(Path::new(self.os()))
    }

    /// The path as git names it: without the leading `t/`.
    pub fn in_worktree(&self) -> Self {
        Self(self.0.get(2..).unwrap_or_default().to_vec())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.os())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().map(|&b| char::from(b)).collect();
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        // A character above 255 was never written by the function above.
        Ok(Self(text.chars().map(|c| c as u8).collect()))
    }
}

/// Which untracked files `git status` is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Untracked {
    All,
    Normal,
    No,
}

impl Untracked {
    pub fn flag(self) -> &'static str {
        match self {
            Self::All => "-uall",
            Self::Normal => "-unormal",
            Self::No => "-uno",
        }
    }

    /// The value for `status.showUntrackedFiles`.
    pub fn config(self) -> &'static str {
        &self.flag()[2..]
    }
}

/// One step of a run. `slot` numbers let two things be held open at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Create or truncate, then write text made from `text`.
    Write {
        path: Bytes,
        text: u32,
    },
    Append {
        path: Bytes,
        text: u32,
    },
    /// Write a temporary file beside it and rename that over it, as editors do.
    Replace {
        path: Bytes,
        text: u32,
    },
    Touch {
        path: Bytes,
    },
    Unlink {
        path: Bytes,
    },
    Mkdir {
        path: Bytes,
    },
    MkdirAll {
        path: Bytes,
    },
    Rmdir {
        path: Bytes,
    },
    RemoveAll {
        path: Bytes,
    },
    Rename {
        from: Bytes,
        to: Bytes,
    },
    /// renameat2 with RENAME_EXCHANGE.
    Exchange {
        a: Bytes,
        b: Bytes,
    },
    Symlink {
        target: Bytes,
        path: Bytes,
    },
    Link {
        from: Bytes,
        to: Bytes,
    },
    Chmod {
        path: Bytes,
        mode: u32,
    },
    /// `cp -r`: directories first, each file as it comes.
    CopyAll {
        from: Bytes,
        to: Bytes,
    },
    /// A tree of several directories and files at once, its shape made from `text`.
    MakeTree {
        path: Bytes,
        text: u32,
    },
    Fifo {
        path: Bytes,
    },
    /// Map a file for writing; the write comes with `MapWrite`.
    MapOpen {
        slot: u8,
        path: Bytes,
    },
    MapWrite {
        slot: u8,
    },
    /// Open a file for writing; the write comes with `HeldWrite`, whatever happened to
    /// the name in between.
    Hold {
        slot: u8,
        path: Bytes,
    },
    HeldWrite {
        slot: u8,
        text: u32,
    },
    /// A git command, run in the directory `dir`.
    Git {
        dir: Bytes,
        args: Vec<Bytes>,
    },
    /// `git status` under the monitor; nobody looks at the answer.
    Status {
        untracked: Untracked,
        locks: bool,
    },
    /// `git status` under the monitor against the oracle.
    Compare {
        untracked: Untracked,
        locks: bool,
    },
    /// The hook asked directly; the answer against what `lstat` says has changed.
    Query,
}

impl Op {
    /// Does this operation change the tree or the repository?
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Self::Status { .. } | Self::Compare { .. } | Self::Query
        )
    }

    /// Must the tree be quiet while this is done?
    pub fn needs_quiet(&self) -> bool {
        matches!(self, Self::Compare { .. } | Self::Query)
    }
}

/// An operation that was done: when (nanoseconds since the run began, at its start) and
/// by which process (0 is the one that compares).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    pub at: u64,
    pub by: u8,
    pub op: Op,
}

/// Numbers from here on stand for the contents of ignore files.
pub const IGNORES: u32 = 1_000_000;

const IGNORE_TEXTS: [&str; 6] = [
    "*.o\nbuild/\n",
    "",
    "d\n",
    "*\n!f\n!*/\n",
    "/a/\n*.o\n",
    "g\nb/\n!b/g\n",
];

/// The text that number `n` stands for. Some numbers give texts of the same length, so
/// that only time and content tell a change.
pub fn text(n: u32) -> String {
    if n >= IGNORES {
        return IGNORE_TEXTS[(n - IGNORES) as usize % IGNORE_TEXTS.len()].to_owned();
    }
    let lines = n % 4 + 1;
    (0..lines)
        .map(|i| format!("{:05}\n", (n / 4 + i) % 100_000))
        .collect()
}
