//! A query right after a change, many times over; and a writer that never stops.
//!
//! The first asks the hook alone: whatever was changed before it was started is in the
//! answer, by name, or the answer is `/`. The second asks git: every file whose writing
//! ended before `git status` began is in what it says, however much is written meanwhile.

use crate::episode::{Stage, settings};
use crate::exec::{Executor, remove_all};
use crate::monitor::{Backend, Monitor};
use crate::ops::{Bytes, Op, Untracked};
use crate::oracle::{Oracle, paths_of};
use crate::sandbox::{Place, configuration};
use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Files the writer makes before it begins again: git shall not have too much to list.
const RING: u32 = 4000;
/// Times the status is asked for while the writer goes on.
const STATUSES: u32 = 60;

/// `rounds` times (change, then query), then the writer. Is all well?
pub fn run(stage: &Stage, backend: Backend, rounds: u32) -> Result<bool, String> {
    if !backend.is_treewatch() {
        return Ok(true);
    }
    let told = |e: std::io::Error| e.to_string();
    let place = stage.place("races");
    place.remove();
    place.copy_template(&stage.template).map_err(told)?;
    let mut settings = settings(0, Some(1));
    settings.untracked_cache = true;
    settings.untracked = Some(Untracked::All);
    place.configure(&configuration(&settings)).map_err(told)?;
    let mut monitor = Monitor::start(backend, &place, &stage.programs).map_err(told)?;
    let mut good = change_then_query(&place, &monitor, rounds)?;
    good &= never_stopping_writer(&place).map_err(told)?;
    let oracle = Oracle::new(&place, settings);
    if let Err(mismatch) = oracle.compare(Untracked::All, true) {
        println!(
            "not ok - {}: after the races: {}",
            backend.name(),
            mismatch.text
        );
        good = false;
    }
    let stopped = monitor.stop();
    place.remove();
    stopped.map(|()| good)
}

/// The changes of round `n`, and the paths that the answer must name.
fn changes(n: u32) -> (Vec<Op>, Vec<String>) {
    let write = |path: String| Op::Write {
        path: Bytes::of(&path),
        text: n,
    };
    let rename = |from: &str, to: &str| Op::Rename {
        from: Bytes::of(from),
        to: Bytes::of(to),
    };
    let m = n / 8;
    match n % 8 {
        0 => (vec![write(format!("t/new{m}"))], vec![format!("new{m}")]),
        1 => (
            vec![write("t/a/b/c/f".to_owned())],
            vec!["a/b/c/f".to_owned()],
        ),
        2 => {
            let deep = format!("t/d/e/x{m}/y/z");
            let ops = vec![
                Op::MkdirAll {
                    path: Bytes::of(&deep),
                },
                write(format!("{deep}/f")),
            ];
            (ops, vec![format!("d/e/x{m}/y/z/f")])
        }
        3 => {
            // The directory of the round before, renamed, and a change below it.
            let ops = vec![
                rename(&format!("t/d/e/x{m}"), &format!("t/b/x{m}")),
                write(format!("t/b/x{m}/y/z/g")),
            ];
            let gone = format!("d/e/x{m}");
            (
                ops,
                vec![gone, format!("b/x{m}/y/z/g"), format!("b/x{m}/y/z/f")],
            )
        }
        4 => {
            let ops = vec![write(format!("t/b/x{m}/y/z/f"))];
            (ops, vec![format!("b/x{m}/y/z/f")])
        }
        5 => {
            let path = Bytes::of(&format!("t/b/x{m}"));
            (vec![Op::RemoveAll { path }], vec![format!("b/x{m}")])
        }
        6 => {
            let path = Bytes::of(&format!("t/new{m}"));
            (vec![Op::Unlink { path }], vec![format!("new{m}")])
        }
        _ => {
            let (path, mode) = (
                Bytes::of("t/c/f"),
                if m.is_multiple_of(2) { 0o755 } else { 0o644 },
            );
            (vec![Op::Chmod { path, mode }], vec!["c/f".to_owned()])
        }
    }
}

fn change_then_query(place: &Place, monitor: &Monitor, rounds: u32) -> Result<bool, String> {
    let name = monitor.backend.name();
    let mut executor = Executor::new(place, false);
    let (mut token, mut full) = (String::from("none"), 0);
    for n in 0..rounds {
        let (ops, expected) = changes(n);
        ops.iter().for_each(|op| executor.run(op));
        let Some(mut hook) = monitor.hook(&token) else {
            return Ok(true);
        };
        let out = hook.output().map_err(|e| e.to_string())?;
        let (new, paths) = paths_of(out.status.success(), &out.stdout, &out.stderr)?;
        if paths == [Bytes::of("/")] {
            full += 1;
        } else {
            let named: BTreeSet<_> = paths.into_iter().collect();
            let missed: Vec<_> = expected
                .iter()
                .filter(|p| !named.contains(&Bytes::of(p)))
                .collect();
            if !missed.is_empty() {
                println!(
                    "not ok - {name}: round {n}: {ops:?} done, {missed:?} not told: {named:?}"
                );
                return Ok(false);
            }
        }
        token = new;
    }
    println!("# {name}: {rounds} times changed, then asked: nothing missed, {full} answers were /");
    let bound = if monitor.backend == Backend::Inotify {
        rounds / 100 + 5
    } else {
        rounds / 2
    };
    if full > bound {
        println!("not ok - {name}: {full} of {rounds} answers were /, {bound} at most wanted");
    }
    Ok(full <= bound)
}

/// One thread writes and never stops; this one asks.
fn never_stopping_writer(place: &Place) -> std::io::Result<bool> {
    // File k of round r is `w/r/k`; the number of those whose writing has ended.
    let (written, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let top = place.worktree().join("w");
    fs::create_dir_all(&top)?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_on(&top, &written, &stop));
        let outcome = ask_on(place, &written);
        stop.store(true, Ordering::SeqCst);
        match writer.join() {
            Ok(wrote) => wrote.and(outcome),
            Err(_) => Err(std::io::Error::other("the writer panicked")),
        }
    })
}

fn write_on(top: &std::path::Path, written: &AtomicU32, stop: &AtomicBool) -> std::io::Result<()> {
    let mut n = 0;
    while !stop.load(Ordering::SeqCst) {
        let dir = top
            .join((n / RING).to_string())
            .join((n % RING / 100).to_string());
        if n % 100 == 0 {
            fs::create_dir_all(&dir)?;
        }
        fs::write(dir.join((n % 100).to_string()), n.to_string())?;
        n += 1;
        written.store(n, Ordering::SeqCst);
        // Keep the tree bounded: the round before the last one goes.
        if n % RING == 0 && n / RING >= 2 {
            remove_all(&top.join((n / RING - 2).to_string()))?;
        }
    }
    Ok(())
}

fn ask_on(place: &Place, written: &AtomicU32) -> std::io::Result<bool> {
    let mut asked_of = 0_u64;
    for _ in 0..STATUSES {
        let before = written.load(Ordering::SeqCst);
        let out = place.status(Untracked::All, true).output()?;
        let after = written.load(Ordering::SeqCst);
        let lines: BTreeSet<&[u8]> = out.stdout.split(|&b| b == 0).collect();
        // What may have been removed meanwhile is not asked for.
        let oldest = (after / RING).saturating_sub(1) * RING;
        for n in oldest..before {
            let line = format!("?? w/{}/{}/{}", n / RING, n % RING / 100, n % 100);
            if !lines.contains(line.as_bytes()) {
                println!("not ok - written before git status began, and missed: {line}");
                return Ok(false);
            }
            asked_of += 1;
        }
    }
    println!(
        "# a writer that never stops: {} files written, {STATUSES} times asked, {asked_of} files in the answers",
        written.load(Ordering::SeqCst)
    );
    Ok(asked_of > 0)
}
