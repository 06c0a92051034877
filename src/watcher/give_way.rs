//! Giving way to the command beside which a long walk goes on.
//!
//! A watcher has a session of its own, and where the kernel groups processes by session,
//! each session gets as much of a busy processor as any other (sched(7), "The autogroup
//! feature"): the walk would take a third or half of one from all the threads of the git
//! that is waiting for nothing else. So for the rest of a first walk that turned out to be
//! long, its session counts for a tenth, but not for longer than [`AT_MOST`]: on a machine
//! that is busy with other things the walk has to end as well.
//!
//! The niceness of the process would do nothing against another session, and nobody but
//! root can take it back.

use std::io;
use std::time::{Duration, Instant};

/// So long it gives way.
const AT_MOST: Duration = Duration::from_secs(2);

/// Whoever is not root can change the group's niceness ten times a second, counted for the
/// whole system (kernel: autogroup.c, `proc_sched_autogroup_set_nice`).
const AGAIN: Duration = Duration::from_millis(100);

/// The niceness of the session: its weight is 110 instead of 1024.
const NICE: &str = "10";

/// Whether a watcher gives way.
#[derive(Default)]
pub enum GiveWay {
    /// It may, once: its session is its own.
    Ready,
    /// It does, until then.
    Until(Instant),
    /// It did, or its session is not its own.
    #[default]
    Never,
}

impl GiveWay {
    /// The walk takes long, and a command goes on without its end.
    pub fn begin(&mut self, now: Instant) {
        if matches!(self, Self::Ready) {
            *self = match set(NICE) {
                Ok(()) => Self::Until(now + AT_MOST),
                // No such groups here, or /proc may not be written to.
                Err(_) => Self::Never,
            };
        }
    }

    /// The walk has ended.
    pub fn end(&mut self, now: Instant) {
        match self {
            Self::Until(at) => *at = now.min(*at),
            Self::Ready => *self = Self::Never,
            Self::Never => {}
        }
    }

    /// When [`GiveWay::proceed`] has something to do.
    pub fn due_at(&self) -> Option<Instant> {
        match self {
            Self::Until(at) => Some(*at),
            Self::Ready | Self::Never => None,
        }
    }

    /// Stops giving way if it is time to.
    pub fn proceed(&mut self, now: Instant) {
        if self.due_at().is_some_and(|at| now >= at) {
            *self = match set("0") {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::Until(now + AGAIN),
                _ => Self::Never,
            };
        }
    }
}

fn set(nice: &str) -> io::Result<()> {
    std::fs::write("/proc/self/autogroup", nice)
}
