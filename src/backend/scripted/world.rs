//! A file system in memory that tells of its changes as Linux does by inotify.
//!
//! The rules are those of inotify(7) and of the kernel's `fs/namei.c` and
//! `fs/notify` (Linux 6.x): a change is seen by lookups *before* its events are queued,
//! and the events of one call may be queued with other processes' events between them, as
//! long as the locks of the directories allow it. A call is therefore kept as a row of
//! [`Step`]s, which [`World::step`] takes one at a time.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::super::{WatchId, What};
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
    /// In which epoch the name was made, and in which the file was last written by it.
    made: u64,
    written: u64,
    /// It was written in a directory that was not watched yet.
    untold: bool,
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

/// What a call still has to do.
#[derive(Clone, Debug)]
enum Step {
    /// Queue an event about a name in a directory.
    Tell(Ino, What, bool, Name, u32),
    /// Queue an event about a name wherever it is now; none if it was removed
    /// (IN_EXCL_UNLINK).
    TellLink(LinkId, What),
    /// Queue an event of the directory's own watch.
    TellSelf(Ino, What),
    /// Change the content of the file behind a name.
    Change(LinkId),
    /// The last user of a removed directory is gone, and with it the watch.
    Gone(Ino),
    /// Let go of the locks.
    Unlock,
}

struct Call {
    locks: [Ino; 2],
    steps: VecDeque<Step>,
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
    epoch: u64,
    /// Operations that wait for a chance to begin.
    pub pending: VecDeque<Op>,
    /// What was done and told, if that is asked for.
    pub log: Option<Vec<String>>,
    calls: Vec<Call>,
    held: Vec<Ino>,
    counter: u64,
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
    fn path(&self, link: LinkId) -> String {
        let Some((dir, name)) = self.links[link].at else {
            return "(gone)".to_owned();
        };
        format!("{}/{name}={}", self.dir_path(dir), self.links[link].ino)
    }

    fn dir_path(&self, dir: Ino) -> String {
        let above = self
            .links
            .iter()
            .rposition(|l| l.ino == dir && l.at.is_some());
        above.map_or_else(|| String::from("(top)"), |link| self.path(link))
    }

    fn inode(&mut self, kind: Kind) -> Ino {
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

    fn link_at(&self, dir: Ino, name: &str) -> Option<LinkId> {
        match &self.inodes[dir].kind {
            Kind::Dir(entries, _) => entries.get(name).copied(),
            _ => None,
        }
    }

    fn enter_name(&mut self, dir: Ino, name: Name, ino: Ino) -> LinkId {
        self.links.push(Link {
            at: None,
            ino,
            made: self.epoch,
            written: 0,
            untold: false,
        });
        let link = self.links.len() - 1;
        self.put(link, dir, name);
        self.inodes[ino].links += 1;
        link
    }

    fn put(&mut self, link: LinkId, dir: Ino, name: Name) {
        self.links[link].at = Some((dir, name));
        if let Kind::Dir(entries, _) = &mut self.inodes[dir].kind {
            entries.insert(name, link);
        }
        let ino = self.links[link].ino;
        if let Kind::Dir(_, above) = &mut self.inodes[ino].kind {
            *above = dir;
        }
    }

    fn take(&mut self, link: LinkId) {
        if let Some((dir, name)) = self.links[link].at.take()
            && let Kind::Dir(entries, _) = &mut self.inodes[dir].kind
        {
            entries.remove(name);
        }
    }

    /// A name is going away: if it was made and written since the last answer, or written
    /// in a directory that the tracker did not know yet, a change of the file's other names cannot be told ([`crate::watcher::links`] says so).
    fn excuse(&mut self, link: LinkId) {
        let (found, epoch) = (&self.links[link], self.epoch);
        if found.written == epoch && (found.made == epoch || found.untold) {
            self.excused.insert(found.ino);
        }
    }

    /// A file is changed by a name that was removed, or that is in a git directory, in one
    /// that cannot be read, or outside the tree: its other names cannot be told.
    fn excuse_change(&mut self, link: LinkId) {
        let at = self.links[link].at;
        self.links[link].untold |= at.is_some_and(|(dir, _)| self.inodes[dir].watch.is_none());
        if !self.is_in_sight(link) {
            self.excused.insert(self.links[link].ino);
        }
    }

    /// Whether what happens to a name can be told.
    fn is_in_sight(&self, link: LinkId) -> bool {
        let mut at = self.links[link].at;
        let mut told = at.is_some();
        while let Some((dir, name)) = at.filter(|(dir, _)| *dir != 0) {
            told &= name != ".git" && dir != OUTSIDE && self.inodes[dir].mode == OPEN;
            at = self.links.iter().rfind(|l| l.ino == dir).and_then(|l| l.at);
        }
        told
    }

    fn is_below(&self, above: Ino, mut at: Ino) -> bool {
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

    fn slot(&self, slot: &Slot) -> Option<(Ino, Name)> {
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

    fn entry(&self, entry: &Entry) -> Option<LinkId> {
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

    /// Takes one step: of a call under way, or the first of the next operation. `false`
    /// if there is none.
    pub fn step(&mut self) -> bool {
        let begins = self.calls.is_empty() || self.chance(2) == 0;
        if begins && let Some(op) = self.pending.pop_front() {
            if self.begin(&op) {
                return true;
            }
            self.pending.push_front(op);
        }
        if self.calls.is_empty() {
            return false;
        }
        let which = self.chance(self.calls.len());
        self.proceed(which);
        true
    }

    /// Whether a call is under way: done, but not all told.
    pub fn is_under_way(&self) -> bool {
        !self.calls.is_empty()
    }

    /// An answer is about to be given. A look at a file's link count can have gone wrong
    /// unnoticed if a rename was done, but not told yet, within the same call: nobody
    /// promises more.
    pub fn settled(&mut self) {
        let renames = |step: &Step| matches!(step, Step::Tell(_, What::MovedTo, ..));
        if self.calls.iter().any(|call| call.steps.iter().any(renames)) {
            let written = |link: &&Link| link.written + 1 >= self.epoch;
            let files = self.links.iter().filter(written).map(|link| link.ino);
            self.excused.extend(files);
        }
    }

    /// An answer was given: a new epoch begins.
    pub fn answered(&mut self) {
        self.epoch += 1;
        // What was made but not told yet counts as made after it.
        let steps = self.calls.iter().flat_map(|call| &call.steps);
        let untold: Vec<LinkId> = steps
            .filter_map(|step| match step {
                Step::Tell(dir, What::Created, _, name, _) => self.link_at(*dir, name),
                _ => None,
            })
            .collect();
        for link in untold {
            self.links[link].made = self.epoch;
        }
        // A file whose last write was told too late to be looked at is still a new one.
        for link in &mut self.links {
            if link.made + 1 == self.epoch && link.written == link.made {
                link.made = self.epoch;
            }
        }
    }

    /// What is being renamed: done, but not all told.
    pub fn moving(&self) -> Vec<Ino> {
        let steps = self.calls.iter().flat_map(|call| &call.steps);
        steps
            .filter_map(|step| match step {
                Step::Tell(dir, What::MovedTo, _, name, _) => self.lookup(*dir, name),
                _ => None,
            })
            .collect()
    }

    /// Lets every call under way end.
    pub fn finish_calls(&mut self) {
        while !self.calls.is_empty() {
            self.proceed(0);
        }
    }

    /// Does an operation from its begin to its end.
    pub fn run(&mut self, op: &Op) {
        self.finish_calls();
        while !self.begin(op) {}
        self.finish_calls();
        // What is done in several calls has put its rest there.
        while self
            .pending
            .front()
            .is_some_and(|op| matches!(op, Op::RemoveRest(_)))
        {
            let Some(rest) = self.pending.pop_front() else {
                break;
            };
            self.begin(&rest);
            self.finish_calls();
        }
    }

    fn proceed(&mut self, which: usize) {
        let Some(step) = self.calls[which].steps.pop_front() else {
            self.calls.swap_remove(which);
            return;
        };
        match step {
            Step::Tell(dir, what, is_dir, name, cookie) => {
                if let Some(watch) = self.inodes[dir].watch {
                    self.queue_event(watch, what, is_dir, name, cookie);
                }
            }
            Step::TellLink(link, what) => {
                if let Some((dir, name)) = self.links[link].at {
                    let is_dir = self.inodes[self.links[link].ino].is_dir();
                    if let Some(watch) = self.inodes[dir].watch {
                        self.queue_event(watch, what, is_dir, name, 0);
                    }
                }
                self.excuse_change(link);
            }
            Step::TellSelf(ino, what) => {
                if let Some(watch) = self.inodes[ino].watch {
                    self.queue_event(watch, what, true, "", 0);
                }
            }
            Step::Change(link) => {
                let ino = self.links[link].ino;
                self.counter += 1;
                self.inodes[ino].version = self.counter;
                self.links[link].written = self.epoch;
                self.note(|w| format!("      content of {} changes", w.path(link)));
                self.excuse_change(link);
            }
            Step::Gone(ino) => {
                if let Some(watch) = self.inodes[ino].watch.take() {
                    self.queue_event(watch, What::WatchGone, false, "", 0);
                }
            }
            Step::Unlock => self.calls[which].locks = [usize::MAX; 2],
        }
    }

    /// Queues an event as the kernel does: not twice the same in a row, and none after
    /// the queue was full until there is room.
    pub fn queue_event(
        &mut self,
        watch: WatchId,
        what: What,
        is_dir: bool,
        name: Name,
        cookie: u32,
    ) {
        let event = Queued {
            watch,
            what,
            is_dir,
            name,
            cookie,
        };
        if self.queue.back() == Some(&event) {
            return;
        }
        self.note(|_| format!("      queued {watch} {what:?} {name} {cookie}"));
        if self.queue.len() >= self.capacity {
            self.overflowed = true;
        } else {
            self.queue.push_back(event);
        }
    }

    fn is_locked(&self, dirs: [Ino; 2]) -> bool {
        // One rename from directory to directory at a time (s_vfs_rename_mutex).
        let crosses = |[a, b]: [Ino; 2]| a != b && b != usize::MAX;
        self.calls.iter().any(|call| {
            call.locks
                .iter()
                .any(|lock| *lock != usize::MAX && dirs.contains(lock))
                || crosses(call.locks) && crosses(dirs)
        })
    }

    fn call(&mut self, locks: [Ino; 2], steps: impl IntoIterator<Item = Step>) {
        self.calls.push(Call {
            locks,
            steps: steps.into_iter().collect(),
        });
    }

    /// Begins an operation; `false` if a directory is locked. One that cannot be done
    /// (a name that is taken, a directory that is not empty) is passed over.
    fn begin(&mut self, op: &Op) -> bool {
        const UNLOCKED: usize = usize::MAX;
        match op {
            Op::Mkdir(slot) | Op::Symlink(slot) => {
                let Some((dir, name)) = self.slot(slot) else {
                    return true;
                };
                if self.is_locked([dir, UNLOCKED]) {
                    return false;
                }
                if self.lookup(dir, name).is_none() {
                    let is_dir = matches!(op, Op::Mkdir(_));
                    let kind = if is_dir {
                        Kind::Dir(BTreeMap::new(), dir)
                    } else {
                        Kind::Symlink
                    };
                    let ino = self.inode(kind);
                    self.enter_name(dir, name, ino);
                    self.note(|w| format!("  mkdir/symlink {}/{name}={ino}", w.dir_path(dir)));
                    let told = Step::Tell(dir, What::Created, is_dir, name, 0);
                    self.call([dir, UNLOCKED], [told, Step::Unlock]);
                }
            }
            Op::Write(slot) => {
                let Some((dir, name)) = self.slot(slot) else {
                    return true;
                };
                if self.is_locked([dir, UNLOCKED]) {
                    return false;
                }
                let mut steps = Vec::new();
                let link = match self.link_at(dir, name) {
                    Some(link) => link,
                    None => {
                        let ino = self.inode(Kind::File);
                        steps.push(Step::Tell(dir, What::Created, false, name, 0));
                        self.enter_name(dir, name, ino)
                    }
                };
                if matches!(self.inodes[self.links[link].ino].kind, Kind::File) {
                    self.note(|w| format!("  write {}", w.path(link)));
                    // IN_MODIFY and IN_CLOSE_WRITE.
                    steps.extend([Step::Unlock, Step::Change(link)]);
                    steps.extend([What::Written; 2].map(|what| Step::TellLink(link, what)));
                    self.call([dir, UNLOCKED], steps);
                }
            }
            Op::Remove(entry, held) => {
                let Some(link) = self.entry(entry) else {
                    return true;
                };
                return self.remove(link, *held);
            }
            Op::RemoveAll(entry) => {
                if let Some(link) = self.entry(entry) {
                    self.pending.push_front(Op::RemoveRest(link));
                }
            }
            Op::RemoveRest(link) => {
                let mut deepest = *link;
                while let Some((_, below)) = self.names(self.links[deepest].ino).next() {
                    deepest = below;
                }
                if !self.remove(deepest, false) {
                    return false;
                }
                if deepest != *link {
                    self.pending.push_front(Op::RemoveRest(*link));
                }
            }
            Op::Rename(entry, slot) => return self.rename(entry, slot, false),
            Op::Exchange(entry, slot) => return self.rename(entry, slot, true),
            Op::Link(entry, slot) => {
                let (Some(link), Some((dir, name))) = (self.entry(entry), self.slot(slot)) else {
                    return true;
                };
                if self.is_locked([dir, UNLOCKED]) {
                    return false;
                }
                let ino = self.links[link].ino;
                if !self.inodes[ino].is_dir() && self.lookup(dir, name).is_none() {
                    self.enter_name(dir, name, ino);
                    self.note(|w| format!("  link {}/{name}={ino}", w.dir_path(dir)));
                    let told = Step::Tell(dir, What::Created, false, name, 0);
                    self.call([dir, UNLOCKED], [told, Step::Unlock]);
                }
            }
            Op::Chmod(entry, mode) => {
                if let Some(link) = self.entry(entry) {
                    let ino = self.links[link].ino;
                    self.inodes[ino].mode = *mode;
                    self.note(|w| format!("  chmod {} {mode:?}", w.path(link)));
                    self.links[link].written = self.epoch;
                    self.excuse_change(link);
                    let mut steps = vec![Step::TellLink(link, What::Attributes)];
                    if self.inodes[ino].is_dir() {
                        steps.push(Step::TellSelf(ino, What::Attributes));
                    }
                    self.call([UNLOCKED; 2], steps);
                }
            }
            Op::ChmodTop(mode) => {
                self.inodes[TOP].mode = *mode;
                self.call([UNLOCKED; 2], [Step::TellSelf(TOP, What::Attributes)]);
            }
            Op::Release => {
                let held = std::mem::take(&mut self.held);
                self.call([UNLOCKED; 2], held.into_iter().map(Step::Gone));
            }
            Op::Hide(hidden) => {
                self.hidden = *hidden;
                self.call([UNLOCKED; 2], [Step::TellSelf(TOP, What::SelfMoved)]);
            }
        }
        true
    }

    fn remove(&mut self, link: LinkId, held: bool) -> bool {
        let Some((dir, name)) = self.links[link].at else {
            return true;
        };
        if self.is_locked([dir, usize::MAX]) {
            return false;
        }
        let ino = self.links[link].ino;
        if self.is_locked([ino, usize::MAX]) {
            // rmdir(2) waits for whoever is at work in the directory.
            return false;
        }
        if self.names(ino).next().is_some() {
            return true;
        }
        let is_dir = self.inodes[ino].is_dir();
        self.note(|w| format!("  remove {} held {held}", w.path(link)));
        self.excuse(link);
        self.take(link);
        self.inodes[ino].links -= 1;
        let mut steps = vec![Step::Tell(dir, What::Deleted, is_dir, name, 0)];
        if is_dir && held {
            self.held.push(ino);
        } else if is_dir {
            // Which comes first depends on whether the kernel still has a use for it.
            let at = self.chance(2);
            steps.insert(at, Step::Gone(ino));
        }
        steps.push(Step::Unlock);
        self.call([dir, usize::MAX], steps);
        true
    }

    fn rename(&mut self, entry: &Entry, slot: &Slot, exchange: bool) -> bool {
        let (Some(from), Some((dir, name))) = (self.entry(entry), self.slot(slot)) else {
            return true;
        };
        let Some((old_dir, old_name)) = self.links[from].at else {
            return true;
        };
        let locks = [old_dir, dir];
        if self.is_locked(locks) {
            return false;
        }
        let ino = self.links[from].ino;
        let is_dir = self.inodes[ino].is_dir();
        if is_dir && self.is_below(ino, dir) {
            return true;
        }
        let over = self.link_at(dir, name);
        let over_ino = over.map(|link| self.links[link].ino);
        let over_is_dir = over_ino.is_some_and(|ino| self.inodes[ino].is_dir());
        if over_ino == Some(ino) {
            return true;
        }
        if self.is_locked([over_ino.unwrap_or(usize::MAX), usize::MAX]) {
            return false;
        }
        self.counter += 2;
        let cookie = self.counter as u32;
        let mut steps = vec![
            Step::Tell(old_dir, What::MovedFrom, is_dir, old_name, cookie),
            Step::Tell(dir, What::MovedTo, is_dir, name, cookie),
        ];
        if exchange {
            let (Some(over), Some(over_ino)) = (over, over_ino) else {
                return true;
            };
            if over_is_dir && self.is_below(over_ino, old_dir) {
                return true;
            }
            self.note(|w| format!("  exchange {} {}", w.path(from), w.path(over)));
            self.take(from);
            self.take(over);
            self.put(from, dir, name);
            self.put(over, old_dir, old_name);
            for link in [from, over] {
                if !self.inodes[self.links[link].ino].is_dir() && !self.is_in_sight(link) {
                    self.excuse(link);
                }
            }
            steps.extend([
                Step::Tell(dir, What::MovedFrom, over_is_dir, name, cookie + 1),
                Step::Tell(old_dir, What::MovedTo, over_is_dir, old_name, cookie + 1),
            ]);
        } else {
            if let (Some(over), Some(over_ino)) = (over, over_ino) {
                if is_dir != over_is_dir || self.names(over_ino).next().is_some() {
                    return true;
                }
                self.excuse(over);
                self.take(over);
                self.inodes[over_ino].links -= 1;
                if over_is_dir {
                    steps.push(Step::Gone(over_ino));
                }
            }
            self.note(|w| format!("  rename {} {}/{name}", w.path(from), w.dir_path(dir)));
            self.take(from);
            self.put(from, dir, name);
            if !is_dir && !self.is_in_sight(from) {
                self.excuse(from);
            }
        }
        steps.push(Step::Unlock);
        self.call(locks, steps);
        true
    }
}
