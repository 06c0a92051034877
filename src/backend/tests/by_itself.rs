//! The trait by itself.

use super::*;

pub fn every_kind_of_change_is_told(place: &Place, backend: &mut dyn Backend) {
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

pub fn what_is_written_through_an_open_file_is_told_at_once(
    place: &Place,
    backend: &mut dyn Backend,
) {
    backend.restart().unwrap();
    let mut file = fs::File::create(place.tree("f")).unwrap();
    let top = watch(backend, "").unwrap();
    drain(backend);
    file.write_all(b"x").unwrap();
    assert!(told(&drain(backend), top, What::Written, "f"));
}

/// The point of it all: nothing done before a drain is missed by it.
pub fn a_drain_holds_everything_done_before_it(place: &Place, backend: &mut dyn Backend) {
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

pub fn only_directories_are_watched_and_no_link_is_followed(
    place: &Place,
    backend: &mut dyn Backend,
) {
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

pub fn a_directory_is_known_again_until_it_is_another(place: &Place, backend: &mut dyn Backend) {
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

/// Looks may start from another directory than the top, where that is nearer.
pub fn every_place_is_found_wherever_the_last_look_went(place: &Place, backend: &mut dyn Backend) {
    for (dir, links) in [("a", 1), ("a/b", 2), ("c", 3)] {
        fs::create_dir_all(place.tree(dir).join("sub")).unwrap();
        fs::write(place.tree(dir).join("f"), "x").unwrap();
        for link in 1..links {
            fs::hard_link(
                place.tree(dir).join("f"),
                place.tree(&format!("{dir}{link}")),
            )
            .unwrap();
        }
    }
    backend.restart().unwrap();
    watch(backend, "").unwrap();
    let ids = ["a", "a/sub", "a/b", "a/b/sub", "c", "c/sub"]
        .map(|dir| (dir, watch(backend, dir).unwrap()));
    // Every way from one look to another, three files in a row among them.
    let dirs = ["a", "a/b", "c"];
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        backend.disk().enter().unwrap();
        for lists in [false, true] {
            for dir in order.map(|i| dirs[i]) {
                let mut names = Vec::new();
                if lists {
                    backend
                        .disk()
                        .list(dir.as_bytes(), &mut |name, _| names.push(name.to_vec()))
                        .unwrap();
                    assert!(names.contains(&b"f".to_vec()));
                }
                let file = format!("{dir}/f");
                for _ in 0..3 {
                    let found = backend.disk().inode(file.as_bytes()).unwrap();
                    let at = dirs.iter().position(|&d| d == dir).unwrap();
                    assert_eq!(found.links, at as u64 + 1, "{order:?} {file}");
                }
                // First and last what is in there, so that the way leads from one to another.
                let sub = format!("{dir}/sub");
                let inside = ids.iter().filter(|(dir, _)| *dir == sub);
                for &(dir, id) in inside.clone().chain(&ids).chain(inside) {
                    let found = backend.watch(dir.as_bytes()).unwrap();
                    assert_eq!(found, id, "{order:?} {dir}");
                    assert!(backend.disk().searchable(dir.as_bytes()));
                }
                assert!(!backend.disk().leaf(b"a/b"));
                assert!(backend.disk().inode(b"f").is_none());
            }
        }
        backend.disk().leave();
        assert_eq!(std::env::current_dir().unwrap(), Path::new("/"));
    }
}

/// A directory that is watched before the events that concern it were read goes on being
/// watched afterwards, or is said not to be.
pub fn a_watch_set_too_early_is_not_lost_silently(place: &Place, backend: &mut dyn Backend) {
    for round in 0..90 {
        let _ = fs::remove_dir_all(place.tree("a"));
        let _ = fs::remove_dir_all(place.tree("b"));
        fs::create_dir_all(place.tree("a/sub")).unwrap();
        backend.restart().unwrap();
        watch(backend, "").unwrap();
        watch(backend, "a").unwrap();
        watch(backend, "a/sub").unwrap();
        drain(backend);
        // Renamed, or replaced, or both; and registered at once.
        let names: &[&str] = match round % 3 {
            0 => {
                fs::rename(place.tree("a"), place.tree("b")).unwrap();
                &["b", "b/sub"]
            }
            1 => {
                fs::remove_dir_all(place.tree("a")).unwrap();
                fs::create_dir_all(place.tree("a/sub")).unwrap();
                &["a", "a/sub"]
            }
            _ => {
                fs::rename(place.tree("a"), place.tree("b")).unwrap();
                watch(backend, "b").unwrap();
                fs::create_dir_all(place.tree("a/sub")).unwrap();
                &["b", "b/sub", "a", "a/sub"]
            }
        };
        let mut names: Vec<_> = names
            .iter()
            .map(|name| (*name, watch(backend, name).unwrap()))
            .collect();
        // Whoever is told that a watch is gone sets it again, until it stays.
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

/// The same while somebody else renames it to and fro, so that every order comes up in
/// which a watch can be set and a rename be read of.
pub fn a_watch_set_during_a_rename_is_not_lost_silently(place: &Place, backend: &mut dyn Backend) {
    fs::create_dir_all(place.tree("a/sub")).unwrap();
    for round in 0..100 {
        backend.restart().unwrap();
        let mut ids = std::collections::BTreeMap::new();
        ids.insert("", watch(backend, "").unwrap());
        let (a, b) = (place.tree("a"), place.tree("b"));
        let other = std::thread::spawn(move || {
            for _ in 0..25 {
                fs::rename(&a, &b).unwrap();
                fs::rename(&b, &a).unwrap();
            }
            fs::rename(&a, &b).unwrap();
        });
        backend.disk().enter().unwrap();
        while !other.is_finished() {
            for path in ["a", "b", "a/sub", "b/sub"] {
                if let Ok(id) = backend.watch(path.as_bytes()) {
                    ids.insert(path, id);
                }
            }
        }
        backend.disk().leave();
        other.join().unwrap();
        ids.insert("b", watch(backend, "b").unwrap());
        ids.insert("b/sub", watch(backend, "b/sub").unwrap());
        loop {
            let mut again = false;
            let mut events = Vec::new();
            let drained = backend.drain(&mut |event| events.push((event.what, event.watch)));
            if drained == Drained::Lost {
                break;
            }
            for path in ["b", "b/sub"] {
                if events.contains(&(What::WatchGone, ids[path])) {
                    ids.insert(path, watch(backend, path).unwrap());
                    again = true;
                }
            }
            if again {
                continue;
            }
            for path in ["b", "b/sub"] {
                fs::write(place.tree(path).join("f"), "x").unwrap();
                let events = drain(backend);
                assert!(
                    told(&events, ids[path], What::Written, "f"),
                    "{round} {path}: {events:?}"
                );
            }
            break;
        }
        fs::rename(place.tree("b"), place.tree("a")).unwrap();
    }
}

pub fn a_guarded_directory_tells_what_goes_and_wakes_for_nothing_else(
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

pub fn nothing_of_before_comes_after_a_restart(place: &Place, backend: &mut dyn Backend) {
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

pub fn an_unwatched_directory_is_silent(place: &Place, backend: &mut dyn Backend) {
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

pub fn too_many_events_are_a_loss(place: &Place, backend: &mut dyn Backend) {
    backend.restart().unwrap();
    watch(backend, "").unwrap();
    // Many of them, in more than one directory so that none are merged, and nobody reads
    // meanwhile: more than any queue holds.
    fs::create_dir(place.tree("sub")).unwrap();
    watch(backend, "sub").unwrap();
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events");
    let queue = queue.map_or(0, |text| text.trim().parse().unwrap());
    // Made, closed and removed; against the kernel's queue and the 65,536 events we keep.
    for i in 0..queue.max(65_536) / 3 + 500 {
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
