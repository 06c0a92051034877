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
//! is gone could have been a second name as well: if it was there before, that counts as
//! unsure. If it was made, written and removed all since the last answer (editors and
//! compilers do that all the time), it is taken for what it nearly always is, a temporary
//! file of one name. Not so if it was only touched (its mode changed, say): who makes a
//! file opens it for writing, and closing it is told as a write; who makes a link does not.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::tree::NodeId;

/// A file: its directory and its name.
type Key = (NodeId, SmallVec<[u8; 20]>);

#[derive(Clone, Copy, Default)]
struct Seen {
    created: bool,
    /// Its content or its attributes changed.
    written: bool,
    /// It was open for writing.
    opened: bool,
    /// It is in `Links::due`.
    due: bool,
    /// It was not there when it was looked at, and nothing has said why.
    absent: bool,
    /// It was looked at, by this name or by one before.
    old: bool,
    /// It may have left this name again.
    doubtful: bool,
}

impl Seen {
    fn could_hide_a_name(self) -> bool {
        self.written && !(self.created && self.opened)
    }
}

/// Files written since the last answer. See the module's text.
#[derive(Default)]
pub struct Links {
    seen: HashMap<Key, Seen>,
    /// Those to look at; some may have gone from `seen` since.
    due: Vec<Key>,
    in_flight: HashMap<u32, Seen>,
    /// The cookie of the last file that left.
    last_left: u32,
    /// One that was looked at has to be looked at again: that look told nothing.
    pressing: bool,
    unsure: bool,
}

impl Links {
    /// The file appeared.
    pub fn created(&mut self, dir: NodeId, name: &[u8]) {
        let key = (dir, SmallVec::from_slice(name));
        self.seen.entry(key).or_default().created = true;
    }

    /// The file was written to, or closed by a writer.
    pub fn written(&mut self, dir: NodeId, name: &[u8]) {
        self.changed(dir, name, true);
    }

    /// The file's attributes changed.
    pub fn touched(&mut self, dir: NodeId, name: &[u8]) {
        self.changed(dir, name, false);
    }

    fn changed(&mut self, dir: NodeId, name: &[u8], opened: bool) {
        let key = (dir, SmallVec::from_slice(name));
        let seen = self.seen.entry(key).or_default();
        self.pressing |= seen.absent;
        seen.written = true;
        seen.opened |= opened;
        seen.doubtful = false;
        if !seen.due {
            seen.due = true;
            self.due.push((dir, SmallVec::from_slice(name)));
        }
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
        if seen.written && cookie != 0 {
            self.in_flight.insert(cookie, seen);
        } else if seen.could_hide_a_name() {
            self.unsure = true;
        }
        if seen.written {
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
        self.due.push(key.clone());
        self.pressing |= seen.old;
        let arrived = Seen {
            due: true,
            absent: false,
            doubtful,
            ..seen
        };
        self.seen.insert(key, arrived);
    }

    /// Directories were renamed or replaced: looks may have gone to other files.
    pub fn look_again(&mut self) {
        let due = &mut self.due;
        for (key, seen) in &mut self.seen {
            if seen.written && !seen.due {
                seen.due = true;
                due.push(key.clone());
            }
        }
    }

    /// Whether there is nothing to look at and nothing to report.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty() && !self.unsure
    }

    /// Whether every file there is to look at was written after the last look.
    pub fn can_wait(&self) -> bool {
        !self.unsure && !self.pressing
    }

    /// Looks at each file that was written: `count` gives its number of links, `None` if
    /// it is not there. `true` if a path may have changed that no event named.
    pub fn check(&mut self, count: &mut dyn FnMut(NodeId, &[u8]) -> Option<u64>) -> bool {
        self.pressing = false;
        let mut unsure = std::mem::take(&mut self.unsure);
        self.in_flight.retain(|_, seen| {
            unsure |= seen.could_hide_a_name();
            seen.old = true;
            !seen.could_hide_a_name()
        });
        for key in self.due.drain(..) {
            let Some(seen) = self.seen.get_mut(&key).filter(|seen| seen.due) else {
                continue;
            };
            seen.due = false;
            seen.old = true;
            let links = count(key.0, &key.1);
            seen.absent = links.is_none() && !seen.doubtful;
            if links.is_some_and(|links| links > 1) || seen.absent && seen.could_hide_a_name() {
                unsure = true;
                self.seen.remove(&key);
            }
        }
        if self.due.capacity() > 1024 {
            self.due.shrink_to(0);
        }
        unsure
    }

    /// The whole queue was read after the last look, so that what was seen then stands.
    /// `true` if a path may have changed that no event named. What came in by that last
    /// reading is kept.
    pub fn settle(&mut self) -> bool {
        let mut unsure = self.in_flight.values().any(|seen| seen.could_hide_a_name());
        self.seen.retain(|_, seen| {
            unsure |= seen.absent && !seen.due;
            seen.due
        });
        self.in_flight.clear();
        if self.seen.capacity() > 1024 {
            self.seen.shrink_to(1024);
        }
        unsure
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

    fn check(links: &mut Links, count: Option<u64>) -> bool {
        links.check(&mut |_, _| count)
    }

    #[test]
    fn only_written_files_are_looked_at() {
        let mut links = Links::default();
        links.created(1, b"made");
        links.written(1, b"written");
        let mut looked = Vec::new();
        assert!(!links.check(&mut |_, name| {
            looked.push(name.to_vec());
            Some(1)
        }));
        assert_eq!(looked, [b"written".to_vec()]);
        assert!(links.is_empty());
    }

    #[test]
    fn a_second_name_is_unsure() {
        let mut links = Links::default();
        links.written(1, b"f");
        assert!(check(&mut links, Some(2)));
        assert!(!check(&mut links, Some(2)));
    }

    #[test]
    fn an_old_file_that_vanished_is_unsure_and_a_new_one_is_not() {
        let mut links = Links::default();
        links.written(1, b"old");
        links.deleted(1, b"old");
        assert!(!links.is_empty());
        assert!(check(&mut links, Some(1)));
        links.created(1, b"temporary");
        links.written(1, b"temporary");
        links.deleted(1, b"temporary");
        assert!(!check(&mut links, None));
        links.written(1, b"old");
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
            (dir == 2).then_some(2)
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
