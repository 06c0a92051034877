//! The state of a watcher as JSON, for `treewatch status`.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::front::HookAnswer;
use super::limits::Limit;
use super::recovery::Recovery;
use super::serve::Parts;
use super::tracker::{Phase, Trouble};
use crate::wire::PROTOCOL;

/// What a watcher counts.
pub struct Counters {
    started: Instant,
    queries: u64,
    exact: u64,
    /// How often an answer was "everything", for each reason.
    everything: Vec<(&'static str, u64)>,
    /// Time from request to answer, summed over all queries.
    spent: Duration,
    /// The longest of them.
    longest: Duration,
    /// Resyncs that are in the log.
    pub resyncs_logged: u64,
    /// When the last one was.
    pub last_resync: Option<SystemTime>,
    /// Which remote file system keeps us from watching.
    pub remote: Option<&'static str>,
}

impl Counters {
    /// All at zero.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
            queries: 0,
            exact: 0,
            everything: Vec::new(),
            spent: Duration::ZERO,
            longest: Duration::ZERO,
            resyncs_logged: 0,
            last_resync: None,
            remote: None,
        }
    }

    /// Counts one answered query.
    pub fn note(&mut self, answer: &HookAnswer, took: Duration) {
        self.queries += 1;
        self.spent += took;
        self.longest = self.longest.max(took);
        let Some(why) = answer.everything else {
            self.exact += 1;
            return;
        };
        match self.everything.iter_mut().find(|(known, _)| *known == why) {
            Some((_, times)) => *times += 1,
            None => self.everything.push((why, 1)),
        }
    }
}

/// A trouble in words.
pub fn words(trouble: Trouble) -> String {
    match trouble {
        Trouble::Watches => "the limit of inotify watches is used up".to_owned(),
        Trouble::Instances => "the limit of inotify instances is used up".to_owned(),
        Trouble::Descriptors => "no more files can be opened (ulimit -n)".to_owned(),
        Trouble::Remote => {
            "the file system does not tell of changes made elsewhere (fsmonitor.allowRemote)"
                .to_owned()
        }
        Trouble::Tree(why) => why.to_owned(),
        Trouble::Backend => "the system's file watching cannot be used".to_owned(),
    }
}

/// The state as one JSON object.
pub(super) fn report(parts: &Parts, counters: &Counters, recovery: &Recovery) -> Value {
    let tracker = &parts.tracker;
    let state = tracker.state();
    let (word, reason) = match tracker.phase() {
        Phase::Crawling => ("crawling", None),
        Phase::Watching => ("watching", None),
        Phase::Degraded(trouble) => ("degraded", Some(words(trouble))),
    };
    let limit = match tracker.phase() {
        Phase::Degraded(trouble) => Limit::behind(trouble),
        _ => None,
    };
    let needed = recovery.needed();
    let reason = match (reason, limit) {
        (Some(reason), Some(limit)) => Some(format!("{reason}: {}", limit.words(needed))),
        (reason, _) => reason,
    };
    let (resyncs, why) = tracker.resyncs();
    let seconds = |time: SystemTime| {
        time.duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    };
    json!({
        "state": word,
        "reason": reason,
        "pid": std::process::id(),
        "root": parts.top.to_string_lossy(),
        "git_dir": parts.git_dir.to_string_lossy(),
        "backend": tracker.backend_name(),
        "instance": tracker.instance(),
        "sequence": state.journal.place(),
        "directories": state.tree.len(),
        "watches": state.tree.watched() + state.guards.len(),
        "blind_spots": state.blind.len(),
        "journal_paths": state.journal.paths(),
        "resyncs": resyncs,
        "last_resync": why,
        "last_resync_at": counters.last_resync.map(seconds),
        "queries": counters.queries,
        "exact_answers": counters.exact,
        "full_answers": counters.everything.iter().map(|(_, times)| times).sum::<u64>(),
        "full_reasons": counters.everything.iter().copied().collect::<HashMap<_, _>>(),
        "query_us_mean": (counters.spent.as_secs_f64() * 1e6 / counters.queries.max(1) as f64).round(),
        "query_us_max": (counters.longest.as_secs_f64() * 1e6).round(),
        "last_error": tracker.last_error(),
        "remote": counters.remote,
        "limit": limit.map(|limit| limit.report(needed)),
        "retry_in_s": recovery.due_at().map(|at| at.saturating_duration_since(Instant::now()).as_secs()),
        "rss_bytes": rss(),
        "uptime_s": counters.started.elapsed().as_secs(),
        "socket": parts.files.socket_path().to_string_lossy(),
        "log": parts.files.log.path().to_string_lossy(),
        "protocol": PROTOCOL,
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// Resident memory in bytes (proc(5), `/proc/self/statm`, second field, in pages).
fn rss() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * page as u64)
}
