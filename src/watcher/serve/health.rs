//! Whether the watcher is still wanted, still in the right place, and able to watch.
//!
//! Nothing here runs by the clock while all is well: an event of a guarded directory, a
//! change of the list of mounts, or a timer of a watcher in trouble leads here.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{End, SLICE, Server};
use crate::backend::Backend;
use crate::config::Config;
use crate::watcher::tracker::{Phase, Trouble};
use crate::watcher::tree::TOP;
use crate::watcher::{files, remote};

/// So long the top may be nowhere to be found before the watcher ends.
pub(super) const HOMELESS: Duration = Duration::from_secs(600);

impl Server {
    /// The top is not where it was: it may have been renamed. Our own files have come
    /// along if they are in it; otherwise, whoever asks now stands in its top.
    pub(super) fn relocate(&mut self) -> bool {
        let mut candidates = Vec::new();
        if self.parts.files.find() {
            // <top>/.git/treewatch
            candidates.extend(
                self.parts
                    .files
                    .dir()
                    .ancestors()
                    .nth(2)
                    .map(Path::to_owned),
            );
        }
        for index in self.parts.clients.asking() {
            let client = self.parts.clients.get_mut(index);
            let cwd = client.pid().map(|pid| format!("/proc/{pid}/cwd"));
            candidates.extend(cwd.and_then(|link| std::fs::read_link(link).ok()));
        }
        for top in candidates {
            if self
                .parts
                .tracker
                .backend()
                .relocate(top.as_os_str().as_bytes())
            {
                self.parts
                    .files
                    .log
                    .line(format_args!("the worktree is now {}", top.display()));
                if let Ok(inside) = self.parts.git_dir.strip_prefix(&self.parts.top) {
                    self.parts.git_dir = top.join(inside);
                }
                self.parts.top = top;
                let guards = super::super::guards(&self.parts.git_dir, &self.parts.files);
                self.parts.tracker.guard(guards);
                self.homeless_since = None;
                // Same mounts, other paths.
                self.mounts.changed(&self.parts.top);
                return true;
            }
        }
        if self.homeless_since.is_none() {
            self.homeless_since = Some(Instant::now());
        }
        false
    }

    pub(super) fn look_at_mounts(&mut self) {
        if self.mounts.changed(&self.parts.top) {
            self.parts
                .tracker
                .resync("a file system was mounted or unmounted in the worktree");
            self.crawl_began = Instant::now();
            self.busy = true;
            self.check_remote();
        }
    }

    pub(super) fn check_remote(&mut self) {
        if self.parts.config.allow_remote {
            return;
        }
        let kind = remote::kind(&self.parts.top)
            .or_else(|| self.mounts.types().find_map(remote::kind_by_name))
            .or_else(|| {
                self.mounts
                    .has_a_file()
                    .then_some("a single file mounted in it")
            });
        self.counters.remote = kind;
        if kind.is_some() {
            self.parts.tracker.degrade(Trouble::Remote);
            self.note_phase();
        }
    }

    pub(super) fn timers(&mut self) -> Option<End> {
        let now = Instant::now();
        self.parts.give_way.proceed(now);
        if self.idle_at().is_some_and(|at| now >= at) {
            return Some(End::Idle);
        }
        if self
            .homeless_since
            .is_some_and(|since| now >= since + HOMELESS)
        {
            return Some(End::TopGone);
        }
        if self.recovery.is_time_to_look(now) {
            let end = self.end_of_things();
            if end.is_some() {
                return end;
            }
            if self.recovery.limit_was_raised() {
                self.try_again();
            }
        }
        if self.recovery.is_due(now) {
            self.try_again();
        }
        if self.recovery.is_counting() {
            let backend = self.parts.tracker.backend();
            self.recovery.count(backend, now + SLICE);
        }
        None
    }

    pub(super) fn try_again(&mut self) {
        self.recovery.try_now();
        self.parts.tracker.resync("trying again");
        self.crawl_began = Instant::now();
        self.busy = true;
        // If it fails at once, it fails anew.
        self.phase = Phase::Crawling;
        self.note_phase();
    }

    /// Something happened to the top, the git directory or our files.
    pub(super) fn check_health(&mut self) -> Option<End> {
        let end = self.end_of_things();
        if end.is_some() {
            return end;
        }
        let config = Config::read(&self.parts.git_dir);
        (config != self.parts.config).then_some(End::NewSettings)
    }

    /// Whether something is gone that we are of no use without.
    fn end_of_things(&mut self) -> Option<End> {
        if !self.parts.files.socket_is_there() {
            return Some(if self.git_dir_is_there() {
                End::SocketGone
            } else {
                End::GitDirGone
            });
        }
        if matches!(self.phase, Phase::Watching) && self.parts.tracker.top_is_gone() {
            return Some(End::TopGone);
        }
        let backend = self.parts.tracker.backend();
        if backend.disk().enter().is_ok() {
            backend.disk().leave();
        } else if !self.relocate() {
            // As long as it is watched it exists, and whoever asks next tells us where.
            let is_watched = self.parts.tracker.state().tree.watch(TOP).is_some();
            return (!is_watched && !self.git_dir_is_there()).then_some(End::TopGone);
        }
        (!self.git_dir_is_there()).then_some(End::GitDirGone)
    }

    /// Whether the git directory is where it was, and not another one in its place.
    fn git_dir_is_there(&self) -> bool {
        let found = files::identity(&self.parts.git_dir);
        found.is_some() && found == self.git_dir_identity
    }
}
