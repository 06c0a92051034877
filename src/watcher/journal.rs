//! The journal: for every path changed since the start, the number of its last change. Pure.
//!
//! The number is a *place*: it goes up only when a place has been handed out and
//! something changed since. So "nothing changed" keeps the place as it is, and a path
//! written a thousand times between two questions is entered once.
//!
//! Paths are kept in the order of their last change, so that a question costs what its
//! answer holds, and the oldest can be let go when the journal is full: whoever asks
//! from before that gets "everything".
//!
//! "Everything" is not the end of it. git takes it for this one command: it checks all
//! files, and if the command lists untracked files, all directories. But a command that
//! does not (`git reset`, `git status -uno`) saves the new place all the same, and from
//! then on git believes what it had cached of each directory before (git: fsmonitor.c,
//! `refresh_fsmonitor` clears `use_fsmonitor`, and leaves the `valid` bits that dir.c,
//! `valid_cached_dir`, goes by). So a place that was handed out with "everything" is
//! *owed*: who asks from it gets also what changed before it, or the word to list every
//! directory anew.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use hashlink::LinkedHashMap;
use hashlink::linked_hash_map::RawEntryMut;

/// So many places are remembered as owed; older ones count as owed the most.
const OWED_MAX: usize = 64;

/// How much a journal may hold before it lets go of the oldest paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of paths.
    pub paths: usize,
    /// Bytes of all paths together.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            paths: 250_000,
            bytes: 32 << 20,
        }
    }
}

/// See the module's text.
pub struct Journal {
    limits: Limits,
    /// Each path and the place of its last change, oldest change first.
    changes: LinkedHashMap<Box<[u8]>, u64>,
    /// Bytes of all paths in `changes`.
    bytes: usize,
    /// The last place handed out.
    place: u64,
    /// Whether something changed since then. What changes now gets `place + 1`.
    open: bool,
    /// The oldest place from which no path was let go.
    whole: u64,
    /// The oldest place from which no change is unknown.
    known: u64,
    /// Places handed out with "everything": from where on the caller's view of the
    /// directories has to be mended, `None` for all of it.
    owed: BTreeMap<u64, Option<u64>>,
    /// Every place before this one counts as owed, and all of it.
    owed_before: u64,
}

/// What changed since a place.
pub enum Since<'a> {
    /// These paths and no others, newest first.
    Paths(Box<dyn Iterator<Item = &'a [u8]> + 'a>),
    /// These paths, and every directory is to be listed anew.
    PathsAndListings(Box<dyn Iterator<Item = &'a [u8]> + 'a>),
    /// The journal cannot tell: look at everything.
    Everything,
}

impl Journal {
    /// An empty journal at place 0.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            changes: LinkedHashMap::new(),
            bytes: 0,
            place: 0,
            open: false,
            whole: 0,
            known: 0,
            owed: BTreeMap::new(),
            owed_before: 0,
        }
    }

    /// Enters a change of `path`. The empty path (the top itself) is no entry of any
    /// directory and is left out.
    pub fn record(&mut self, path: &[u8]) {
        if path.is_empty() {
            return;
        }
        let number = self.place + 1;
        self.open = true;
        // The raw entry, so that the path is hashed once and copied only if it is new.
        let hash = self.changes.hasher().hash_one(path);
        match self
            .changes
            .raw_entry_mut()
            .from_key_hashed_nocheck(hash, path)
        {
            RawEntryMut::Occupied(mut entry) => {
                if *entry.get() < number {
                    *entry.get_mut() = number;
                    entry.to_back();
                }
                return;
            }
            RawEntryMut::Vacant(entry) => {
                entry.insert_hashed_nocheck(hash, path.into(), number);
            }
        }
        self.bytes += path.len();
        while self.changes.len() > self.limits.paths || self.bytes > self.limits.bytes {
            let Some((oldest, number)) = self.changes.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
            self.whole = self.whole.max(number);
        }
    }

    /// Enters a change whose paths are not known: all who ask from before it get
    /// "everything".
    pub fn record_everything(&mut self) {
        self.open = true;
        self.known = self.place + 1;
    }

    /// The place to hand out now: everything recorded so far is at or before it.
    pub fn hand_out(&mut self) -> u64 {
        if self.open {
            self.place += 1;
            self.open = false;
        }
        self.place
    }

    /// A place to hand out together with "everything", to somebody who asked from `place`
    /// (`None`: from nowhere that is known here) and whose view of the directories has to
    /// be mended afterwards. No other answer ever carries that place.
    pub fn hand_out_owed(&mut self, place: Option<u64>) -> u64 {
        let debt = place.and_then(|place| self.debt(place).unwrap_or(Some(place)));
        self.open = true;
        let owed = self.hand_out();
        self.open = true;
        self.owed.insert(owed, debt);
        while self.owed.len() > OWED_MAX {
            if let Some((oldest, _)) = self.owed.pop_first() {
                self.owed_before = oldest + 1;
            }
        }
        owed
    }

    /// From where on a place is owed: `None` if it is not, `Some(None)` if all of it is.
    fn debt(&self, place: u64) -> Option<Option<u64>> {
        if place < self.owed_before {
            return Some(None);
        }
        self.owed.get(&place).copied()
    }

    /// What changed after `place`, a place that was handed out.
    pub fn since(&self, place: u64) -> Since<'_> {
        if place < self.whole || place < self.known || place > self.place {
            return Since::Everything;
        }
        match self.debt(place) {
            None => Since::Paths(self.paths_after(place)),
            Some(Some(debt)) if debt >= self.whole => Since::Paths(self.paths_after(debt)),
            Some(_) => Since::PathsAndListings(self.paths_after(place)),
        }
    }

    fn paths_after<'a>(&'a self, place: u64) -> Box<dyn Iterator<Item = &'a [u8]> + 'a> {
        Box::new(
            self.changes
                .iter()
                .rev()
                .take_while(move |(_, number)| **number > place)
                .map(|(path, _)| &**path),
        )
    }

    /// Number of paths held.
    pub fn paths(&self) -> usize {
        self.changes.len()
    }

    /// The last place handed out.
    pub fn place(&self) -> u64 {
        self.place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn names(journal: &Journal, place: u64) -> Option<BTreeSet<Vec<u8>>> {
        match journal.since(place) {
            Since::Paths(paths) | Since::PathsAndListings(paths) => {
                Some(paths.map(<[u8]>::to_vec).collect())
            }
            Since::Everything => None,
        }
    }

    fn set(paths: &[&str]) -> Option<BTreeSet<Vec<u8>>> {
        Some(paths.iter().map(|p| p.as_bytes().to_vec()).collect())
    }

    #[test]
    fn the_place_stays_when_nothing_changed() {
        let mut journal = Journal::new(Limits::default());
        assert_eq!(journal.hand_out(), 0);
        assert_eq!(journal.hand_out(), 0);
        journal.record(b"a");
        assert_eq!(journal.hand_out(), 1);
        assert_eq!(journal.hand_out(), 1);
    }

    #[test]
    fn a_change_is_seen_from_every_earlier_place_and_from_no_later_one() {
        let mut journal = Journal::new(Limits::default());
        journal.record(b"a");
        let first = journal.hand_out();
        journal.record(b"b");
        let second = journal.hand_out();
        assert_eq!(names(&journal, 0), set(&["a", "b"]));
        assert_eq!(names(&journal, first), set(&["b"]));
        assert_eq!(names(&journal, second), set(&[]));
    }

    #[test]
    fn a_path_changed_again_counts_from_its_last_change() {
        let mut journal = Journal::new(Limits::default());
        journal.record(b"a");
        let first = journal.hand_out();
        journal.record(b"b");
        journal.record(b"a");
        journal.record(b"a");
        let second = journal.hand_out();
        assert_eq!(names(&journal, first), set(&["a", "b"]));
        assert_eq!(names(&journal, second), set(&[]));
        assert_eq!(journal.paths(), 2);
    }

    #[test]
    fn places_that_were_never_handed_out_get_everything() {
        let journal = Journal::new(Limits::default());
        assert_eq!(names(&journal, 1), None);
        assert_eq!(names(&journal, u64::MAX), None);
    }

    #[test]
    fn an_unknown_change_is_everything_for_all_before_it_and_nothing_after() {
        let mut journal = Journal::new(Limits::default());
        journal.record(b"a");
        let before = journal.hand_out();
        journal.record_everything();
        journal.record(b"b");
        let after = journal.hand_out();
        assert_eq!(names(&journal, before), None);
        assert_eq!(names(&journal, after), set(&[]));
        journal.record(b"c");
        journal.hand_out();
        assert_eq!(names(&journal, after), set(&["c"]));
    }

    #[test]
    fn who_got_everything_gets_the_changes_before_it_again() {
        let mut journal = Journal::new(Limits::default());
        let start = journal.hand_out();
        journal.record(b"a");
        journal.record_everything();
        assert_eq!(names(&journal, start), None);
        let owed = journal.hand_out_owed(Some(start));
        assert_eq!(names(&journal, owed), set(&["a"]));
        let plain = journal.hand_out();
        assert_ne!(plain, owed);
        assert_eq!(names(&journal, plain), set(&[]));
        // The debt goes on to the next "everything".
        journal.record(b"b");
        journal.record_everything();
        assert_eq!(names(&journal, owed), None);
        let again = journal.hand_out_owed(Some(owed));
        assert_eq!(names(&journal, again), set(&["a", "b"]));
    }

    #[test]
    fn who_came_from_nowhere_has_every_directory_listed_anew() {
        let mut journal = Journal::new(Limits::default());
        let owed = journal.hand_out_owed(None);
        assert!(matches!(journal.since(owed), Since::PathsAndListings(_)));
        let next = journal.hand_out();
        assert!(matches!(journal.since(next), Since::Paths(_)));
        for _ in 0..2 * OWED_MAX {
            journal.hand_out_owed(Some(next));
        }
        // Too many to remember: the oldest count as owed the most.
        assert!(matches!(journal.since(owed), Since::PathsAndListings(_)));
        assert_eq!(journal.owed.len(), OWED_MAX);
    }

    #[test]
    fn past_the_bound_the_oldest_get_everything_and_the_newest_stay_exact() {
        let mut journal = Journal::new(Limits {
            paths: 3,
            bytes: 100,
        });
        let start = journal.hand_out();
        for path in ["a", "b"] {
            journal.record(path.as_bytes());
        }
        let early = journal.hand_out();
        for path in ["c", "d"] {
            journal.record(path.as_bytes());
        }
        let late = journal.hand_out();
        assert_eq!(names(&journal, start), None);
        assert_eq!(names(&journal, early), set(&["c", "d"]));
        assert_eq!(names(&journal, late), set(&[]));
        journal.record(&[b'x'; 99]);
        journal.hand_out();
        assert_eq!(names(&journal, early), None);
        assert_eq!(names(&journal, late).map(|s| s.len()), Some(1));
    }

    #[test]
    fn one_burst_over_the_bound_is_everything() {
        let mut journal = Journal::new(Limits {
            paths: 2,
            bytes: 100,
        });
        let start = journal.hand_out();
        for path in ["a", "b", "c"] {
            journal.record(path.as_bytes());
        }
        let end = journal.hand_out();
        assert_eq!(names(&journal, start), None);
        assert_eq!(names(&journal, end), set(&[]));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Record(u8),
        Everything,
        HandOut,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => (0u8..20).prop_map(Step::Record),
            1 => Just(Step::Everything),
            4 => Just(Step::HandOut),
        ]
    }

    proptest! {
        /// Against a list of everything that ever happened: an answer is everything, or
        /// just the paths changed since. With room for all, it is never needlessly everything.
        #[test]
        fn answers_agree_with_a_list_of_all_changes(
            steps in prop::collection::vec(step(), 0..200),
            room in prop_oneof![Just(1000usize), 1usize..12],
        ) {
            let mut journal = Journal::new(Limits { paths: room, bytes: usize::MAX });
            let mut all: Vec<Option<u8>> = Vec::new();
            let mut places: Vec<(u64, usize)> = vec![(journal.hand_out(), 0)];
            for step in steps {
                match step {
                    Step::Record(n) => { journal.record(&[n]); all.push(Some(n)); }
                    Step::Everything => { journal.record_everything(); all.push(None); }
                    Step::HandOut => places.push((journal.hand_out(), all.len())),
                }
            }
            journal.hand_out();
            for (place, at) in places {
                let since = &all[at..];
                let want: Option<BTreeSet<Vec<u8>>> =
                    since.iter().map(|n| n.map(|n| vec![n])).collect();
                let got = names(&journal, place);
                if room == 1000 || got.is_some() {
                    prop_assert_eq!(got, want);
                }
                prop_assert!(journal.paths() <= room);
            }
        }
    }
}
