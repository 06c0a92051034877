//! The event loop: one thread, one poll, nothing that waits for somebody else (but for git,
//! when settings may have changed).
//!
//! Whatever wakes it (a client, an event, a mount, a signal, a timer), a round is the
//! same: read requests; take in events and look at the disk for a few milliseconds;
//! see whether we are still wanted; answer whoever can be answered. With nothing to do it
//! sleeps until something happens, however long.

mod health;

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::clients::Clients;
use super::files::{self, Files};
use super::follow::{self, Echo};
use super::front::{self, HookAnswer};
use super::give_way::GiveWay;
use super::index;
use super::mounts::Mounts;
use super::recovery::Recovery;
use super::report::{self, Counters};
use super::tracker::{Phase, Pumped, Tracker};
use crate::backend::Backend;
use crate::config::Config;
use crate::start::Mark;
use crate::wire::{Kind, Status};

use health::HOMELESS;

/// So long a round may look at the disk before clients are looked after again.
const SLICE: Duration = Duration::from_millis(5);

/// So long a client waits for an exact answer before it gets "everything".
const PATIENCE: Duration = Duration::from_millis(50);

/// So long it waits for a walk in any case. After that, not if the walk looks as if it would
/// take longer than `PATIENCE` by more than a fifth.
const GLIMPSE: Duration = Duration::from_millis(10);

/// So long events are left in the kernel's queue when nobody asks, to be taken in bulk.
/// The queue holds 16,384 of them.
const GATHER: Duration = Duration::from_millis(10);

/// So often within that time they are taken at once.
const PROMPT: u32 = 8;

/// So many events in that time are a storm: what comes next is left to gather from the
/// start, since each waking costs as much as a dozen of them.
const STORM: u64 = 64;

/// Why a watcher ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Somebody asked for it.
    Stopped,
    /// A signal.
    Signal,
    /// No query for long.
    Idle,
    /// The worktree is gone.
    TopGone,
    /// The git directory is gone.
    GitDirGone,
    /// The socket was removed.
    SocketGone,
    /// A setting has changed that a new watcher must begin with.
    NewSettings,
}

impl End {
    /// In words, for the log.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stopped => "told to stop",
            Self::Signal => "told to stop by a signal",
            Self::Idle => "no query for long (treewatch.idleTimeout)",
            Self::TopGone => "the worktree is gone",
            Self::GitDirGone => "the git directory is gone",
            Self::SocketGone => "the socket was removed",
            Self::NewSettings => "the settings have changed",
        }
    }
}

/// What a watcher needs to begin.
pub struct Parts {
    /// The tracker of the worktree.
    pub tracker: Tracker<Box<dyn Backend>>,
    /// The bound socket.
    pub listener: UnixListener,
    /// Connections, perhaps with a first one.
    pub clients: Clients,
    /// Our files.
    pub files: Files,
    /// The settings.
    pub config: Config,
    /// The top.
    pub top: PathBuf,
    /// The git directory.
    pub git_dir: PathBuf,
    /// Becomes readable when a signal to end has come.
    pub signals: UnixStream,
    /// In the foreground, where changes are shown.
    pub echo: Option<Echo>,
    /// Whether it gives way to others while it walks.
    pub give_way: GiveWay,
}

/// A running watcher.
pub struct Server {
    parts: Parts,
    mounts: Mounts,
    counters: Counters,
    /// When the present crawl began.
    crawl_began: Instant,
    /// Events are being left to gather until then.
    gather_until: Option<Instant>,
    /// Since when, and how often, events were taken at once.
    prompt: (Instant, u32),
    /// There is something left to look at.
    busy: bool,
    recovery: Recovery,
    /// Device and inode of the git directory: one that was put in its place is another.
    git_dir_identity: Option<(u64, u64)>,
    last_query: Instant,
    homeless_since: Option<Instant>,
    phase: Phase,
}

impl Server {
    /// A watcher ready to run.
    pub fn new(parts: Parts) -> Self {
        let now = Instant::now();
        let mut server = Self {
            mounts: Mounts::new(&parts.top),
            git_dir_identity: files::identity(&parts.git_dir),
            parts,
            counters: Counters::new(),
            crawl_began: now,
            gather_until: None,
            prompt: (now, 0),
            busy: true,
            recovery: Recovery::new(),
            last_query: now,
            homeless_since: None,
            phase: Phase::Crawling,
        };
        server.check_remote();
        server
    }

    /// Runs until there is a reason to end.
    pub fn run(&mut self) -> End {
        loop {
            let woken = self.wait();
            if woken.signal {
                return End::Signal;
            }
            if woken.mounts {
                self.look_at_mounts();
            }
            if self.mounts.own_is_gone() {
                return End::TopGone;
            }
            for index in woken.clients {
                self.parts.clients.proceed(index);
            }
            // After the others: whoever comes may take the place, and the index, of another.
            if woken.listener {
                self.parts.clients.accept(&self.parts.listener);
            }
            let asking = self.parts.clients.asking();
            let mut pumped = None;
            let waiting = self.parts.clients.any_waits();
            if !asking.is_empty() || self.busy || waiting || self.is_due(woken.events) {
                pumped = Some(self.pump(
                    !asking.is_empty()
                        || self.parts.echo.is_some()
                        || !self.parts.clients.following().is_empty(),
                ));
            }
            if let Some(end) = self.timers() {
                return end;
            }
            if self.parts.tracker.take_suspicion()
                && let Some(end) = self.check_health()
            {
                return end;
            }
            if let Some(pumped) = pumped {
                for index in asking {
                    if self.serve(index, pumped) {
                        return End::Stopped;
                    }
                }
                let parts = &mut self.parts;
                follow::tell(
                    &mut parts.clients,
                    parts.echo.as_mut(),
                    &mut parts.tracker,
                    pumped,
                );
            }
            self.parts.clients.sweep();
        }
    }

    /// Ends: nobody finds us any more, and nothing is left behind.
    pub fn end(mut self, why: End) {
        self.parts
            .files
            .log
            .line(format_args!("ended: {}", why.words()));
        self.parts
            .files
            .remove(why == End::TopGone || why == End::GitDirGone);
        for index in self.parts.clients.asking() {
            let client = self.parts.clients.get_mut(index);
            if client.request() == Some(Kind::Stop) {
                client.answer(Status::Ok, b"");
            }
        }
    }

    fn wait(&mut self) -> Woken {
        let timeout = match self.next_timer() {
            Some(at) => {
                // Rounded up: a timer must be due when we wake for it.
                let left = at.saturating_duration_since(Instant::now());
                let left = left.as_micros().div_ceil(1000);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            }
            None => PollTimeout::NONE,
        };
        let parts = &self.parts;
        let mut fds = vec![
            PollFd::new(parts.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(parts.listener.as_fd(), PollFlags::POLLIN),
        ];
        let events = parts
            .tracker
            .wakeup()
            .filter(|_| self.gather_until.is_none());
        fds.extend(events.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        let mounts = self.mounts.wakeup();
        fds.extend(mounts.map(|fd| PollFd::new(fd, PollFlags::POLLPRI)));
        let first = fds.len();
        fds.extend(parts.clients.iter().map(|client| {
            let (fd, flags) = client.interest();
            PollFd::new(fd, flags)
        }));
        // An interrupted poll is a round in which nothing happened.
        let _ = poll(&mut fds, timeout);
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|flags| !flags.is_empty());
        let mut rest = fds[2..first].iter();
        Woken {
            signal: ready(&fds[0]),
            listener: ready(&fds[1]),
            events: events.is_some() && rest.next().is_some_and(ready),
            mounts: mounts.is_some() && rest.next().is_some_and(ready),
            clients: (0..fds.len() - first)
                .filter(|i| ready(&fds[first + i]))
                .collect(),
        }
    }

    /// When the next round is due even if nothing happens.
    fn next_timer(&self) -> Option<Instant> {
        if self.busy || self.recovery.is_counting() {
            return Some(Instant::now());
        }
        let idle = self.idle_at();
        let homeless = self.homeless_since.map(|since| since + HOMELESS);
        let patience = (!self.parts.clients.asking().is_empty()).then(|| Instant::now() + SLICE);
        [
            idle,
            homeless,
            patience,
            self.gather_until,
            self.recovery.due_at(),
            self.recovery.look_at(),
            self.parts.give_way.due_at(),
            self.parts.clients.next_expiry(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When it ends for want of work; not while somebody follows.
    fn idle_at(&self) -> Option<Instant> {
        let idle = self.parts.config.idle_timeout?;
        let followed = !self.parts.clients.following().is_empty();
        (!followed).then(|| self.last_query + idle)
    }

    /// Whether events are to be taken in now, though nobody asks. The first few are, so
    /// that what was done to a file is looked at while it can be seen (see
    /// [`super::links`]); in a storm they are left to gather.
    fn is_due(&mut self, events: bool) -> bool {
        if let Some(at) = self.gather_until {
            return Instant::now() >= at;
        }
        if !events {
            return false;
        }
        let now = Instant::now();
        if now >= self.prompt.0 + GATHER {
            self.prompt = (now, 0);
        }
        self.prompt.1 += 1;
        if self.prompt.1 > PROMPT {
            self.gather_until = Some(self.prompt.0 + GATHER);
        }
        self.gather_until.is_none()
    }

    fn pump(&mut self, asked: bool) -> Pumped {
        let gathered = self.gather_until.take().is_some();
        let taken = self.parts.tracker.state().taken;
        // A mount may have come between the last poll and a request.
        if self.mounts.woken() {
            self.look_at_mounts();
        }
        let resyncs = self.parts.tracker.resyncs().0;
        let mut pumped = self.pump_once(asked);
        if pumped == Pumped::NoTop && self.relocate() {
            pumped = self.pump_once(asked);
        }
        self.busy = pumped == Pumped::Busy;
        if self.parts.tracker.resyncs().0 != resyncs {
            self.crawl_began = Instant::now();
        }
        self.note_phase();
        if gathered && self.parts.tracker.state().taken.saturating_sub(taken) >= STORM {
            self.gather_until = Some(Instant::now() + GATHER);
        }
        pumped
    }

    fn pump_once(&mut self, asked: bool) -> Pumped {
        let until = Instant::now() + SLICE;
        if asked {
            self.parts.tracker.pump(until)
        } else {
            self.parts.tracker.pump_unasked(until)
        }
    }

    fn note_phase(&mut self) {
        let phase = self.parts.tracker.phase();
        let (resyncs, why) = self.parts.tracker.resyncs();
        if resyncs != self.counters.resyncs_logged {
            self.counters.resyncs_logged = resyncs;
            self.counters.last_resync = Some(std::time::SystemTime::now());
            let why = why.unwrap_or("unknown");
            self.parts.files.log.line(format_args!("resync: {why}"));
        }
        if phase == self.phase {
            return;
        }
        self.phase = phase;
        if phase != Phase::Crawling {
            self.parts.give_way.end(Instant::now());
            // The start has not failed.
            let _ = Mark::Clear.write(self.parts.files.lock());
        }
        let log = &self.parts.files.log;
        match phase {
            Phase::Crawling => {}
            Phase::Watching => {
                let directories = self.parts.tracker.state().tree.len();
                let took = self.crawl_began.elapsed();
                log.line(format_args!(
                    "watching {directories} {} (walked in {took:.0?})",
                    if directories == 1 {
                        "directory"
                    } else {
                        "directories"
                    }
                ));
                self.recovery.done();
            }
            Phase::Degraded(trouble) => {
                let said = self.parts.tracker.last_error();
                let said = said.map_or(String::new(), |said| format!(": {said}"));
                log.line(format_args!(
                    "not watching: {}{said}",
                    report::words(trouble)
                ));
                let guarded = self.parts.tracker.is_guarded();
                self.recovery.begin(trouble, Instant::now(), guarded);
            }
        }
    }

    /// Answers a client if that can be done now. `true`: it wants us to end.
    fn serve(&mut self, index: usize, pumped: Pumped) -> bool {
        let client = self.parts.clients.get_mut(index);
        let (Some(kind), since) = (client.request(), client.asked_at()) else {
            return false;
        };
        match kind {
            Kind::Stop => return true,
            Kind::Status => {
                let report = self.report().to_string();
                self.parts
                    .clients
                    .get_mut(index)
                    .answer(Status::Ok, report.as_bytes());
            }
            Kind::Query => {
                let body = client.body().to_vec();
                if pumped == Pumped::Degraded && self.recovery.limit_was_raised() {
                    self.try_again();
                }
                let Some(answer) = self.hook_answer(&body, pumped, since) else {
                    return false;
                };
                self.last_query = Instant::now();
                self.counters.note(&answer, since.elapsed());
                self.parts
                    .clients
                    .get_mut(index)
                    .answer(Status::Ok, &answer.bytes);
            }
            Kind::Follow => self.parts.clients.begin_following(index),
        }
        false
    }

    /// `None`: an exact answer may still come in time.
    fn hook_answer(&mut self, token: &[u8], pumped: Pumped, since: Instant) -> Option<HookAnswer> {
        let began = if self.phase == Phase::Crawling {
            self.crawl_began
        } else {
            since
        };
        match pumped {
            Pumped::Settled => {
                let (config, git_dir) = (&self.parts.config, &self.parts.git_dir);
                let asker = front::Asker {
                    ignore_case: config.ignore_case,
                    untracked_cache: &mut || {
                        config.untracked_cache || index::may_hold_untracked_cache(git_dir)
                    },
                };
                let answer = front::answer(&mut self.parts.tracker, token, asker);
                let fits = self.parts.clients.has_room_for(answer.bytes.len());
                Some(if fits {
                    answer
                } else {
                    front::unknown("too many answers not taken yet")
                })
            }
            Pumped::Busy if !self.is_hopeless(began.elapsed()) => None,
            Pumped::Busy if self.phase == Phase::Crawling => {
                self.parts.give_way.begin(Instant::now());
                Some(front::unknown("walking the tree"))
            }
            Pumped::Busy | Pumped::Idle => Some(front::unknown("too much to look at in time")),
            Pumped::NoTop => Some(front::unknown("worktree moved away")),
            Pumped::Degraded => Some(front::unknown("not watching")),
        }
    }

    /// Whether there will be no exact answer in time, as far as can be told after so long.
    fn is_hopeless(&self, elapsed: Duration) -> bool {
        if elapsed >= PATIENCE {
            return true;
        }
        let walked = self.parts.tracker.state().walked;
        self.phase == Phase::Crawling
            && elapsed >= GLIMPSE
            && elapsed > PATIENCE.mul_f64(1.2 * walked.clamp(0.0, 1.0))
    }

    fn report(&self) -> serde_json::Value {
        report::report(&self.parts, &self.counters, &self.recovery)
    }
}

/// What a poll found ready.
struct Woken {
    signal: bool,
    listener: bool,
    events: bool,
    mounts: bool,
    clients: Vec<usize>,
}
