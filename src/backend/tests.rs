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

/// The working directory is one for the whole process, and [`Backend::enter`] changes it.
static CWD: Mutex<()> = Mutex::new(());

/// Limit for waiting, far above what anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A directory of its own for one test: `tree` is the worktree, `state` our own files.
struct Place {
    dir: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    fn new() -> Self {
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

    fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn disk(&self) -> Disk {
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
    backend.enter().unwrap();
    let result = backend.watch(path.as_bytes());
    backend.leave();
    result
}

// --- the trait by itself ---

fn every_kind_of_change_is_told(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    fs::create_dir(place.tree("sub")).unwrap();
    fs::write(place.tree("old"), "x").unwrap();
    fs::write(place.tree("sub/gone"), "x").unwrap();
    fs::write(place.tree("sub/from"), "x").unwrap();
    let top = watch(backend, "").unwrap();
    let sub = watch(backend, "sub").unwrap();
    assert!(top > 0 && sub > 0 && top != sub);
    assert_eq!(drain(backend), []);

    fs::write(place.tree("new"), "x").unwrap();
    fs::write(place.tree("old"), "y").unwrap();
    fs::create_dir(place.tree("dir")).unwrap();
    fs::remove_file(place.tree("sub/gone")).unwrap();
    fs::rename(place.tree("sub/from"), place.tree("to")).unwrap();
    symlink("sub", place.tree("link")).unwrap();
    fs::set_permissions(place.tree("old"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(is_readable(backend, LIMIT));
    let events = drain(backend);
    for (watch, what, name) in [
        (top, What::Created, "new"),
        (top, What::Written, "old"),
        (top, What::Created, "dir"),
        (sub, What::Deleted, "gone"),
        (sub, What::MovedFrom, "from"),
        (top, What::MovedTo, "to"),
        (top, What::Created, "link"),
        (top, What::Attributes, "old"),
    ] {
        assert!(
            told(&events, watch, what, name),
            "{what:?} {name}: {events:?}"
        );
    }
    let made = events.iter().filter(|e| e.what == What::Created);
    let dirs: Vec<_> = made.filter(|e| e.is_dir).map(|e| &e.name[..]).collect();
    assert_eq!(dirs, ["dir"]);
    assert_eq!(drain(backend), []);
    assert!(!is_readable(backend, Duration::ZERO));
}

fn what_is_written_through_an_open_file_is_told_at_once(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    let mut file = fs::File::create(place.tree("f")).unwrap();
    let top = watch(backend, "").unwrap();
    drain(backend);
    file.write_all(b"x").unwrap();
    assert!(told(&drain(backend), top, What::Written, "f"));
}

/// The point of it all: nothing done before a drain is missed by it.
fn a_drain_holds_everything_done_before_it(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    fs::create_dir(place.tree("sub")).unwrap();
    watch(backend, "").unwrap();
    let sub = watch(backend, "sub").unwrap();
    for i in 0..2000 {
        let name = format!("f{i}");
        let path = place.tree("sub").join(&name);
        match i % 3 {
            0 => {
                fs::write(&path, "x").unwrap();
                assert!(told(&drain(backend), sub, What::Created, &name), "{i}");
            }
            1 => {
                let old = format!("f{}", i - 1);
                fs::write(place.tree("sub").join(&old), "y").unwrap();
                assert!(told(&drain(backend), sub, What::Written, &old), "{i}");
            }
            _ => {
                let old = format!("f{}", i - 2);
                fs::remove_file(place.tree("sub").join(&old)).unwrap();
                assert!(told(&drain(backend), sub, What::Deleted, &old), "{i}");
            }
        }
    }
}

fn only_directories_are_watched_and_no_link_is_followed(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    fs::create_dir(place.tree("sub")).unwrap();
    fs::write(place.tree("file"), "x").unwrap();
    symlink("sub", place.tree("link")).unwrap();
    symlink("nowhere", place.tree("broken")).unwrap();
    watch(backend, "").unwrap();
    for path in ["file", "link", "broken", "missing", "missing/x", "file/x"] {
        let result = watch(backend, path);
        assert!(
            matches!(result, Err(WatchError::NotADirectory)),
            "{path}: {result:?}"
        );
    }
}

fn a_directory_is_known_again_until_it_is_another(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    fs::create_dir(place.tree("sub")).unwrap();
    watch(backend, "").unwrap();
    let first = watch(backend, "sub").unwrap();
    assert_eq!(watch(backend, "sub").unwrap(), first);
    // The same inode number may well be given out again.
    fs::remove_dir(place.tree("sub")).unwrap();
    fs::create_dir(place.tree("sub")).unwrap();
    drain(backend);
    let second = watch(backend, "sub").unwrap();
    assert_ne!(second, first);
    fs::write(place.tree("sub/f"), "x").unwrap();
    assert!(told(&drain(backend), second, What::Created, "f"));
}

/// A directory that is watched before the events that concern it were read goes on being
/// watched afterwards, or is said not to be.
fn a_watch_set_too_early_is_not_lost_silently(place: &Place, backend: &mut dyn Backend) {
    for round in 0..300 {
        let _ = fs::remove_dir_all(place.tree("a"));
        let _ = fs::remove_dir_all(place.tree("b"));
        fs::create_dir_all(place.tree("a/sub")).unwrap();
        backend.restart().unwrap();
        watch(backend, "").unwrap();
        watch(backend, "a").unwrap();
        watch(backend, "a/sub").unwrap();
        drain(backend);
        // Renamed, or replaced; and registered at once.
        let (dir, inner) = if round % 2 == 0 {
            fs::rename(place.tree("a"), place.tree("b")).unwrap();
            ("b", "b/sub")
        } else {
            fs::remove_dir_all(place.tree("a")).unwrap();
            fs::create_dir_all(place.tree("a/sub")).unwrap();
            ("a", "a/sub")
        };
        let ids = [watch(backend, dir).unwrap(), watch(backend, inner).unwrap()];
        // Whoever is told that a watch is gone sets it again, until it stays.
        let mut names = [dir, inner].into_iter().zip(ids).collect::<Vec<_>>();
        for _ in 0..4 {
            let events = drain(backend);
            for (name, id) in &mut names {
                if events
                    .iter()
                    .any(|e| e.what == What::WatchGone && e.watch == *id)
                {
                    *id = watch(backend, name).unwrap();
                }
            }
        }
        for (name, id) in names {
            fs::write(place.tree(name).join("f"), "x").unwrap();
            let events = drain(backend);
            assert!(
                told(&events, id, What::Created, "f"),
                "{round} {name}: {events:?}"
            );
        }
    }
}

fn a_guarded_directory_tells_what_goes_and_wakes_for_nothing_else(
    place: &Place,
    backend: &mut dyn Backend,
) {
    backend.restart().unwrap();
    fs::write(place.state().join("x.sock"), "").unwrap();
    fs::write(place.state().join("config.lock"), "").unwrap();
    let guard = backend.guard(place.state().as_os_str().as_bytes()).unwrap();
    watch(backend, "").unwrap();
    drain(backend);
    fs::write(place.state().join("x.log"), "x").unwrap();
    fs::write(place.state().join("x.log"), "y").unwrap();
    let events = drain(backend);
    assert_eq!(events, []);
    assert!(!is_readable(backend, Duration::ZERO));
    fs::rename(
        place.state().join("config.lock"),
        place.state().join("config"),
    )
    .unwrap();
    fs::remove_file(place.state().join("x.sock")).unwrap();
    let events = drain(backend);
    assert!(told(&events, guard, What::MovedTo, "config"), "{events:?}");
    assert!(told(&events, guard, What::Deleted, "x.sock"), "{events:?}");
    let missing = place.dir.join("missing");
    assert!(matches!(
        backend.guard(missing.as_os_str().as_bytes()),
        Err(WatchError::NotADirectory)
    ));
}

fn nothing_of_before_comes_after_a_restart(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    watch(backend, "").unwrap();
    for i in 0..50 {
        fs::write(place.tree(&format!("f{i}")), "x").unwrap();
        backend.restart().unwrap();
        assert_eq!(drain(backend), []);
        watch(backend, "").unwrap();
        assert_eq!(drain(backend), []);
    }
    backend.shut();
    assert!(backend.wakeup().is_none());
    fs::write(place.tree("last"), "x").unwrap();
    assert_eq!(drain(backend), []);
}

fn an_unwatched_directory_is_silent(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    fs::create_dir(place.tree("sub")).unwrap();
    watch(backend, "").unwrap();
    let sub = watch(backend, "sub").unwrap();
    backend.unwatch(sub);
    backend.unwatch(sub);
    fs::write(place.tree("sub/f"), "x").unwrap();
    let events = drain(backend);
    assert!(events.iter().all(|e| e.name != "f"), "{events:?}");
    let again = watch(backend, "sub").unwrap();
    fs::write(place.tree("sub/g"), "x").unwrap();
    assert!(told(&drain(backend), again, What::Created, "g"));
}

fn too_many_events_are_a_loss(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    watch(backend, "").unwrap();
    // Many of them, in more than one directory so that none are merged, and nobody reads
    // meanwhile: more than any queue holds.
    fs::create_dir(place.tree("sub")).unwrap();
    watch(backend, "sub").unwrap();
    for i in 0..40_000 {
        let dir = if i % 2 == 0 { "f" } else { "sub/f" };
        fs::File::create(place.tree(dir)).unwrap();
        fs::remove_file(place.tree(dir)).unwrap();
    }
    assert_eq!(backend.drain(&mut |_| {}), Drained::Lost);
    assert!(!backend.why_lost().is_empty());
    backend.restart().unwrap();
    let top = watch(backend, "").unwrap();
    fs::write(place.tree("after"), "x").unwrap();
    assert!(told(&drain(backend), top, What::Created, "after"));
}

// --- the tracker on it ---

fn settle<B: Backend>(tracker: &mut Tracker<B>) {
    let until = Instant::now() + LIMIT;
    loop {
        match tracker.pump(Instant::now() + LIMIT) {
            Pumped::Settled => return,
            Pumped::Busy if Instant::now() < until => {}
            other => panic!("{other:?} {:?}", tracker.phase()),
        }
    }
}

/// The changes since `place`, sorted; `None` for everything.
fn changes<B: Backend>(tracker: &mut Tracker<B>, place: &mut u64) -> Option<Vec<String>> {
    settle(tracker);
    let since = *place;
    *place = tracker.place();
    match tracker.since(since) {
        Changes::Everything => None,
        Changes::Paths(blind, paths) => {
            let mut all: Vec<String> = paths
                .map(<[u8]>::to_vec)
                .chain(blind)
                .map(|path| String::from_utf8_lossy(&path).into_owned())
                .collect();
            all.sort();
            all.dedup();
            Some(all)
        }
    }
}

fn begin(place: &Place, backend: Box<dyn Backend>) -> (Tracker<Box<dyn Backend>>, u64) {
    fs::create_dir_all(place.tree("a/x/y")).unwrap();
    fs::write(place.tree("a/x/y/f"), "1").unwrap();
    fs::write(place.tree("top"), "1").unwrap();
    let mut tracker = Tracker::new(backend, Limits::default());
    tracker.guard(vec![place.state().as_os_str().as_bytes().to_vec()]);
    settle(&mut tracker);
    let at = tracker.place();
    (tracker, at)
}

fn paths(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

fn the_tracker_names_what_changed_and_no_more(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    assert_eq!(changes(&mut tracker, &mut at), paths(&[]));
    let before = at;
    fs::write(place.tree("a/x/y/f"), "2").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["a/x/y/f"]));
    assert_ne!(at, before);
    fs::set_permissions(place.tree("top"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["top"]));
    fs::rename(place.tree("top"), place.tree("a/moved")).unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["a/moved", "top"]));
    // As editors do it.
    fs::write(place.tree("a/.tmp"), "3").unwrap();
    fs::rename(place.tree("a/.tmp"), place.tree("a/moved")).unwrap();
    assert_eq!(
        changes(&mut tracker, &mut at),
        paths(&["a/.tmp", "a/moved"])
    );
    fs::create_dir_all(place.tree("n/e/w/e/r")).unwrap();
    fs::write(place.tree("n/e/w/e/r/f"), "1").unwrap();
    let new = changes(&mut tracker, &mut at).unwrap();
    assert!(new.contains(&"n/e/w/e/r/f".to_owned()), "{new:?}");
    assert!(new.iter().all(|path| path.starts_with('n')), "{new:?}");
    fs::remove_dir_all(place.tree("n")).unwrap();
    let gone = changes(&mut tracker, &mut at).unwrap();
    assert!(gone.contains(&"n/e/w/e/r/f".to_owned()), "{gone:?}");
    assert!(gone.contains(&"n".to_owned()), "{gone:?}");
    assert!(gone.iter().all(|path| path.starts_with('n')), "{gone:?}");
    // A directory's own attributes are no reason for more than its name.
    fs::set_permissions(place.tree("a/x"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["a/x"]));
    assert_eq!(tracker.resyncs().0, 0);
    assert_eq!(changes(&mut tracker, &mut at), paths(&[]));
}

fn a_renamed_directory_is_followed_or_everything(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "d/e"), ("d/e", "a")] {
        if to == "d/e" {
            fs::create_dir(place.tree("d")).unwrap();
            changes(&mut tracker, &mut at);
        }
        fs::rename(place.tree(from), place.tree(to)).unwrap();
        if let Some(named) = changes(&mut tracker, &mut at) {
            for dir in [from, to] {
                let file = format!("{dir}/x/y/f");
                assert!(named.contains(&file), "{from} {to}: {named:?}");
            }
        }
        // Two levels below it, and from now on exactly.
        fs::write(place.tree(to).join("x/y/f"), "2").unwrap();
        let named = changes(&mut tracker, &mut at);
        assert_eq!(named, paths(&[&format!("{to}/x/y/f")]), "{from} {to}");
    }
    assert_eq!(tracker.resyncs().0, 0);
}

fn a_file_and_a_directory_take_turns(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    for i in 0..100 {
        if i % 2 == 0 {
            fs::remove_dir_all(place.tree("a")).unwrap();
            fs::write(place.tree("a"), "x").unwrap();
            let named = changes(&mut tracker, &mut at);
            assert!(
                named.is_none_or(
                    |n| n.contains(&"a".to_owned()) && n.contains(&"a/x/y/f".to_owned())
                )
            );
            fs::write(place.tree("a"), "y").unwrap();
            assert_eq!(changes(&mut tracker, &mut at), paths(&["a"]));
        } else {
            fs::remove_file(place.tree("a")).unwrap();
            fs::create_dir_all(place.tree("a/x/y")).unwrap();
            fs::write(place.tree("a/x/y/f"), "x").unwrap();
            let named = changes(&mut tracker, &mut at);
            assert!(named.is_none_or(|n| n.contains(&"a/x/y/f".to_owned())));
            fs::write(place.tree("a/x/y/f"), "y").unwrap();
            assert_eq!(changes(&mut tracker, &mut at), paths(&["a/x/y/f"]), "{i}");
        }
    }
    assert_eq!(tracker.resyncs().0, 0);
}

fn a_second_name_of_a_file_is_everything(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    fs::hard_link(place.tree("a/x/y/f"), place.tree("other")).unwrap();
    changes(&mut tracker, &mut at);
    fs::write(place.tree("other"), "2").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), None);
    fs::remove_file(place.tree("other")).unwrap();
    changes(&mut tracker, &mut at);
    fs::write(place.tree("top"), "2").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["top"]));
}

fn a_renamed_top_goes_on(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    let new = place.dir.join("elsewhere");
    fs::rename(place.dir.join("tree"), &new).unwrap();
    fs::create_dir(new.join("made")).unwrap();
    let instance = tracker.instance().to_owned();
    assert_eq!(tracker.pump(Instant::now() + LIMIT), Pumped::NoTop);
    assert!(tracker.take_suspicion());
    assert!(!tracker.top_is_gone());
    assert!(!tracker.backend().relocate(b"/"));
    assert!(tracker.backend().relocate(new.as_os_str().as_bytes()));
    let first = changes(&mut tracker, &mut at);
    if tracker.instance() == instance {
        assert_eq!(first, paths(&["made"]));
    }
    fs::write(new.join("made/f"), "x").unwrap();
    fs::write(new.join("a/x/y/f"), "x").unwrap();
    let named = changes(&mut tracker, &mut at);
    assert_eq!(named, paths(&["a/x/y/f", "made/f"]));
    fs::rename(&new, place.dir.join("tree")).unwrap();
}

fn a_removed_top_is_gone(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, _) = begin(place, backend);
    fs::remove_dir_all(place.dir.join("tree")).unwrap();
    let _ = tracker.pump(Instant::now() + LIMIT);
    assert!(tracker.take_suspicion());
    assert!(tracker.top_is_gone());
}

fn an_unreadable_directory_is_named_until_it_can_be_read(place: &Place, backend: Box<dyn Backend>) {
    if nix::unistd::geteuid().is_root() {
        // Root may read anything: seen in t/, as another user.
        return;
    }
    let (mut tracker, mut at) = begin(place, backend);
    fs::create_dir(place.tree("dark")).unwrap();
    fs::set_permissions(place.tree("dark"), fs::Permissions::from_mode(0)).unwrap();
    changes(&mut tracker, &mut at);
    assert_eq!(changes(&mut tracker, &mut at), paths(&["dark"]));
    fs::set_permissions(place.tree("dark"), fs::Permissions::from_mode(0o700)).unwrap();
    changes(&mut tracker, &mut at);
    fs::write(place.tree("dark/f"), "x").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["dark/f"]));
}

/// While nobody asks, everything is taken in all the same.
fn what_nobody_asks_for_is_taken_in(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    for i in 0..20 {
        fs::create_dir_all(place.tree(&format!("n{i}/sub"))).unwrap();
        fs::write(place.tree(&format!("n{i}/sub/f")), "x").unwrap();
        let pumped = tracker.pump_unasked(Instant::now() + LIMIT);
        assert!(
            matches!(pumped, Pumped::Idle | Pumped::Settled),
            "{pumped:?}"
        );
    }
    let named = changes(&mut tracker, &mut at).unwrap();
    for i in 0..20 {
        assert!(named.contains(&format!("n{i}/sub/f")), "{i}: {named:?}");
    }
    fs::write(place.tree("n7/sub/f"), "y").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["n7/sub/f"]));
}

/// Random changes against what lstat says: whatever differs is named, or everything is.
fn random_changes_are_never_missed(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    let mut seed: u64 = 0x1234_5678_9abc_def1;
    let mut dice = |n: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) % n
    };
    let mut before = snapshot(&place.tree(""));
    let (mut exact, mut everything) = (0, 0);
    for round in 0..400 {
        for _ in 0..=dice(6) {
            let mut path = || {
                let parts: Vec<_> = (0..=dice(3))
                    .map(|_| ["p", "q", "r"][dice(3) as usize])
                    .collect();
                place.tree(&parts.join("/"))
            };
            let (one, two) = (path(), path());
            let _ = match dice(8) {
                0 | 1 => fs::write(&one, dice(1000).to_string()),
                2 | 3 => fs::create_dir_all(&one),
                4 => fs::rename(&one, &two),
                5 => fs::remove_file(&one),
                6 => fs::remove_dir_all(&one),
                _ => fs::write(one.join("f"), dice(1000).to_string()),
            };
            if dice(3) == 0 {
                // In the middle of things, as a wake-up does.
                tracker.pump_unasked(Instant::now() + LIMIT);
            }
        }
        let named = changes(&mut tracker, &mut at);
        let after = snapshot(&place.tree(""));
        let Some(named) = named else {
            everything += 1;
            before = after;
            continue;
        };
        exact += 1;
        for (path, entry) in &before {
            let same = after.get(path) == Some(entry);
            assert!(
                same || named.contains(path),
                "{round}: {path} changed: {named:?}"
            );
        }
        for path in after.keys().filter(|path| !before.contains_key(*path)) {
            assert!(named.contains(path), "{round}: {path} is new: {named:?}");
        }
        before = after;
    }
    assert!(exact > 100, "{exact} exact, {everything} everything");
    assert_eq!(tracker.resyncs().0, 0);
    assert_eq!(tracker.phase(), Phase::Watching);
}

/// Every file below `dir`: inode, size, and when it changed.
fn snapshot(dir: &Path) -> std::collections::BTreeMap<String, (u64, u64, i64, i64)> {
    fn walk(
        dir: &Path,
        below: &str,
        all: &mut std::collections::BTreeMap<String, (u64, u64, i64, i64)>,
    ) {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{below}{}", entry.file_name().to_string_lossy());
            let found = entry.path().symlink_metadata().unwrap();
            if found.is_dir() {
                walk(&entry.path(), &format!("{path}/"), all);
            } else {
                all.insert(
                    path,
                    (found.ino(), found.size(), found.mtime(), found.mtime_nsec()),
                );
            }
        }
    }
    let mut all = Default::default();
    walk(dir, "", &mut all);
    all
}

macro_rules! contract {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;

            fn make(place: &Place) -> Box<dyn Backend> {
                let make: fn(&Place) -> Box<dyn Backend> = $make;
                make(place)
            }

            contract!(@by_itself
                every_kind_of_change_is_told
                what_is_written_through_an_open_file_is_told_at_once
                a_drain_holds_everything_done_before_it
                only_directories_are_watched_and_no_link_is_followed
                a_directory_is_known_again_until_it_is_another
                a_watch_set_too_early_is_not_lost_silently
                a_guarded_directory_tells_what_goes_and_wakes_for_nothing_else
                nothing_of_before_comes_after_a_restart
                an_unwatched_directory_is_silent
                too_many_events_are_a_loss
            );
            contract!(@tracked
                the_tracker_names_what_changed_and_no_more
                a_renamed_directory_is_followed_or_everything
                a_file_and_a_directory_take_turns
                a_second_name_of_a_file_is_everything
                a_renamed_top_goes_on
                a_removed_top_is_gone
                an_unreadable_directory_is_named_until_it_can_be_read
                what_nobody_asks_for_is_taken_in
                random_changes_are_never_missed
            );
        }
    };
    (@by_itself $($test:ident)*) => {
        $(#[test]
        fn $test() {
            let place = Place::new();
            super::$test(&place, &mut *make(&place));
        })*
    };
    (@tracked $($test:ident)*) => {
        $(#[test]
        fn $test() {
            let place = Place::new();
            super::$test(&place, make(&place));
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
