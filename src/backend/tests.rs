//! What every backend promises, on the real file system: the same tests for each.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::disk::Disk;
use super::*;
use crate::watcher::journal::Limits;
use crate::watcher::tracker::{Changes, Phase, Pumped, Tracker};

mod by_itself;
mod tracked;

/// The working directory is one for the whole process, and [`OnDisk::enter`] changes it.
static CWD: Mutex<()> = Mutex::new(());

/// Limit for waiting, far above what anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A directory of its own for one test: `tree` is the worktree, `state` our own files.
pub(super) struct Place {
    dir: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    pub(super) fn new() -> Self {
        let alone = CWD.lock().unwrap_or_else(PoisonError::into_inner);
        let template = std::env::temp_dir().join("treewatch-test-XXXXXX");
        let dir = nix::unistd::mkdtemp(&template).unwrap();
        let dir = dir.canonicalize().unwrap();
        fs::create_dir(dir.join("tree")).unwrap();
        fs::create_dir(dir.join("state")).unwrap();
        Self { dir, _alone: alone }
    }

    fn tree(&self, path: &str) -> PathBuf {
        self.dir.join("tree").join(path)
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    pub(super) fn disk(&self) -> Disk {
        Disk::new(&self.dir.join("tree")).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::env::set_current_dir("/").unwrap();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// One told event, without what only one backend says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    watch: WatchId,
    what: What,
    is_dir: bool,
    name: String,
}

fn drain(backend: &mut dyn Backend) -> Vec<Told> {
    let mut told = Vec::new();
    let drained = backend.drain(&mut |event| {
        told.push(Told {
            watch: event.watch,
            what: event.what,
            is_dir: event.is_dir,
            name: String::from_utf8_lossy(event.name).into_owned(),
        });
    });
    assert_eq!(drained, Drained::Complete, "{}", backend.why_lost());
    told
}

fn told(events: &[Told], watch: WatchId, what: What, name: &str) -> bool {
    events
        .iter()
        .any(|e| e.watch == watch && e.what == what && e.name == name)
}

fn is_readable(backend: &dyn Backend, limit: Duration) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(backend.wakeup().unwrap(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::try_from(limit).unwrap()).unwrap() > 0
}

fn watch(backend: &mut dyn Backend, path: &str) -> Result<WatchId, WatchError> {
    backend.disk().enter().unwrap();
    let result = backend.watch(path.as_bytes());
    backend.disk().leave();
    result
}

macro_rules! contract {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            fn make(place: &Place) -> Box<dyn Backend> {
                let make: fn(&Place) -> Box<dyn Backend> = $make;
                make(place)
            }

            contract!(by_itself
                every_kind_of_change_is_told
                what_is_written_through_an_open_file_is_told_at_once
                a_drain_holds_everything_done_before_it
                only_directories_are_watched_and_no_link_is_followed
                a_directory_is_known_again_until_it_is_another
                every_place_is_found_wherever_the_last_look_went
                a_watch_set_too_early_is_not_lost_silently
                a_watch_set_during_a_rename_is_not_lost_silently
                a_guarded_directory_tells_what_goes_and_wakes_for_nothing_else
                nothing_of_before_comes_after_a_restart
                an_unwatched_directory_is_silent
                too_many_events_are_a_loss
            );
            contract!(tracked
                the_tracker_names_what_changed_and_no_more
                a_renamed_directory_is_followed_or_everything
                a_file_and_a_directory_take_turns
                a_second_name_of_a_file_is_everything
                a_file_written_under_a_name_that_was_removed_is_everything
                a_file_written_under_a_name_that_is_another_s_now_is_everything
                a_mode_changed_by_a_name_of_an_instant_is_everything
                a_renamed_top_goes_on
                a_removed_top_is_gone
                an_unreadable_directory_is_named_until_it_can_be_read
                what_nobody_asks_for_is_taken_in
                a_directory_comes_over_an_empty_one
                what_changes_during_a_look_is_watched_in_the_end
                random_changes_are_never_missed
            );
        }
    };
    (by_itself $($test:ident)*) => {
        $(#[test]
        fn $test() {
            let place = Place::new();
            by_itself::$test(&place, &mut *make(&place));
        })*
    };
    (tracked $($test:ident)*) => {
        $(#[test]
        fn $test() {
            let place = Place::new();
            tracked::$test(&place, make(&place));
        })*
    };
}

#[cfg(target_os = "linux")]
contract!(inotify, |place| Box::new(
    crate::backend::inotify::Inotify::new(place.disk())
));
#[cfg(target_os = "linux")]
contract!(notify, |place| Box::new(
    crate::backend::notify::Notify::new(
        place.disk(),
        &place.state(),
        std::ffi::OsStr::new("0123456789abcdef")
    )
));
