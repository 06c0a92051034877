//! What git could see of a worktree in memory: the naive model the answers are held to.

use std::collections::{BTreeMap, HashSet};

use crate::backend::scripted::world::{Ino, Kind, Mode, Name, OPEN, TOP, World};

/// What there is at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which file, directory or symbolic link.
    pub ino: Ino,
    /// Whether it is a directory.
    pub is_dir: bool,
    pub version: u64,
    pub mode: Mode,
    /// Its permissions.
    /// Whether every directory above can be searched, and whether the one above can be
    /// listed.
    pub reach: (bool, bool),
    /// What `.git` in it is, with what is directly in that.
    pub git: Vec<(Name, Ino, u64, Mode)>,
}

impl Seen {
    /// The same without what is known of these files' contents and permissions.
    pub fn without(&self, excused: &HashSet<Ino>) -> Self {
        let mut seen = self.clone();
        if excused.contains(&seen.ino) {
            (seen.version, seen.mode) = (0, OPEN);
        }
        for (_, ino, version, mode) in &mut seen.git {
            if excused.contains(ino) {
                (*version, *mode) = (0, OPEN);
            }
        }
        seen
    }
}

/// Every path but the top's own, `.git`, and what is below any `.git`.
pub type Snapshot = BTreeMap<Vec<u8>, Seen>;

/// What there is now.
pub fn snapshot(world: &World) -> Snapshot {
    let mut found = Snapshot::new();
    below(world, TOP, b"", true, &mut found);
    found
}

fn below(world: &World, dir: Ino, path: &[u8], searched: bool, found: &mut Snapshot) {
    let mode = world.inodes[dir].mode;
    let reach = (searched && mode.search, mode.read);
    for (name, link) in world.names(dir) {
        if name == ".git" {
            continue;
        }
        let ino = world.links[link].ino;
        let mut path = path.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.as_bytes());
        if world.inodes[ino].is_dir() {
            below(world, ino, &path, reach.0, found);
        }
        let inode = &world.inodes[ino];
        let seen = Seen {
            ino,
            is_dir: inode.is_dir(),
            version: inode.version,
            mode: inode.mode,
            reach,
            git: git(world, ino),
        };
        found.insert(path, seen);
    }
}

fn git(world: &World, dir: Ino) -> Vec<(Name, Ino, u64, Mode)> {
    let state = |name, ino: Ino| (name, ino, world.inodes[ino].version, world.inodes[ino].mode);
    let Some(git) = world.lookup(dir, ".git") else {
        return Vec::new();
    };
    let inside = world
        .names(git)
        .map(|(name, link)| state(name, world.links[link].ino));
    std::iter::once(state(".git", git)).chain(inside).collect()
}

/// The paths of all directories that are to be watched, with their inodes, when
/// everything can be read: `.git` below the top is watched, but nothing in it.
pub fn directories(world: &World) -> BTreeMap<Vec<u8>, Ino> {
    let mut found = BTreeMap::from([(Vec::new(), TOP)]);
    let mut stack = vec![(Vec::new(), TOP)];
    while let Some((path, dir)) = stack.pop() {
        for (name, link) in world.names(dir) {
            let ino = world.links[link].ino;
            if !matches!(world.inodes[ino].kind, Kind::Dir(..)) || (dir == TOP && name == ".git") {
                continue;
            }
            let mut path: Vec<u8> = path.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            found.insert(path.clone(), ino);
            if name != ".git" {
                stack.push((path, ino));
            }
        }
    }
    found
}
