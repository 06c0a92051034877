//! What a watcher does that cannot watch: it finds out what is needed, tries again after a
//! while, longer each time, and at once when the limit that was in its way has been raised.

use std::time::{Duration, Instant};

use super::census::Census;
use super::limits::Limit;
use super::tracker::Trouble;
use crate::backend::Backend;

/// Waits between attempts: the first, and the longest.
const WAIT: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));

/// So often a watcher that not even these watches tell of its end looks by itself.
const LOOK: Duration = Duration::from_secs(5);

/// Watches outside the tree, at the most: the git directory, the one that all linked
/// worktrees share, and the directory of our files.
const GUARDS: u64 = 3;

/// See the module's text.
pub struct Recovery {
    /// When to try again.
    at: Option<Instant>,
    /// When to look whether we are still wanted.
    look_at: Option<Instant>,
    /// How long to wait the next time.
    wait: Duration,
    /// What was in the way, and where it stood.
    limit: Option<(Trouble, Limit)>,
    census: Option<Census>,
    needed: Option<u64>,
}

impl Recovery {
    /// Nothing to recover from yet.
    pub fn new() -> Self {
        Self {
            at: None,
            look_at: None,
            wait: WAIT.0,
            limit: None,
            census: None,
            needed: None,
        }
    }

    /// All is well.
    pub fn done(&mut self) {
        *self = Self::new();
    }

    /// Watching was given up; `guarded`: but for the guards.
    pub fn begin(&mut self, trouble: Trouble, now: Instant, guarded: bool) {
        self.look_at = (!guarded).then(|| now + LOOK);
        self.limit = Limit::behind(trouble).map(|limit| (trouble, limit));
        match trouble {
            // No time brings that back, but a change of mounts or settings does.
            Trouble::Remote => return,
            Trouble::Watches => self.census = Some(Census::new()),
            Trouble::Instances => self.needed = Some(1),
            _ => {}
        }
        self.at = Some(now + self.wait);
        self.wait = (self.wait * 2).min(WAIT.1);
    }

    /// Somebody asks: whether the limit is now higher than it was.
    pub fn limit_was_raised(&self) -> bool {
        self.limit.is_some_and(|(trouble, then)| {
            Limit::behind(trouble).is_some_and(|now| now.value > then.value)
        })
    }

    /// Whether it is time to look whether we are still wanted; once.
    pub fn is_time_to_look(&mut self, now: Instant) -> bool {
        let due = self.look_at.is_some_and(|at| now >= at);
        if due {
            self.look_at = Some(now + LOOK);
        }
        due
    }

    /// When the next look is due.
    pub fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Whether it is time to try again; once.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.at.is_some_and(|at| now >= at);
        if due {
            self.try_now();
        }
        due
    }

    /// Tries are made without waiting for the time.
    pub fn try_now(&mut self) {
        self.at = None;
        self.look_at = None;
        self.limit = None;
        self.census = None;
    }

    /// When the next try is due.
    pub fn due_at(&self) -> Option<Instant> {
        self.at
    }

    /// Whether there is something to count.
    pub fn is_counting(&self) -> bool {
        self.census.is_some()
    }

    /// Counts on until `until`.
    pub fn count(&mut self, backend: &mut dyn Backend, until: Instant) {
        let found = self
            .census
            .as_mut()
            .and_then(|census| census.go_on(backend, until));
        if let Some(directories) = found {
            self.census = None;
            self.needed = Some(directories + GUARDS);
        }
    }

    /// How many of what is limited this worktree needs; `None` if that is not known (yet).
    pub fn needed(&self) -> Option<u64> {
        self.needed
    }
}
