//! What lies on the disk: for the generator, which picks from it; for the check of the
//! hook's answer, which compares two such pictures; and for the `ideal` hook.

use crate::ops::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;

/// What the generator can pick from. All paths relative to the base, sorted.
#[derive(Default, Debug)]
pub struct View {
    /// Directories below `t`, without `t` itself.
    pub dirs: Vec<Bytes>,
    pub files: Vec<Bytes>,
    /// Symlinks, fifos and the like.
    pub others: Vec<Bytes>,
    /// `.git` (directory or file) of repositories and worktrees below `t/`.
    pub nested: Vec<Bytes>,
    pub out_dirs: Vec<Bytes>,
    pub out_files: Vec<Bytes>,
    /// Directories an ordinary user cannot fully use.
    pub closed: Vec<Bytes>,
}

impl View {
    pub fn of(base: &Path) -> Self {
        let mut view = Self::default();
        view.walk(base, &Bytes::of("t"), true);
        view.walk(base, &Bytes::of("out"), false);
        view
    }

    fn walk(&mut self, base: &Path, dir: &Bytes, inside: bool) {
        let Ok(entries) = fs::read_dir(dir.at(base)) else {
            return;
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let path = dir.join(name.as_bytes());
            if name == ".git" {
                if inside && dir.0 != b"t" {
                    self.nested.push(path);
                }
                continue;
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                if entry.metadata().is_ok_and(|m| m.mode() & 0o700 != 0o700) {
                    self.closed.push(path.clone());
                }
                if inside {
                    self.dirs.push(path.clone());
                } else {
                    self.out_dirs.push(path.clone());
                }
                self.walk(base, &path, inside);
            } else if !inside {
                self.out_files.push(path);
            } else if kind.is_file() {
                self.files.push(path);
            } else {
                self.others.push(path);
            }
        }
    }
}

/// What tells one state of a path from another. Not the change time: it also moves when
/// another name of the same file comes or goes, which is no change of this path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub ino: u64,
    pub mode: u32,
    pub size: u64,
    pub mtime: (i64, i64),
}

/// A picture of the worktree: every path that is not a directory, relative to the top,
/// nothing at or below a `.git`; and the directories with their modes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub files: Vec<(Bytes, Mark)>,
    pub dirs: Vec<Dir>,
}

/// A directory in a picture.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Dir {
    pub path: Bytes,
    ino: u64,
    mode: u32,
    /// What git takes for a repository depends on which of these are there.
    repository: [bool; 4],
}

impl Dir {
    /// Can its names not be listed, or not be looked up?
    pub fn is_closed(&self) -> bool {
        self.mode & 0o500 != 0o500
    }
}

impl Picture {
    pub fn of(top: &Path) -> Self {
        let mut picture = Self::default();
        picture.walk(top, &Bytes::default());
        picture.files.sort_by(|a, b| a.0.cmp(&b.0));
        picture.dirs.sort();
        picture
    }

    fn walk(&mut self, top: &Path, dir: &Bytes) {
        let Ok(entries) = fs::read_dir(dir.at(top)) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == ".git" {
                continue;
            }
            let path = if dir.0.is_empty() {
                Bytes(name.as_bytes().to_vec())
            } else {
                dir.join(name.as_bytes())
            };
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                let real = path.at(top);
                let signs = [".git", ".git/HEAD", ".git/objects", ".git/refs"];
                self.dirs.push(Dir {
                    path: path.clone(),
                    ino: entry.ino(),
                    mode: meta.mode(),
                    repository: signs.map(|sign| real.join(sign).symlink_metadata().is_ok()),
                });
                self.walk(top, &path);
            } else {
                let mark = Mark {
                    ino: meta.ino(),
                    mode: meta.mode(),
                    size: meta.size(),
                    mtime: (meta.mtime(), meta.mtime_nsec()),
                };
                self.files.push((path, mark));
            }
        }
    }

    /// Was `path` a directory that could not be read and searched, or below one?
    pub fn hidden(&self, path: &Bytes) -> bool {
        self.dirs
            .iter()
            .any(|dir| dir.is_closed() && path.within(&dir.path))
    }

    /// Paths that are not directories and differ from `old`: those that are there now
    /// (new or changed), and those that are gone.
    pub fn since(&self, old: &Self) -> (Vec<Bytes>, Vec<Bytes>) {
        let before: BTreeMap<_, _> = old.files.iter().map(|(p, m)| (p, m)).collect();
        let now: BTreeMap<_, _> = self.files.iter().map(|(p, m)| (p, m)).collect();
        let there = now
            .iter()
            .filter(|(path, mark)| before.get(*path) != Some(mark))
            .map(|(path, _)| (*path).clone())
            .collect();
        let gone = before
            .keys()
            .filter(|path| !now.contains_key(*path))
            .map(|path| (*path).clone())
            .collect();
        (there, gone)
    }

    /// What an answer since `old` lacks: a path that is there and differs must be named
    /// itself; for a path that is gone a directory above it will do, because git rechecks
    /// every index entry below a path that is named.
    pub fn lacking(&self, old: &Self, answer: &[Bytes]) -> Vec<Bytes> {
        let (there, gone) = self.since(old);
        let mut named: Vec<Bytes> = answer.to_vec();
        for path in &mut named {
            if path.0.last() == Some(&b'/') {
                path.0.pop();
            }
        }
        named.sort();
        let has = |path: &Bytes| named.binary_search(path).is_ok();
        let mut lacking: Vec<Bytes> = there
            .into_iter()
            .filter(|path| !has(path) && !old.hidden(path))
            .collect();
        lacking.extend(gone.into_iter().filter(|path| {
            let mut above = path.clone();
            while !above.0.is_empty() {
                if has(&above) {
                    return false;
                }
                above = above.parent();
            }
            !self.hidden(path)
        }));
        lacking
    }
}
