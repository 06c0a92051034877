//! The journal: for every path changed since the start, the number of its last change. Pure.
//!
//! The number is a *place*: it goes up only when a place has been handed out and
//! something changed since. So "nothing changed" keeps the place as it is, and a path
//! written a thousand times between two questions is entered once.
//!
//! Paths are kept in the order of their last change, so that a question costs what its
//! answer holds, and the oldest can be let go when the journal is full: whoever asks
//! from before that gets "everything".

use hashlink::LinkedHashMap;

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
    /// The oldest place from which the journal is whole.
    floor: u64,
}

/// What changed since a place.
pub enum Since<'a> {
    /// These paths and no others, newest first.
    Paths(Box<dyn Iterator<Item = &'a [u8]> + 'a>),
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
            floor: 0,
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
        if let Some(last) = self.changes.get_mut(path) {
            if *last < number {
                *last = number;
                self.changes.to_back(path);
            }
            return;
        }
        self.bytes += path.len();
        self.changes.insert(path.into(), number);
        while self.changes.len() > self.limits.paths || self.bytes > self.limits.bytes {
            let Some((oldest, number)) = self.changes.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
            self.floor = self.floor.max(number);
        }
    }

    /// Enters a change whose paths are not known: all who ask from before it get
    /// "everything".
    pub fn record_everything(&mut self) {
        self.open = true;
        self.floor = self.place + 1;
        self.changes.clear();
        self.changes.shrink_to_fit();
        self.bytes = 0;
    }

    /// The place to hand out now: everything recorded so far is at or before it.
    pub fn hand_out(&mut self) -> u64 {
        if self.open {
            self.place += 1;
            self.open = false;
        }
        self.place
    }

    /// What changed after `place`, a place that was handed out.
    pub fn since(&self, place: u64) -> Since<'_> {
        if place < self.floor || place > self.place {
            return Since::Everything;
        }
        Since::Paths(Box::new(
            self.changes
                .iter()
                .rev()
                .take_while(move |(_, number)| **number > place)
                .map(|(path, _)| &**path),
        ))
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
            Since::Paths(paths) => Some(paths.map(<[u8]>::to_vec).collect()),
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
