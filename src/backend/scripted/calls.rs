//! What can happen to the file system in memory, step by step, and how it is told.
//!
//! The rules are those of inotify(7) and of the kernel's `fs/namei.c` and `fs/notify`
//! (Linux 6.x): a change is seen by lookups *before* its events are queued, and the events
//! of one call may be queued with other processes' events between them, as long as the
//! locks of the directories allow it. A call is therefore kept as a row of steps, which
//! [`World::step`] takes one at a time.

use std::collections::{BTreeMap, VecDeque};

use super::super::{WatchId, What};
use super::ops::{Entry, Op, Slot};
use super::world::{Ino, Kind, Link, LinkId, Name, Queued, TOP, World};

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

pub(super) struct Call {
    locks: [Ino; 2],
    steps: VecDeque<Step>,
}

impl World {
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
                    steps.extend(
                        [What::Written, What::Closed].map(|what| Step::TellLink(link, what)),
                    );
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
