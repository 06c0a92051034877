//! The tracker over a file system in memory, held to a naive model.
//!
//! [`Rig`] plays git: several readers remember what they saw when they last asked, and
//! with each question every one of them is held against what is there: a path that
//! differs from what a reader remembers must be in its answer.

mod random;
mod regressions;
mod snapshot;
mod walk;

use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::journal::Limits;
use super::tracker::{Changes, Pumped, Tracker};
use super::tree::TOP;
use crate::backend::scripted::Scripted;
use crate::backend::scripted::ops::Op;
use crate::backend::scripted::world::{Ino, World};

use snapshot::{Seen, Snapshot, directories, snapshot};

/// More calls of the backend for one script mean that the tracker does not come to rest.
const CALLS_MAX: u64 = 50_000;

/// Someone who asked before.
struct Reader {
    instance: String,
    place: u64,
    remembers: Snapshot,
    /// It looked some time after it asked, or when a change was done but not told yet.
    /// Then it may remember what the tracker could not see, and only what git does with
    /// an answer counts:
    /// a named directory makes it look at every tracked file below it, and a named path
    /// makes it list the directory it is in.
    late: bool,
}

/// A tracker, its world, and those who ask.
struct Rig {
    world: Rc<RefCell<World>>,
    tracker: Tracker<Scripted>,
    readers: Vec<Reader>,
    exact: u64,
    full: u64,
}

/// An answer.
type Answer = Option<BTreeSet<Vec<u8>>>;

impl Rig {
    fn new(coins: u64) -> Self {
        let world = Rc::new(RefCell::new(World::new(coins)));
        let tracker = Tracker::new(Scripted::new(world.clone()), Limits::default());
        Self {
            world,
            tracker,
            readers: Vec::new(),
            exact: 0,
            full: 0,
        }
    }

    fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    fn run(&self, ops: impl IntoIterator<Item = Op>) {
        for op in ops {
            self.world().run(&op);
        }
    }

    /// Pumps for no time at all.
    fn pump_briefly(&mut self) {
        self.tracker.pump(Instant::now());
        self.check_calls();
        let late = self.world().is_under_way();
        for reader in &mut self.readers {
            reader.late |= late;
        }
    }

    fn check_calls(&mut self) {
        let calls = self.tracker.backend().calls;
        assert!(calls < CALLS_MAX, "the tracker does not come to rest");
    }

    /// Pumps until all is settled; `false` if no answer can be given.
    fn pump(&mut self) -> bool {
        let pumped = self
            .tracker
            .pump(Instant::now() + Duration::from_secs(3600));
        self.check_calls();
        match pumped {
            Pumped::Settled => true,
            Pumped::NoTop | Pumped::Degraded => false,
            Pumped::Busy | Pumped::Idle => panic!("{pumped:?} though there was time"),
        }
    }

    /// Asks. Every reader's memory is held against the answer to it; those whose bit is
    /// set in `ask` then look at what is named, and one more reader sees everything.
    fn query(&mut self, ask: u8) -> bool {
        self.world().finish_calls();
        self.world().note(|_| format!("QUERY {ask:#b}"));
        let before = snapshot(&self.world());
        if !self.pump() {
            return false;
        }
        let place = self.tracker.place();
        self.world().settled();
        self.world().note(|_| format!("ANSWER {place}"));
        let after = snapshot(&self.world());
        let instance = self.tracker.instance().to_owned();
        self.readers.retain(|reader| reader.instance == instance);
        for i in 0..self.readers.len() {
            let (named, blind) = self.answer(self.readers[i].place);
            let reader = &mut self.readers[i];
            let world = self.world.borrow();
            reader.late |= world.is_under_way();
            match named {
                None => {
                    self.full += 1;
                    if ask & (1 << i) != 0 {
                        reader.remembers = after.clone();
                        reader.late = world.is_under_way();
                    }
                }
                Some(named) => {
                    self.exact += 1;
                    let covered = |path: &[u8]| {
                        named.contains(path) || blind.iter().any(|above| is_below(above, path))
                    };
                    check(&world, reader, [&before, &after], &named, &covered);
                    if ask & (1 << i) != 0 {
                        let old = std::mem::take(&mut reader.remembers);
                        let settled = |path: &[u8]| {
                            !world.is_under_way() || is_same(&before, &after, path, &world.moving())
                        };
                        let differs =
                            |path: &[u8]| old.get(path) != before.get(path) && settled(path);
                        let below = |path: &[u8]| named.iter().any(|above| is_below(above, path));
                        let looks = |path: &[u8]| {
                            covered(path) || differs(path) || reader.late && below(path)
                        };
                        let kept = old.iter().filter(|(path, _)| !looks(path));
                        let seen = after.iter().filter(|(path, _)| looks(path));
                        let all = kept.chain(seen);
                        reader.remembers = all.map(|(p, s)| (p.clone(), s.clone())).collect();
                    }
                }
            }
            if ask & (1 << i) != 0 {
                reader.place = place;
            }
        }
        if self.readers.len() >= 5 {
            self.readers.remove(place as usize % 5);
        }
        let late = self.world().is_under_way();
        self.readers.push(Reader {
            instance,
            place,
            remembers: after,
            late,
        });
        self.world().answered();
        true
    }

    /// Readers look at everything once more, without asking.
    fn look_again(&mut self, who: u8) {
        let now = snapshot(&self.world());
        for (i, reader) in self.readers.iter_mut().enumerate() {
            if who & (1 << i) != 0 {
                reader.remembers = now.clone();
                reader.late = true;
            }
        }
    }

    /// The answer to a place, and the blind spots in it.
    fn answer(&self, place: u64) -> (Answer, Vec<Vec<u8>>) {
        let Changes::Paths(paths) = self.tracker.since(place) else {
            return (None, Vec::new());
        };
        let blind = paths.blind;
        let named: BTreeSet<Vec<u8>> = paths
            .changed
            .map(<[u8]>::to_vec)
            .chain(blind.iter().cloned())
            .collect();
        for path in &named {
            for part in path.split(|&byte| byte == b'/') {
                assert!(
                    ![&b""[..], b".", b"..", b".git"].contains(&part),
                    "{} is not for git",
                    path.escape_ascii()
                );
            }
        }
        (Some(named), blind)
    }

    /// The answer to a place given before, as text, sorted.
    fn names(&self, place: u64) -> Option<Vec<String>> {
        let named = self.answer(place).0?;
        Some(named.iter().map(|p| p.escape_ascii().to_string()).collect())
    }

    /// Everything can be read, and all has been looked at: belief and truth are one.
    fn check_belief(&mut self) {
        let world = self.world.borrow();
        let state = self.tracker.state();
        let truth = directories(&world);
        for (path, ino) in &truth {
            let mut node = Some(TOP);
            for part in path.split(|&byte| byte == b'/').filter(|p| !p.is_empty()) {
                node = node.and_then(|node| state.tree.child(node, part));
            }
            let watch = node.and_then(|node| state.tree.watch(node));
            assert!(watch.is_some(), "{} is not watched", path.escape_ascii());
            assert_eq!(watch, world.inodes[*ino].watch, "{}", path.escape_ascii());
        }
        assert_eq!(
            state.tree.len(),
            truth.len(),
            "directories that are not there"
        );
        let watches = world.inodes.iter().filter(|i| i.watch.is_some()).count();
        assert_eq!(watches, truth.len(), "watches that are not needed");
        assert!(
            state.blind.is_empty(),
            "blind though everything can be read"
        );
        assert!(state.missing.is_empty() && state.parked.is_empty());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self
                .world
                .try_borrow_mut()
                .ok()
                .and_then(|mut w| w.log.take());
            log.iter().flatten().for_each(|line| println!("{line}"));
        }
    }
}

fn is_below(above: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Whether two snapshots agree about a path and the directories above it, none of which
/// is being renamed.
fn is_same(one: &Snapshot, other: &Snapshot, path: &[u8], moving: &[Ino]) -> bool {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let ends = ends.map(|(i, _)| i).chain([path.len()]);
    let ino = |snapshot: &Snapshot, end: usize| snapshot.get(&path[..end]).map(|seen| seen.ino);
    one.get(path) == other.get(path)
        && ends.into_iter().all(|end| {
            let found = ino(one, end);
            found == ino(other, end) && !found.is_some_and(|ino| moving.contains(&ino))
        })
}

/// Each path that is not as remembered must be covered. What was changed back since the
/// question came, or only since then, need not be.
fn check(
    world: &World,
    reader: &Reader,
    new: [&Snapshot; 2],
    named: &BTreeSet<Vec<u8>>,
    covered: &dyn Fn(&[u8]) -> bool,
) {
    let old = &reader.remembers;
    for path in old.keys().chain(new[0].keys()) {
        let (was, is) = (old.get(path), new[0].get(path));
        if was == is || was == new[1].get(path) || covered(path) {
            continue;
        }
        if let (Some(was), Some(is)) = (was, is)
            && was.without(&world.excused) == is.without(&world.excused)
        {
            continue;
        }
        if is.is_none() && was.is_some_and(|was| !was.reach.0) {
            // It was not there for git before.
            continue;
        }
        if world.is_under_way() && !is_same(new[0], new[1], path, &world.moving()) {
            // It is being changed once more; that will be told.
            continue;
        }
        if reader.late {
            let only_reach = |was: &Seen, is: &Seen| {
                Seen {
                    reach: is.reach,
                    ..was.clone()
                } == *is
            };
            if was.is_some_and(|was| {
                was.reach != (true, true) || is.is_some_and(|is| only_reach(was, is))
            }) {
                // git keeps nothing of what it could not look at, and what it cannot look
                // at for a moment nobody has to tell.
                continue;
            }
            let above = &path[..path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)];
            let is_dir = |snapshot: &Snapshot| {
                above.is_empty() || snapshot.get(above).is_some_and(|seen| seen.is_dir)
            };
            let listed_anew = ![old, new[0], new[1]].into_iter().all(is_dir) || {
                let mut in_it = above.to_vec();
                in_it.extend_from_slice(if above.is_empty() { b"" } else { b"/" });
                named.iter().any(|path| {
                    path.strip_prefix(&*in_it)
                        .is_some_and(|rest| !rest.contains(&b'/'))
                })
            };
            let same_entry = was.map(|seen| seen.is_dir) == is.map(|seen| seen.is_dir);
            let looked_at = was.is_none() || named.iter().any(|above| is_below(above, path));
            let same_git = was.is_none_or(|was| is.is_none_or(|is| was.git == is.git))
                || !new[1].get(path).is_some_and(|seen| seen.is_dir);
            if looked_at && same_git && (same_entry || listed_anew) {
                continue;
            }
        }
        let late = if reader.late { "late" } else { "in time" };
        panic!(
            "{}: {was:?} became {is:?} and is not named ({late})",
            path.escape_ascii()
        );
    }
}
