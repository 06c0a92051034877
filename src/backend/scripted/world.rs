//! A file system in memory: what there is, and what was told of it. What happens to it is
//! in [`super::calls`].

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::super::{WatchId, What};
use super::calls::Call;
use super::ops::{Entry, Op, Slot};

/// An inode's number: its place in [`World::inodes`].
pub type Ino = usize;
/// A name in a directory that outlives a rename (the kernel's dentry).
pub type LinkId = usize;
/// Names come from a fixed set.
pub type Name = &'static str;

/// Where the worktree's top is.
pub const TOP: Ino = 1;
/// A directory beside it.
pub const OUTSIDE: Ino = 2;

/// What may be done with a directory or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// It may be listed, and watched.
    pub read: bool,
    /// Names in it may be looked up.
    pub search: bool,
}

/// The usual.
pub const OPEN: Mode = Mode {
    read: true,
    search: true,
};

/// What an inode is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A directory: its names, and the directory above.
    Dir(BTreeMap<Name, LinkId>, Ino),
    /// A file.
    File,
    /// A symbolic link.
    Symlink,
}

/// See [`Ino`].
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Number of names; 0 for what was removed.
    pub links: u32,
    /// Changes with the content.
    pub version: u64,
    /// See [`Mode`].
    pub mode: Mode,
    /// The watch, if there is one.
    pub watch: Option<WatchId>,
}

impl Inode {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, Kind::Dir(..))
    }
}

/// See [`LinkId`].
pub struct Link {
    /// The directory and the name; `None` once removed.
    pub at: Option<(Ino, Name)>,
    /// What it names.
    pub ino: Ino,
    /// In which epoch the file was last written by this name.
    pub(super) written: u64,
    /// It was written in a directory that was not watched yet.
    pub(super) untold: bool,
}

/// An event in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// As in [`super::super::Event`].
    pub watch: WatchId,
    /// The same.
    pub what: What,
    /// The same.
    pub is_dir: bool,
    /// The same.
    pub name: Name,
    /// The same.
    pub cookie: u32,
}

/// See the module's text.
pub struct World {
    /// Every inode there ever was.
    pub inodes: Vec<Inode>,
    /// Every name there ever was.
    pub links: Vec<Link>,
    /// The events that were not read yet.
    pub queue: VecDeque<Queued>,
    /// So many may be in the queue.
    pub capacity: usize,
    /// Events were lost.
    pub overflowed: bool,
    /// So many directories may be watched.
    pub watch_limit: usize,
    /// The next watch's id.
    pub next_watch: WatchId,
    /// The path to the top leads elsewhere.
    pub hidden: bool,
    /// Files changed in a way that is documented as one nobody can tell.
    pub excused: HashSet<Ino>,
    /// Goes up with each answer.
    pub(super) epoch: u64,
    /// Operations that wait for a chance to begin.
    pub pending: VecDeque<Op>,
    /// What was done and told, if that is asked for.
    pub log: Option<Vec<String>>,
    pub(super) calls: Vec<Call>,
    pub(super) held: Vec<Ino>,
    pub(super) counter: u64,
    coins: u64,
}

impl World {
    /// A worktree with nothing in it but a git directory.
    pub fn new(coins: u64) -> Self {
        let mut world = Self {
            inodes: Vec::new(),
            links: Vec::new(),
            queue: VecDeque::new(),
            capacity: 16_384,
            overflowed: false,
            watch_limit: usize::MAX,
            next_watch: 1,
            hidden: false,
            excused: HashSet::new(),
            epoch: 1,
            pending: VecDeque::new(),
            log: None,
            calls: Vec::new(),
            held: Vec::new(),
            counter: 0,
            coins: coins | 1,
        };
        world.inode(Kind::Dir(BTreeMap::new(), 0));
        let top = world.inode(Kind::Dir(BTreeMap::new(), 0));
        let outside = world.inode(Kind::Dir(BTreeMap::new(), 0));
        world.enter_name(0, "tree", top);
        world.enter_name(0, "out", outside);
        let git = world.inode(Kind::Dir(BTreeMap::new(), TOP));
        world.enter_name(TOP, ".git", git);
        world
    }

    /// A number below `n`, by chance.
    pub fn chance(&mut self, n: usize) -> usize {
        self.coins ^= self.coins << 13;
        self.coins ^= self.coins >> 7;
        self.coins ^= self.coins << 17;
        (self.coins >> 33) as usize % n
    }

    /// Notes something for whoever reads the log.
    pub fn note(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.log.is_some() {
            let text = text(self);
            self.log.iter_mut().for_each(|log| log.push(text.clone()));
        }
    }

    /// The path of a name, from the root; for the log.
    pub(super) fn path(&self, link: LinkId) -> String {
        let Some((dir, name)) = self.links[link].at else {
            return "(gone)".to_owned();
        };
        format!("{}/{name}={}", self.dir_path(dir), self.links[link].ino)
    }

    pub(super) fn dir_path(&self, dir: Ino) -> String {
        let above = self
            .links
            .iter()
            .rposition(|l| l.ino == dir && l.at.is_some());
        above.map_or_else(|| String::from("(top)"), |link| self.path(link))
    }

    pub(super) fn inode(&mut self, kind: Kind) -> Ino {
        self.counter += 1;
        self.inodes.push(Inode {
            kind,
            links: 0,
            version: self.counter,
            mode: OPEN,
            watch: None,
        });
        self.inodes.len() - 1
    }

    /// The names in a directory; none for anything else.
    pub fn names(&self, dir: Ino) -> impl Iterator<Item = (Name, LinkId)> + '_ {
        let entries = match &self.inodes[dir].kind {
            Kind::Dir(entries, _) => Some(entries),
            _ => None,
        };
        entries
            .into_iter()
            .flatten()
            .map(|(name, link)| (*name, *link))
    }

    /// What a name in a directory stands for.
    pub fn lookup(&self, dir: Ino, name: &str) -> Option<Ino> {
        self.link_at(dir, name).map(|link| self.links[link].ino)
    }

    pub(super) fn link_at(&self, dir: Ino, name: &str) -> Option<LinkId> {
        match &self.inodes[dir].kind {
            Kind::Dir(entries, _) => entries.get(name).copied(),
            _ => None,
        }
    }

    pub(super) fn enter_name(&mut self, dir: Ino, name: Name, ino: Ino) -> LinkId {
        self.links.push(Link {
            at: None,
            ino,
            written: 0,
            untold: false,
        });
        let link = self.links.len() - 1;
        self.put(link, dir, name);
        self.inodes[ino].links += 1;
        link
    }

    pub(super) fn put(&mut self, link: LinkId, dir: Ino, name: Name) {
        self.links[link].at = Some((dir, name));
        if let Kind::Dir(entries, _) = &mut self.inodes[dir].kind {
            entries.insert(name, link);
        }
        let ino = self.links[link].ino;
        if let Kind::Dir(_, above) = &mut self.inodes[ino].kind {
            *above = dir;
        }
    }

    pub(super) fn take(&mut self, link: LinkId) {
        if let Some((dir, name)) = self.links[link].at.take()
            && let Kind::Dir(entries, _) = &mut self.inodes[dir].kind
        {
            entries.remove(name);
        }
    }

    /// A name is going away: if it was written since the last answer, in a directory that
    /// the tracker did not know yet, a change of the file's other names cannot be told.
    pub(super) fn excuse(&mut self, link: LinkId) {
        let found = &self.links[link];
        if found.written == self.epoch && found.untold {
            self.excused.insert(found.ino);
        }
    }

    /// A file is changed by a name that was removed, or that is in a git directory, in one
    /// that cannot be read, or outside the tree: its other names cannot be told.
    pub(super) fn excuse_change(&mut self, link: LinkId) {
        let at = self.links[link].at;
        self.links[link].untold |= at.is_some_and(|(dir, _)| self.inodes[dir].watch.is_none());
        if !self.is_in_sight(link) {
            self.excused.insert(self.links[link].ino);
        }
    }

    /// Whether what happens to a name can be told.
    pub(super) fn is_in_sight(&self, link: LinkId) -> bool {
        let mut at = self.links[link].at;
        let mut told = at.is_some();
        while let Some((dir, name)) = at.filter(|(dir, _)| *dir != 0) {
            told &= name != ".git" && dir != OUTSIDE && self.inodes[dir].mode == OPEN;
            at = self.links.iter().rfind(|l| l.ino == dir).and_then(|l| l.at);
        }
        told
    }

    pub(super) fn is_below(&self, above: Ino, mut at: Ino) -> bool {
        loop {
            if at == above {
                return true;
            }
            match self.inodes[at].kind {
                Kind::Dir(_, up) if at != 0 => at = up,
                _ => return false,
            }
        }
    }

    /// Every directory of the tree, without the top's git directory; with `outside`,
    /// also those beside it.
    pub fn dirs(&self, outside: bool) -> Vec<Ino> {
        let mut found = vec![TOP];
        if outside {
            found.push(OUTSIDE);
        }
        let mut at = 0;
        while at < found.len() {
            let dir = found[at];
            for (name, link) in self.names(dir) {
                let ino = self.links[link].ino;
                if self.inodes[ino].is_dir() && !(dir == TOP && name == ".git") {
                    found.push(ino);
                }
            }
            at += 1;
        }
        found
    }

    /// Every name of something that is not open to everything.
    pub fn closed(&self) -> Vec<LinkId> {
        let is_closed = |link: &Link| link.at.is_some() && self.inodes[link.ino].mode != OPEN;
        (0..self.links.len())
            .filter(|&link| is_closed(&self.links[link]))
            .collect()
    }

    pub(super) fn slot(&self, slot: &Slot) -> Option<(Ino, Name)> {
        match slot {
            Slot::Nth { dir, name, outside } => {
                let dirs = self.dirs(*outside);
                Some((dirs[*dir as usize % dirs.len()], name))
            }
            Slot::At(path) => {
                let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
                Some((self.find(above)?, name))
            }
        }
    }

    pub(super) fn entry(&self, entry: &Entry) -> Option<LinkId> {
        match entry {
            Entry::Nth { nth, outside } => {
                let all: Vec<LinkId> = self
                    .dirs(*outside)
                    .into_iter()
                    .flat_map(|dir| self.names(dir).map(|(_, link)| link))
                    .collect();
                (!all.is_empty()).then(|| all[*nth as usize % all.len()])
            }
            Entry::Link(link) => Some(*link),
            Entry::At(path) => {
                let (dir, name) = self.slot(&Slot::At(path))?;
                self.link_at(dir, name)
            }
        }
    }

    /// The inode at a path: below the top, or below the root if it begins with a slash.
    pub fn find(&self, path: &str) -> Option<Ino> {
        let start = if path.starts_with('/') { 0 } else { TOP };
        path.split('/')
            .filter(|part| !part.is_empty())
            .try_fold(start, |at, part| self.lookup(at, part))
    }
}
