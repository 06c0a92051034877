//! The tracker on it.

use super::*;

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
        Changes::Paths(paths) => {
            let mut all: Vec<String> = paths
                .changed
                .map(<[u8]>::to_vec)
                .chain(paths.blind)
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

pub fn the_tracker_names_what_changed_and_no_more(place: &Place, backend: Box<dyn Backend>) {
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

pub fn a_renamed_directory_is_followed_or_everything(place: &Place, backend: Box<dyn Backend>) {
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

pub fn a_file_and_a_directory_take_turns(place: &Place, backend: Box<dyn Backend>) {
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

pub fn a_second_name_of_a_file_is_everything(place: &Place, backend: Box<dyn Backend>) {
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

/// Gives `top` the name `a/second` as well, and opens it by that for writing.
fn open_second_name(place: &Place) -> fs::File {
    fs::hard_link(place.tree("top"), place.tree("a/second")).unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(place.tree("a/second"))
        .unwrap()
}

pub fn a_file_written_under_a_name_that_was_removed_is_everything(
    place: &Place,
    backend: Box<dyn Backend>,
) {
    let (mut tracker, mut at) = begin(place, backend);
    let mut file = open_second_name(place);
    fs::remove_file(place.tree("a/second")).unwrap();
    changes(&mut tracker, &mut at);
    file.write_all(b"2").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), None);
}

pub fn a_file_written_under_a_name_that_is_another_s_now_is_everything(
    place: &Place,
    backend: Box<dyn Backend>,
) {
    let (mut tracker, mut at) = begin(place, backend);
    let mut file = open_second_name(place);
    fs::write(place.tree("other"), "other").unwrap();
    fs::rename(place.tree("other"), place.tree("a/second")).unwrap();
    // Until the time of the rename can be told from the time of what follows.
    let renamed = Instant::now();
    while renamed.elapsed() < Duration::from_millis(400) {
        changes(&mut tracker, &mut at);
    }
    file.write_all(b"2").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), None);
    fs::write(place.tree("a/second"), "x").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["a/second"]));
}

pub fn a_mode_changed_by_a_name_of_an_instant_is_everything(
    place: &Place,
    backend: Box<dyn Backend>,
) {
    let (mut tracker, mut at) = begin(place, backend);
    let file = open_second_name(place);
    file.set_permissions(fs::Permissions::from_mode(0o755))
        .unwrap();
    drop(file);
    fs::remove_file(place.tree("a/second")).unwrap();
    assert_eq!(changes(&mut tracker, &mut at), None);
}

pub fn a_renamed_top_goes_on(place: &Place, backend: Box<dyn Backend>) {
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
        // The second name makes git list the new directory, which is empty.
        assert_eq!(first, paths(&["made", "made/.treewatch"]));
    }
    fs::write(new.join("made/f"), "x").unwrap();
    fs::write(new.join("a/x/y/f"), "x").unwrap();
    let named = changes(&mut tracker, &mut at);
    assert_eq!(named, paths(&["a/x/y/f", "made/f"]));
    fs::rename(&new, place.dir.join("tree")).unwrap();
}

pub fn a_removed_top_is_gone(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, _) = begin(place, backend);
    fs::remove_dir_all(place.dir.join("tree")).unwrap();
    let until = Instant::now() + LIMIT;
    let mut suspicion = false;
    // The notify crate's thread may tell of it after it was found that the top is gone.
    while !tracker.top_is_gone() {
        assert!(Instant::now() < until);
        let _ = tracker.pump(until);
        suspicion |= tracker.take_suspicion();
    }
    assert!(suspicion);
}

pub fn an_unreadable_directory_is_named_until_it_can_be_read(
    place: &Place,
    backend: Box<dyn Backend>,
) {
    if nix::unistd::geteuid().is_root() {
        // Root may read anything: seen in t/, as another user.
        return;
    }
    let (mut tracker, mut at) = begin(place, backend);
    fs::create_dir(place.tree("dark")).unwrap();
    fs::set_permissions(place.tree("dark"), fs::Permissions::from_mode(0o000)).unwrap();
    changes(&mut tracker, &mut at);
    assert_eq!(changes(&mut tracker, &mut at), paths(&["dark"]));
    fs::set_permissions(place.tree("dark"), fs::Permissions::from_mode(0o700)).unwrap();
    changes(&mut tracker, &mut at);
    fs::write(place.tree("dark/f"), "x").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["dark/f"]));
}

/// While nobody asks, everything is taken in all the same.
pub fn what_nobody_asks_for_is_taken_in(place: &Place, backend: Box<dyn Backend>) {
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

/// A directory takes the place of an empty one that somebody still holds open, so that
/// its end is told of late.
pub fn a_directory_comes_over_an_empty_one(place: &Place, backend: Box<dyn Backend>) {
    fs::create_dir_all(place.tree("empty")).unwrap();
    let (mut tracker, mut at) = begin(place, backend);
    let held = fs::File::open(place.tree("empty")).unwrap();
    fs::rename(place.tree("a"), place.tree("empty")).unwrap();
    changes(&mut tracker, &mut at);
    fs::write(place.tree("empty/x/y/f"), "2").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["empty/x/y/f"]));
    drop(held);
    fs::remove_file(place.tree("empty/x/y/f")).unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["empty/x/y/f"]));
    fs::write(place.tree("empty/direct"), "2").unwrap();
    assert_eq!(changes(&mut tracker, &mut at), paths(&["empty/direct"]));
}

/// Somebody renames, makes and removes directories while the tracker looks at them. What
/// is there in the end is watched in the end.
pub fn what_changes_during_a_look_is_watched_in_the_end(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    let dir = place.tree("");
    for round in 0..30u64 {
        let dir = dir.clone();
        let other = std::thread::spawn(move || {
            let mut dice = dice(round + 1);
            for _ in 0..150 {
                let one = dir.join(some_path(&mut dice));
                let two = dir.join(some_path(&mut dice));
                let _ = match dice(5) {
                    0 => fs::create_dir_all(&one),
                    1 | 2 => fs::rename(&one, &two),
                    3 => fs::remove_dir_all(&one),
                    _ => fs::write(one.join("f"), "x"),
                };
            }
        });
        while !other.is_finished() {
            tracker.pump_unasked(Instant::now() + LIMIT);
        }
        other.join().unwrap();
        changes(&mut tracker, &mut at);
        // A late end of something can still come.
        changes(&mut tracker, &mut at);
        let mut probes: Vec<String> = Vec::new();
        for path in directories(&place.tree("")) {
            fs::write(place.tree(&path).join("probe"), round.to_string()).unwrap();
            probes.push(format!("{path}probe"));
        }
        let named = changes(&mut tracker, &mut at).unwrap_or_default();
        for probe in probes {
            assert!(named.contains(&probe), "{round}: {probe}: {named:?}");
        }
    }
}

/// Every directory below `dir`, with a slash at its end.
fn directories(dir: &Path) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut at = 0;
    while at < all.len() {
        for entry in fs::read_dir(dir.join(&all[at])).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                all.push(format!(
                    "{}{}/",
                    all[at],
                    entry.file_name().to_string_lossy()
                ));
            }
        }
        at += 1;
    }
    all
}

/// Numbers below what is asked for, the same each time (xorshift).
fn dice(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = 0x1234_5678_9abc_def1 ^ (seed << 20);
    move |n| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) % n
    }
}

/// A path of one to three parts.
fn some_path(dice: &mut dyn FnMut(u64) -> u64) -> String {
    let parts: Vec<_> = (0..=dice(3))
        .map(|_| ["p", "q", "r"][dice(3) as usize])
        .collect();
    parts.join("/")
}

/// Random changes against what lstat says: whatever differs is named, or everything is.
pub fn random_changes_are_never_missed(place: &Place, backend: Box<dyn Backend>) {
    let (mut tracker, mut at) = begin(place, backend);
    let mut dice = dice(0);
    let mut before = snapshot(&place.tree(""));
    let (mut exact, mut everything) = (0, 0);
    for round in 0..400 {
        for _ in 0..=dice(6) {
            let one = place.tree(&some_path(&mut dice));
            let two = place.tree(&some_path(&mut dice));
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
