//! Files with more than one name. Pure; the tracker does the looking.
//!
//! A write through one hard link is told for that name only, but it changes what git
//! sees under every other name. So each file that was written is looked at once: if its
//! link count is above one, some path changed that nobody knows, and the journal must say
//! "everything".
//!
//! The look comes a little after the write, and the name may lead to another file by then:
//! the file was removed or replaced, or a directory above it was renamed. So a look only
//! counts once the whole queue was read after it and says nothing of the kind. A file that
//! is gone could have been a second name as well, also one that was made since the last
//! look: to the kernel, making a file and making a link are the same. So that counts as
//! unsure. The one exception is a file that was made, opened for writing and removed, and
//! that nothing else is told of: such files are made to try a directory out. A write
//! through mmap, which is told by nothing but the closing (inotify(7)), hides behind this
//! if it goes through a link that is made for it and removed within an instant.
//!
//! The name may belong to another file by now, while somebody still writes to the one that
//! had it. Then the file that is found has not changed since before the event.
//!
//! A file found to have one name only is remembered until the next answer: it can be
//! written and removed without a look in between (a database's journal). Whatever link is
//! made of it meanwhile is a name that is new since the last answer, and named in the next.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::tree::NodeId;
use crate::backend::{Inode, Time};

/// A file can have changed so long before the event that tells of it, in nanoseconds: a
/// write sets the time when it begins and is told when it is done, and the kernel makes it
/// wait up to 200 ms where the disk is slow (balance_dirty_pages, MAX_PAUSE).
const SLACK: Time = 250_000_000;

/// Some file systems know whole seconds only, or two of them at a time (vfat, ext4 with
/// small inodes).
const SECOND: Time = 1_000_000_000;

/// So many files of one name are remembered.
const SINGLES_MAX: usize = 256;

/// A file: its directory and its name.
type Key = (NodeId, SmallVec<[u8; 20]>);

#[derive(Clone, Copy, Default)]
struct Seen {
    created: bool,
    /// Its content changed.
    written: bool,
    /// Its attributes changed.
    attributes: bool,
    /// When that was, at the earliest.
    since: Time,
    /// It was open for writing.
    opened: bool,
    /// It is to be looked at, as the n-th; 0 if not.
    due: u32,
    /// It was not there when it was looked at, and nothing has said why.
    absent: bool,
    /// It was looked at, by this name or by one before.
    old: bool,
    /// It may have left this name again.
    doubtful: bool,
    /// It had one name when it was last looked at; that look does not count yet.
    alone: bool,
    /// It had one name at some time since the last answer.
    single: bool,
}

impl Seen {
    /// Whether its content or its attributes changed, or a writer closed it.
    fn touched(self) -> bool {
        self.written || self.attributes || self.opened
    }

    /// Whether what was told of this name may have happened to another file than `found`.
    fn is_about_another(self, found: Inode) -> bool {
        let coarse = if found.changed % SECOND == 0 {
            2 * SECOND
        } else {
            SLACK
        };
        (self.written || self.attributes) && found.changed < self.since.saturating_sub(coarse)
    }

    fn could_hide_a_name(self) -> bool {
        let tried_out = self.created && self.opened;
        let changed = self.written || self.attributes || !tried_out;
        self.touched() && changed && !self.single
    }
}

/// Files written since the last answer. See the module's text.
#[derive(Default)]
pub struct Links {
    seen: HashMap<Key, Seen>,
    /// So many are to be looked at; some may have gone from `seen` since.
    due: u32,
    in_flight: HashMap<u32, Seen>,
    /// What is told now happened after this.
    now_since: Time,
    /// The cookie of the last file that left.
    last_left: u32,
    /// One that was looked at has to be looked at again: that look told nothing.
    pressing: bool,
    unsure: bool,
}

impl Links {
    /// The file appeared.
    pub fn created(&mut self, dir: NodeId, name: &[u8]) {
        let seen = self.look_at(dir, name);
        seen.created = true;
        seen.alone = false;
        seen.single = false;
    }

    /// What is told from now on happened after `time`.
    pub fn happened_after(&mut self, time: Time) {
        self.now_since = time;
    }

    /// The file's content changed.
    pub fn written(&mut self, dir: NodeId, name: &[u8]) {
        self.changed(dir, name).written = true;
    }

    /// A writer closed the file.
    pub fn closed(&mut self, dir: NodeId, name: &[u8]) {
        self.changed(dir, name).opened = true;
    }

    /// The file's attributes changed.
    pub fn touched(&mut self, dir: NodeId, name: &[u8]) {
        self.changed(dir, name).attributes = true;
    }

    fn changed(&mut self, dir: NodeId, name: &[u8]) -> &mut Seen {
        let since = self.now_since;
        let seen = self.look_at(dir, name);
        if !seen.touched() {
            seen.since = since;
        }
        seen.doubtful = false;
        seen
    }

    fn look_at(&mut self, dir: NodeId, name: &[u8]) -> &mut Seen {
        let key = (dir, SmallVec::from_slice(name));
        let seen = self.seen.entry(key).or_default();
        self.pressing |= seen.absent;
        if seen.due == 0 {
            self.due = self.due.saturating_add(1);
            seen.due = self.due;
        }
        seen
    }

    /// The name was removed.
    pub fn deleted(&mut self, dir: NodeId, name: &[u8]) {
        if self.take(dir, name).could_hide_a_name() {
            self.unsure = true;
        }
    }

    /// The file left under this name. Cookie 0: nobody will tell where it went.
    pub fn moved_from(&mut self, dir: NodeId, name: &[u8], cookie: u32) {
        self.last_left = cookie;
        let seen = self.take(dir, name);
        if seen.touched() && cookie != 0 {
            self.in_flight.insert(cookie, seen);
        } else if seen.could_hide_a_name() {
            self.unsure = true;
        }
        if seen.touched() {
            // If the two were exchanged, it was the other file that left: the events are
            // the same as for a rename there and back (renameat2(2), RENAME_EXCHANGE).
            self.arrive(dir, name, seen, true);
        }
    }

    /// The file came to this name, perhaps over another.
    pub fn moved_to(&mut self, dir: NodeId, name: &[u8], cookie: u32) {
        self.deleted(dir, name);
        if let Some(seen) = self.in_flight.remove(&cookie) {
            self.arrive(dir, name, seen, false);
        } else if cookie != self.last_left {
            // From where nobody watches, or not yet: it may have been written there, under
            // one of several names.
            self.written(dir, name);
        }
    }

    fn arrive(&mut self, dir: NodeId, name: &[u8], seen: Seen, doubtful: bool) {
        let key: Key = (dir, SmallVec::from_slice(name));
        self.due = self.due.saturating_add(1);
        self.pressing |= seen.old;
        let arrived = Seen {
            due: self.due,
            absent: false,
            alone: false,
            single: false,
            doubtful,
            ..seen
        };
        self.seen.insert(key, arrived);
    }

    /// Directories were renamed or replaced: looks may have gone to other files.
    pub fn look_again(&mut self) {
        for seen in self.seen.values_mut() {
            seen.alone = false;
            if seen.touched() && seen.due == 0 {
                self.due = self.due.saturating_add(1);
                seen.due = self.due;
            }
        }
    }

    /// Whether there is nothing to look at and nothing to report.
    pub fn is_empty(&self) -> bool {
        self.due == 0 && !self.unsure
    }

    /// Whether every file there is to look at was written after the last look.
    pub fn can_wait(&self) -> bool {
        !self.unsure && !self.pressing
    }

    /// Looks at each file that was made or written: `find` gives its inode, `None` if it
    /// is not there. `true` if a path may have changed that no event named.
    pub fn check(&mut self, find: &mut dyn FnMut(NodeId, &[u8]) -> Option<Inode>) -> bool {
        self.pressing = false;
        let mut unsure = std::mem::take(&mut self.unsure);
        for seen in self.in_flight.values_mut() {
            seen.old = true;
        }
        self.due = 0;
        let all = self.seen.iter_mut();
        let mut due: Vec<(&Key, &mut Seen)> = all.filter(|(_, seen)| seen.due > 0).collect();
        // One directory after the other: that is cheaper for whoever looks.
        due.sort_unstable_by_key(|(key, seen)| (key.0, seen.due));
        let mut several: Vec<Key> = Vec::new();
        for (key, seen) in due {
            seen.due = 0;
            seen.old = true;
            let found = find(key.0, &key.1);
            seen.absent = found.is_none() && !seen.doubtful && seen.touched();
            seen.alone = found.is_some_and(|found| found.links == 1) && !seen.doubtful;
            let elsewhere = |found: Inode| found.links > 1 || seen.is_about_another(found);
            if found.is_some_and(elsewhere) && seen.touched() {
                unsure = true;
                several.push(key.clone());
            }
        }
        for key in several {
            self.seen.remove(&key);
        }
        unsure
    }

    /// The whole queue was read after the last look, so that what was seen then stands.
    /// `true` if a path may have changed that no event named. What came in by that last
    /// reading is kept. `is_alive` tells whether a directory is still in the tree; the ids
    /// of others may be given anew after this.
    pub fn settle(&mut self, is_alive: impl Fn(NodeId) -> bool) -> bool {
        let mut unsure = self.in_flight.values().any(|seen| seen.could_hide_a_name());
        let mut singles = 0;
        self.seen.retain(|key, seen| {
            if seen.due > 0 {
                return true;
            }
            unsure |= seen.absent;
            let single = (seen.alone || seen.single && !seen.touched()) && is_alive(key.0);
            *seen = Seen {
                single: true,
                ..Seen::default()
            };
            singles += usize::from(single);
            single && singles <= SINGLES_MAX
        });
        self.in_flight.clear();
        if self.seen.capacity() > 1024 {
            self.seen.shrink_to(1024);
        }
        unsure
    }

    /// An answer was given: what was seen before it proves nothing about changes after it.
    pub fn answered(&mut self) {
        self.seen.retain(|_, seen| {
            seen.alone = false;
            seen.single = false;
            seen.due > 0
        });
    }

    fn take(&mut self, dir: NodeId, name: &[u8]) -> Seen {
        // Most files that go were not written a moment before.
        if self.seen.is_empty() {
            return Seen::default();
        }
        self.seen
            .remove(&(dir, SmallVec::from_slice(name)))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(links: u64) -> Inode {
        Inode {
            is_dir: false,
            links,
            changed: Time::MAX,
        }
    }

    fn look(links: &mut Links, count: Option<u64>) -> bool {
        links.check(&mut |_, _| count.map(inode))
    }

    fn check(links: &mut Links, count: Option<u64>) -> bool {
        look(links, count) | links.settle(|_| true)
    }

    #[test]
    fn what_was_made_or_written_is_looked_at_once() {
        let mut links = Links::default();
        links.created(1, b"made");
        links.written(1, b"written");
        let mut looked = Vec::new();
        assert!(!links.check(&mut |_, name| {
            looked.push(name.to_vec());
            Some(inode(1))
        }));
        assert_eq!(looked, [b"made".to_vec(), b"written".to_vec()]);
        assert!(links.is_empty());
    }

    #[test]
    fn a_file_that_has_not_changed_was_not_written() {
        let found = |changed| {
            Some(Inode {
                changed,
                ..inode(1)
            })
        };
        let mut links = Links::default();
        links.happened_after(10 * SECOND);
        links.written(1, b"f");
        assert!(!links.check(&mut |_, _| found(10 * SECOND - 1)));
        // It is looked at once more, after more was read.
        links.happened_after(20 * SECOND);
        links.look_again();
        assert!(!links.check(&mut |_, _| found(10 * SECOND - 1)));
        assert!(!links.settle(|_| true));
        links.closed(1, b"f");
        assert!(!links.check(&mut |_, _| found(10 * SECOND - 1)));
        links.written(1, b"f");
        assert!(links.check(&mut |_, _| found(10 * SECOND - 1)));
        links.touched(1, b"f");
        assert!(links.check(&mut |_, _| found(19 * SECOND + 1)));
        // It may be just now, on a coarse clock.
        links.touched(1, b"f");
        assert!(!links.check(&mut |_, _| found(18 * SECOND)));
    }

    #[test]
    fn a_new_name_of_a_file_that_was_not_written_is_no_reason_to_be_unsure() {
        let mut links = Links::default();
        links.created(1, b"link");
        assert!(!check(&mut links, Some(2)));
        links.deleted(1, b"link");
        assert!(!check(&mut links, None));
    }

    #[test]
    fn a_file_that_had_one_name_since_the_last_answer_can_go_at_any_time() {
        let mut links = Links::default();
        let write_and_remove = |links: &mut Links| {
            links.written(1, b"journal");
            links.deleted(1, b"journal");
            check(links, None)
        };
        let see = |links: &mut Links, alive: bool| {
            links.created(1, b"journal");
            assert!(!look(links, Some(1)));
            assert!(!links.settle(|_| alive));
        };
        see(&mut links, true);
        assert!(!write_and_remove(&mut links));
        see(&mut links, true);
        links.answered();
        assert!(write_and_remove(&mut links));
        // The directory's id is another's now.
        see(&mut links, false);
        assert!(write_and_remove(&mut links));
        // Another file has come to this name.
        see(&mut links, true);
        links.moved_to(1, b"journal", 9);
        assert!(write_and_remove(&mut links));
        // Nobody knows yet whether the look went there.
        links.created(1, b"journal");
        assert!(!look(&mut links, Some(1)));
        assert!(write_and_remove(&mut links));
    }

    #[test]
    fn a_new_file_that_was_renamed_before_it_was_looked_at_is_looked_at_again() {
        let mut links = Links::default();
        links.created(1, b"f.tmp");
        links.written(1, b"f.tmp");
        assert!(!look(&mut links, None));
        links.moved_from(1, b"f.tmp", 9);
        assert!(!look(&mut links, None), "the second half is yet to come");
        links.moved_to(1, b"f", 9);
        assert!(!links.can_wait());
        let mut looked = Vec::new();
        assert!(!links.check(&mut |_, name| {
            looked.push(name.to_vec());
            (name == b"f").then(|| inode(1))
        }));
        assert!(looked.contains(&b"f".to_vec()));
        assert!(!links.settle(|_| true));
    }

    #[test]
    fn a_second_name_is_unsure() {
        let mut links = Links::default();
        links.written(1, b"f");
        assert!(check(&mut links, Some(2)));
        assert!(!check(&mut links, Some(2)));
    }

    #[test]
    fn a_written_file_that_vanished_is_unsure() {
        let mut links = Links::default();
        links.written(1, b"old");
        links.deleted(1, b"old");
        assert!(!links.is_empty());
        assert!(check(&mut links, Some(1)));
        links.written(1, b"old");
        assert!(check(&mut links, None));
    }

    #[test]
    fn a_new_file_that_vanished_is_unsure_only_if_it_was_written() {
        let mut links = Links::default();
        links.created(1, b"4913");
        links.closed(1, b"4913");
        links.deleted(1, b"4913");
        assert!(!check(&mut links, None));
        links.created(1, b"link");
        links.touched(1, b"link");
        links.closed(1, b"link");
        links.deleted(1, b"link");
        assert!(check(&mut links, None));
        links.created(1, b"link");
        links.written(1, b"link");
        links.deleted(1, b"link");
        assert!(check(&mut links, None));
    }

    #[test]
    fn a_name_that_was_made_and_touched_but_never_opened_is_unsure() {
        let mut links = Links::default();
        links.created(1, b"link");
        links.touched(1, b"link");
        links.deleted(1, b"link");
        assert!(check(&mut links, None));
    }

    #[test]
    fn a_written_file_is_followed_to_its_new_name() {
        let mut links = Links::default();
        links.written(1, b"f");
        links.moved_from(1, b"f", 9);
        links.moved_to(2, b"g", 9);
        let mut looked = Vec::new();
        assert!(links.check(&mut |dir, name| {
            looked.push((dir, name.to_vec()));
            (dir == 2).then(|| inode(2))
        }));
        // And it may have been exchanged with another, which then left.
        assert_eq!(looked, [(1, b"f".to_vec()), (2, b"g".to_vec())]);
    }

    #[test]
    fn a_written_file_that_left_or_was_replaced_is_unsure() {
        let mut links = Links::default();
        links.written(1, b"f");
        links.moved_from(1, b"f", 9);
        assert!(check(&mut links, None));
        links.written(1, b"f");
        links.moved_from(1, b"f", 0);
        assert!(check(&mut links, None));
        links.written(1, b"f");
        links.moved_to(1, b"f", 4);
        assert!(check(&mut links, Some(1)));
    }
}
