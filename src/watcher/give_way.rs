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

use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// So long it gives way.
const AT_MOST: Duration = Duration::from_secs(2);

/// Whoever is not root can change the group's niceness ten times a second, counted for the
/// whole system (kernel: autogroup.c, `proc_sched_autogroup_set_nice`).
const AGAIN: Duration = Duration::from_millis(100);

/// The niceness of the session: its weight is 110 instead of 1024.
const NICE: &[u8] = b"10";

/// Whether a watcher gives way.
pub enum GiveWay {
    /// It may, once: its session is its own.
    Ready,
    /// It does, until then. What to take it back by is held open: nobody knows whether it
    /// can be opened by then.
    Until(Instant, File),
    /// It did, or its session is not its own.
    Never,
}

impl GiveWay {
    /// The walk takes long, and a command goes on without its end.
    pub fn begin(&mut self, now: Instant) {
        if matches!(self, Self::Ready) {
            *self = match lower() {
                Ok(file) => Self::Until(now + AT_MOST, file),
                // No such groups here, or /proc may not be written to, or somebody else did
                // so a moment ago.
                Err(_) => Self::Never,
            };
        }
    }

    /// The walk has ended.
    pub fn end(&mut self, now: Instant) {
        match self {
            Self::Until(at, _) => *at = now.min(*at),
            Self::Ready => *self = Self::Never,
            Self::Never => {}
        }
    }

    /// When [`GiveWay::proceed`] has something to do.
    pub fn due_at(&self) -> Option<Instant> {
        match self {
            Self::Until(at, _) => Some(*at),
            Self::Ready | Self::Never => None,
        }
    }

    /// Stops giving way if it is time to.
    pub fn proceed(&mut self, now: Instant) {
        let Self::Until(at, file) = self else {
            return;
        };
        if now < *at {
            return;
        }
        match file.write_all(b"0") {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => *at = now + AGAIN,
            _ => *self = Self::Never,
        }
    }
}

fn lower() -> io::Result<File> {
    let mut file = File::options().write(true).open("/proc/self/autogroup")?;
    file.write_all(NICE)?;
    Ok(file)
}
