//! The tracker: one worktree's tree and journal, kept true by one backend.
//!
//! It knows nothing of sockets, git or tokens' spelling: front ends ask it for the
//! changes since a place in the journal of an instance. A new instance begins with each
//! start and each loss of sync, and nothing of an older one is ever compared with it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use hashbrown::HashMap;

use super::journal::{Journal, Limits, Since};
use super::names::Names;
use super::settle::Looked;
use super::state::{Listing, NOTHING, State};
use super::tree::{NodeId, TOP};
use crate::backend::{Backend, Drained, EnterError, StartError, Time, WatchError};

/// What a tracker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Walking the tree for the first time, or again after a loss of sync.
    Crawling,
    /// Every directory is watched.
    Watching,
    /// Not watching; the reason.
    Degraded(Trouble),
}

/// Why a tracker cannot watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The system's limit of watches is used up.
    Watches,
    /// The system's limit of watchers is used up.
    Instances,
    /// No more files can be opened.
    Descriptors,
    /// The file system is one whose changes this kernel does not hear of.
    Remote,
    /// The tree cannot be followed: why.
    Tree(&'static str),
    /// Something else the backend reported.
    Backend,
}

/// How a call of [`Tracker::pump`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pumped {
    /// Every change made before the call is in the journal.
    Settled,
    /// Nothing is left to look at, but nobody asked whether that is all there is.
    Idle,
    /// Time was up first; nothing can be answered yet but "everything".
    Busy,
    /// As `Busy`, and waiting does not help: the top has to be found again.
    NoTop,
    /// The tracker is degraded.
    Degraded,
}

/// Paths to name in an answer.
pub struct Paths<'a> {
    /// Directories that cannot be read: named in every answer.
    pub blind: Vec<Vec<u8>>,
    /// What changed.
    pub changed: Box<dyn Iterator<Item = &'a [u8]> + 'a>,
    /// Whether every directory is to be listed anew: see [`Tracker::every_listing`].
    pub listings: bool,
}

/// What changed since a place.
pub enum Changes<'a> {
    /// These.
    Paths(Paths<'a>),
    /// The tracker cannot tell: everything.
    Everything,
}

/// A resync that follows another of the same kind without one good answer in between is
/// tried so many times.
const RESYNCS_MAX: u32 = 3;

/// See the module's text.
pub struct Tracker<B> {
    pub(super) backend: B,
    pub(super) state: State,
    pub(super) finds: HashMap<NodeId, u32>,
    pub(super) names: Names,
    phase: Phase,
    instance: String,
    limits: Limits,
    guards: Vec<Vec<u8>>,
    /// When the queue was last begun to be read to its end.
    read_at: Time,
    resyncs: u64,
    fruitless: u32,
    last_resync: Option<&'static str>,
    last_error: Option<String>,
}

impl<B: Backend> Tracker<B> {
    /// A tracker that begins to crawl with the first call of [`Tracker::pump`].
    pub fn new(backend: B, limits: Limits) -> Self {
        let mut tracker = Self {
            backend,
            state: State::new(Journal::new(limits)),
            finds: HashMap::new(),
            names: Names::default(),
            phase: Phase::Crawling,
            instance: String::new(),
            limits,
            guards: Vec::new(),
            read_at: Time::MIN,
            resyncs: 0,
            fruitless: 0,
            last_resync: None,
            last_error: None,
        };
        tracker.begin();
        tracker
    }

    /// Also watches these directories outside the tree (absolute paths), now and after
    /// each resync; see [`Tracker::take_suspicion`].
    pub fn guard(&mut self, paths: Vec<Vec<u8>>) {
        self.guards = paths;
        self.set_guards();
    }

    /// Whether all of these are being watched.
    pub fn is_guarded(&self) -> bool {
        self.state.guards.len() == self.guards.len()
    }

    /// Starts again from nothing: what was handed out before gets "everything".
    pub fn resync(&mut self, reason: &'static str) {
        self.resyncs += 1;
        self.last_resync = Some(reason);
        self.begin();
    }

    fn begin(&mut self) {
        self.state = State::new(Journal::new(self.limits));
        self.finds.clear();
        self.last_error = None;
        self.phase = match self.backend.restart() {
            Ok(()) => Phase::Crawling,
            Err(StartError::LimitReached) => Phase::Degraded(Trouble::Instances),
            Err(StartError::Descriptors) => Phase::Degraded(Trouble::Descriptors),
            Err(StartError::Other(error)) => {
                self.last_error = Some(format!("watching cannot begin: {error}"));
                Phase::Degraded(Trouble::Backend)
            }
        };
        self.set_guards();
    }

    fn set_guards(&mut self) {
        self.state.guards.clear();
        for path in &self.guards {
            match self.backend.guard(path) {
                Ok(id) => self.state.guards.push(id),
                Err(WatchError::NotADirectory) => self.state.suspicious = true,
                // A guard only makes the end come sooner.
                Err(_) => {}
            }
        }
    }

    /// Stops watching the tree and gives everything back, until the next
    /// [`Tracker::resync`]. The guards stay, where they can: also a watcher that cannot
    /// watch has to see that it is not wanted any more.
    pub fn degrade(&mut self, trouble: Trouble) {
        self.state = State::new(Journal::new(self.limits));
        self.phase = Phase::Degraded(trouble);
        if self.backend.restart().is_ok() {
            self.set_guards();
        } else {
            self.backend.shut();
        }
    }

    /// Takes in what happened and looks at what is in doubt, for as long as `until`.
    pub fn pump(&mut self, until: Instant) -> Pumped {
        self.pump_for(until, true)
    }

    /// The same while nobody waits for an answer: with some backends it costs less not to
    /// make sure that everything has come, and then it ends with [`Pumped::Idle`].
    pub fn pump_unasked(&mut self, until: Instant) -> Pumped {
        self.pump_for(until, false)
    }

    fn pump_for(&mut self, until: Instant, asked: bool) -> Pumped {
        // Whether the queue was read to its end since the call came.
        let mut whole = false;
        loop {
            if let Phase::Degraded(_) = self.phase {
                let state = &mut self.state;
                self.backend.gather(&mut |event| state.take(event));
                return Pumped::Degraded;
            }
            if self.state.tree.watch(TOP).is_none()
                && self.phase == Phase::Crawling
                && let Some(pumped) = self.watch_top()
            {
                return pumped;
            }
            let quiet = self.state.is_quiet();
            let state = &mut self.state;
            state.begin_reading();
            state.links.happened_after(self.read_at);
            let begun = now();
            let mut drained = self.backend.gather(&mut |event| state.take(event));
            if drained == Drained::Some && quiet && state.is_quiet() {
                // Whether this is all matters only now.
                if !asked && self.phase == Phase::Watching && !state.is_unsettled() {
                    return Pumped::Idle;
                }
                drained = self.backend.drain(&mut |event| state.take(event));
            }
            if drained == Drained::Complete {
                self.read_at = begun;
            }
            if drained == Drained::Lost {
                self.lose(self.backend.why_lost());
                continue;
            }
            if let Some(reason) = self.state.lost.take() {
                self.lose(reason);
                continue;
            }
            if quiet && drained == Drained::Complete {
                self.state.forget_aliases();
                // Files written only since then can wait for the next call: somebody who
                // never stops writing must not keep everybody waiting.
                if self.state.is_quiet() || whole && self.state.only_files_are_due() {
                    self.let_go();
                    self.settled();
                    return Pumped::Settled;
                }
            }
            whole |= drained == Drained::Complete;
            match self.backend.disk().enter() {
                Ok(()) => {}
                Err(EnterError::Elsewhere) => {
                    self.state.suspicious = true;
                    return Pumped::NoTop;
                }
                Err(EnterError::Other(error)) => {
                    self.last_error = Some(format!("the top cannot be entered: {error}"));
                    return Pumped::NoTop;
                }
            }
            let looked = self.look(until);
            self.backend.disk().leave();
            match looked {
                // Somebody who makes directories without end must not keep us here.
                Looked::All if Instant::now() >= until => return Pumped::Busy,
                Looked::All => {}
                Looked::Some if self.state.lost.is_some() => {}
                Looked::Some => return Pumped::Busy,
                Looked::Limit => self.degrade(Trouble::Watches),
            }
        }
    }

    /// Begins the crawl. `None`: go on.
    fn watch_top(&mut self) -> Option<Pumped> {
        if self.backend.disk().enter().is_err() {
            self.state.suspicious = true;
            return Some(Pumped::NoTop);
        }
        let watched = self.backend.watch(b"");
        self.backend.disk().leave();
        match watched {
            Ok(id) => {
                self.state.tree.set_watch(TOP, id);
                self.state.listings.push(Listing {
                    node: TOP,
                    deep: false,
                    fresh: true,
                    share: 1.0,
                });
                None
            }
            Err(WatchError::LimitReached) => {
                self.degrade(Trouble::Watches);
                Some(Pumped::Degraded)
            }
            Err(error) => {
                if let WatchError::Other(error) = error {
                    self.last_error = Some(format!("the top cannot be watched: {error}"));
                }
                self.degrade(Trouble::Tree("its top cannot be watched"));
                Some(Pumped::Degraded)
            }
        }
    }

    fn lose(&mut self, reason: &'static str) {
        self.fruitless += 1;
        if self.fruitless > RESYNCS_MAX {
            self.fruitless = 0;
            self.resyncs += 1;
            self.last_resync = Some(reason);
            self.degrade(Trouble::Tree(reason));
        } else {
            self.resync(reason);
        }
    }

    fn settled(&mut self) {
        self.fruitless = 0;
        if self.phase == Phase::Crawling {
            self.phase = Phase::Watching;
            self.instance = new_instance();
            self.state.recording = true;
        }
    }

    /// The place in the journal that holds every change so far. To be asked for only
    /// right after [`Pumped::Settled`].
    pub fn place(&mut self) -> u64 {
        self.state.links.answered();
        self.state.journal.hand_out()
    }

    /// A place to hand out with "everything" to who asked from `place`; see
    /// [`Journal::hand_out_owed`].
    pub fn owed_place(&mut self, place: Option<u64>) -> u64 {
        self.state.links.answered();
        self.state.journal.hand_out_owed(place)
    }

    /// What changed since `place`, a place in the journal of the present instance.
    pub fn since(&self, place: u64) -> Changes<'_> {
        if self.state.blind.contains(&TOP) || self.state.has_refused() {
            return Changes::Everything;
        }
        let (changed, listings) = match self.state.journal.since(place) {
            Since::Everything => return Changes::Everything,
            Since::Paths(paths) => (paths, false),
            Since::PathsAndListings(paths) => (paths, true),
        };
        let mut blind = Vec::new();
        for &node in &self.state.blind {
            // git drops what ends in .git; to it, a change in there is one of the
            // entry that holds it.
            let is_git = self.state.tree.name(node) == b".git";
            let above = self.state.tree.parent(node).filter(|_| is_git);
            let mut path = Vec::new();
            if self.state.tree.path(above.unwrap_or(node), &mut path) {
                blind.push(path.clone());
                // git may have listed it while it could be read.
                if !is_git {
                    path.push(b'/');
                    path.extend_from_slice(NOTHING);
                    blind.push(path);
                }
            }
        }
        Changes::Paths(Paths {
            blind,
            changed,
            listings,
        })
    }

    /// Calls `sink` with one path in every directory, so that git lists each anew.
    pub fn every_listing(&self, sink: &mut dyn FnMut(&[u8])) {
        self.state.tree.walk(&mut |path, name| {
            if name == b".git" {
                return false;
            }
            let length = path.len();
            if length > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(NOTHING);
            sink(path);
            path.truncate(length);
            true
        });
    }

    /// Whether something happened to the top, to a guarded directory's own files or to
    /// git's configuration since the last call.
    pub fn take_suspicion(&mut self) -> bool {
        std::mem::take(&mut self.state.suspicious)
    }

    /// Whether the watch of the top is gone, which means that the top is.
    pub fn top_is_gone(&self) -> bool {
        self.phase == Phase::Watching && self.state.tree.watch(TOP).is_none()
    }

    /// A descriptor that becomes readable when there is something to take in.
    pub fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        self.backend.wakeup()
    }

    /// The backend.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// The backend's name.
    pub fn backend_name(&self) -> &'static str {
        self.backend.name()
    }

    /// The state of the belief, to count things in.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What the tracker is doing.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The present instance; empty before the first crawl is done.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// What the system said when it last refused something that matters, since the last
    /// resync.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// How often sync was lost, and why the last time.
    pub fn resyncs(&self) -> (u64, Option<&'static str>) {
        (self.resyncs, self.last_resync)
    }
}

/// The clock that file systems take.
fn now() -> Time {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since_1970.map_or(Time::MIN, |time| time.as_nanos() as Time)
}

/// An id nobody has had: 16 hexadecimal digits.
fn new_instance() -> String {
    // RandomState's keys come from the system's random numbers; the clock and the
    // process id make sure where those fail.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    if let Ok(now) = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        hasher.write_u128(now.as_nanos());
    }
    format!("{:016x}", hasher.finish())
}
