//! From a failure to the few operations that make it.
//!
//! The log of all processes, in the order in which the operations began, is done again
//! by one process, in a fresh repository. If that fails too, parts are left out for as
//! long as it still fails. If it never does, the logs are done again by as many threads
//! as there were processes; and if that does not fail either, that is said.

use crate::episode::{Failure, Stage};
use crate::exec::Executor;
use crate::monitor::{Backend, Monitor};
use crate::ops::{Done, Op};
use crate::oracle::{Mismatch, Oracle};
use crate::sandbox::{Settings, configuration, setup};
use crate::script;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long shrinking goes on at most. It bounds the effort, not a result.
const EFFORT: Duration = Duration::from_secs(150);

/// How a list of operations is done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In the order in which they began, by one process.
    InOrder,
    /// By one thread for each process there was, meeting at each comparison.
    AtOnce,
}

/// Do `log` in a fresh place; the first mismatch, if any. `bare`: begin with no
/// repository at all, the log makes it.
pub fn replay(
    stage: &Stage,
    backend: Backend,
    settings: Settings,
    log: &[Done],
    way: Way,
    bare: bool,
) -> Option<Mismatch> {
    let place = stage.place("replay");
    place.remove();
    let mut rest = log;
    if bare {
        place.prepare().ok()?;
        let mut executor = Executor::new(&place, false);
        while let Some((first, more)) = rest.split_first()
            && first.by == u8::MAX
        {
            executor.run(&first.op);
            rest = more;
        }
    } else {
        place.copy_template(&stage.template).ok()?;
    }
    place.configure(&configuration(&settings)).ok()?;
    let mut monitor = Monitor::start(backend, &place, &stage.programs).ok()?;
    let mut oracle = Oracle::new(&place, settings);
    let crowded = settings.procs > 1;
    let mut executor = Executor::new(&place, crowded);
    let mut found = None;
    let mut at = 0;
    while at < rest.len() && found.is_none() {
        let quiet = |done: &Done| done.op.needs_quiet();
        if quiet(&rest[at]) {
            executor.quiet();
            found = match rest[at].op {
                Op::Compare { untracked, locks } => oracle.compare(untracked, locks).err(),
                _ => oracle.query(&monitor).err(),
            };
            at += 1;
            continue;
        }
        let end = rest[at..]
            .iter()
            .position(quiet)
            .map_or(rest.len(), |n| at + n);
        match way {
            Way::InOrder => rest[at..end].iter().for_each(|done| executor.run(&done.op)),
            Way::AtOnce => {
                let mut parts: BTreeMap<u8, Vec<&Op>> = BTreeMap::new();
                for done in &rest[at..end] {
                    parts.entry(done.by).or_default().push(&done.op);
                }
                std::thread::scope(|scope| {
                    for part in parts.values() {
                        scope.spawn(|| {
                            let mut executor = Executor::new(&place, crowded);
                            part.iter().for_each(|op| executor.run(op));
                        });
                    }
                });
            }
        }
        at = end;
    }
    drop(executor);
    let _ = monitor.stop();
    place.remove();
    found
}

struct Shrinker<'a> {
    stage: &'a Stage,
    failure: &'a Failure,
    way: Way,
    attempts: u32,
    bare: bool,
    until: Instant,
    trials: u32,
}

impl Shrinker<'_> {
    fn fails(&mut self, log: &[Done]) -> bool {
        let Failure {
            backend,
            settings,
            mismatch,
            ..
        } = self.failure;
        for _ in 0..self.attempts {
            self.trials += 1;
            let found = replay(self.stage, *backend, *settings, log, self.way, self.bare);
            if found.is_some_and(|m| m.kind == mismatch.kind) {
                return true;
            }
        }
        false
    }

    /// Delta debugging: leave out halves, quarters, ... single operations.
    fn shrink(&mut self, mut log: Vec<Done>) -> Vec<Done> {
        let mut size = log.len().div_ceil(2);
        loop {
            let mut end = log.len();
            let mut less = false;
            // From the back: what happened long before is more likely to matter less,
            // but each cut near the end makes the trials that follow shorter.
            while end > 0 && Instant::now() < self.until {
                let start = end.saturating_sub(size);
                let mut shorter = log.clone();
                shorter.drain(start..end);
                if !shorter.is_empty() && self.fails(&shorter) {
                    log = shorter;
                    less = true;
                }
                end = start;
            }
            if Instant::now() >= self.until || (size == 1 && !less) {
                return log;
            }
            if size > 1 {
                size = size.div_ceil(2);
            }
        }
    }
}

/// Shrink `failure` and say on standard output what was found; whether the shortest
/// script fails without treewatch as well.
pub fn report(stage: &Stage, failure: &Failure) -> bool {
    let mut log = failure.log.clone();
    let mut shrinker = Shrinker {
        stage,
        failure,
        way: Way::InOrder,
        attempts: 1,
        bare: false,
        until: Instant::now() + EFFORT,
        trials: 0,
    };
    let mut tries = vec![(Way::InOrder, 1), (Way::InOrder, 3)];
    if failure.settings.procs > 1 {
        tries.push((Way::AtOnce, 8));
    }
    let reproduced = tries.into_iter().any(|(way, attempts)| {
        shrinker.way = way;
        shrinker.attempts = attempts;
        shrinker.fails(&log)
    });
    if !reproduced {
        println!(
            "# The {} operations, done again {} times, did not fail again: a matter of timing.\n\
             # The last of them, in the order in which they began:",
            log.len(),
            shrinker.trials
        );
        for done in &log[log.len().saturating_sub(40)..] {
            println!("#   {} {:?}", done.by, done.op);
        }
        return false;
    }
    // All comparisons but the last cost much and seldom matter; perhaps none is needed.
    if let Some((last, before)) = log.split_last() {
        let changes: Vec<Done> = before.iter().filter(|d| d.op.changes()).cloned().collect();
        let asks: Vec<Done> = before.iter().cloned().map(without_oracle).collect();
        for mut shorter in [changes, asks] {
            shorter.push(last.clone());
            if shrinker.fails(&shorter) {
                log = shorter;
                break;
            }
        }
    }
    log = shrinker.shrink(log);
    // Then what makes the repository, too.
    let begin = |op| Done {
        at: 0,
        by: u8::MAX,
        op,
    };
    let mut whole: Vec<Done> = setup().into_iter().map(begin).collect();
    let made = whole.len();
    whole.extend(log.iter().cloned());
    shrinker.bare = true;
    shrinker.until = Instant::now() + EFFORT / 2;
    if shrinker.fails(&whole) {
        whole = shrinker.shrink(whole);
    } else {
        whole = setup().into_iter().map(begin).chain(log).collect();
        debug_assert!(whole.len() >= made);
    }
    let Failure {
        backend, settings, ..
    } = failure;
    let found = replay(stage, *backend, *settings, &whole, shrinker.way, true);
    println!(
        "# Shrunk from {} operations in {} trials ({:?}):",
        failure.log.len(),
        shrinker.trials,
        shrinker.way
    );
    let again = found.is_some();
    if let Some(found) = found {
        for line in found.text.lines() {
            println!("#   {line}");
        }
    }
    let without_us = judge(stage, failure, &whole);
    let (before, after): (Vec<_>, Vec<_>) = whole.into_iter().partition(|d| d.by == u8::MAX);
    let ops = |part: Vec<Done>| part.into_iter().map(|d| d.op).collect::<Vec<_>>();
    let monitor = format!(
        "git -C t config core.fsmonitor \"$TREEWATCH\"\ngit -C t config treewatch.backend {}\n",
        backend.name()
    );
    println!(
        "{}",
        script::script(&ops(before), settings, &monitor, &ops(after))
    );
    again && without_us
}

/// The same, but nobody compares.
fn without_oracle(mut done: Done) -> Done {
    if let Op::Compare { untracked, locks } = done.op {
        done.op = Op::Status { untracked, locks };
    }
    done
}

/// Does git fail in the same way with no monitor, or with a hook that is exact by
/// construction? What a monitor that names every change cannot make git see is git's own.
fn judge(stage: &Stage, failure: &Failure, log: &[Done]) -> bool {
    let mut fails = false;
    for backend in [Backend::None, Backend::Ideal] {
        if backend != failure.backend {
            let found = replay(stage, backend, failure.settings, log, Way::InOrder, true);
            let says = if found.is_some() {
                "fails too"
            } else {
                "no difference"
            };
            println!("#   the same with backend {}: {says}", backend.name());
            fails |= found.is_some_and(|found| found.kind == failure.mismatch.kind);
        }
    }
    fails
}
