//! One episode: a fresh repository, some hundreds of operations, comparisons in between.

use crate::monitor::{Answers, Backend, Monitor, Programs};
use crate::ops::{Done, Op, Untracked};
use crate::oracle::{Mismatch, Oracle, Verdict};
use crate::sandbox::{Place, Settings, configuration};
use crate::workers::{Burst, Worker, now};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::path::PathBuf;

/// Operations in one episode, more or less. A constant: it is part of what a seed means.
const OPERATIONS: u64 = 300;

/// What a run has seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub episodes: u64,
    pub operations: u64,
    pub git_commands: u64,
    pub comparisons: u64,
    pub no_answer: u64,
    pub gits_own: u64,
    pub gits_own_all: u64,
    pub answers: Answers,
    pub direct: Answers,
    /// Times the fsmonitor bits were looked at, and times some were set.
    pub bits_asked: u64,
    pub bits_set: u64,
}

/// A difference found, and all that led to it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub backend: Backend,
    pub settings: Settings,
    pub log: Vec<Done>,
    pub mismatch: Mismatch,
}

/// What every episode of a run shares.
pub struct Stage {
    pub dir: PathBuf,
    pub programs: Programs,
    pub template: Place,
    pub mmap_helper: Option<PathBuf>,
}

impl Stage {
    pub fn place(&self, name: &str) -> Place {
        Place {
            base: self.dir.join(name),
            mmap_helper: self.mmap_helper.clone(),
        }
    }
}

/// The settings that `seed` stands for.
pub fn settings(seed: u64, procs: Option<u8>) -> Settings {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let chosen = [1, 1, 2, 3][rng.random_range(0..4)];
    let untracked_cache = rng.random_bool(0.6);
    let untracked = match rng.random_range(0..20) {
        0..11 => Some(Untracked::All),
        11..17 => Some(Untracked::Normal),
        _ => None,
    };
    Settings {
        seed,
        untracked_cache,
        untracked,
        split_index: rng.random_bool(0.1),
        procs: procs.unwrap_or(chosen),
    }
}

/// Run one episode. Ok(None): no difference.
pub fn run(
    stage: &Stage,
    backend: Backend,
    settings: Settings,
    workers: &mut Vec<Worker>,
    figures: &mut Figures,
) -> Result<Option<Failure>, String> {
    let place = stage.place("episode");
    place.remove();
    let told = |e: std::io::Error| e.to_string();
    place.copy_template(&stage.template).map_err(told)?;
    place.configure(&configuration(&settings)).map_err(told)?;
    let mut monitor = Monitor::start(backend, &place, &stage.programs).map_err(told)?;
    while workers.len() < usize::from(settings.procs) {
        workers.push(Worker::spawn(&stage.programs.model).map_err(told)?);
    }
    let mut play = Play {
        rng: ChaCha8Rng::seed_from_u64(settings.seed.wrapping_add(1)),
        place: &place,
        settings,
        oracle: Oracle::new(&place, settings),
        monitor: &monitor,
        log: Vec::new(),
        figures,
    };
    let outcome = play.play(&mut workers[..usize::from(settings.procs)]);
    let log = std::mem::take(&mut play.log);
    figures.episodes += 1;
    if let Some(answers) = monitor.answers() {
        figures.answers.exact += answers.exact;
        figures.answers.full += answers.full;
    }
    let stopped = monitor.stop();
    place.remove();
    let mismatch = match outcome.map_err(told)? {
        Some(mismatch) => mismatch,
        None => match stopped {
            Ok(()) => return Ok(None),
            Err(text) => Mismatch { kind: "stop", text },
        },
    };
    Ok(Some(Failure {
        backend,
        settings,
        log,
        mismatch,
    }))
}

struct Play<'a> {
    rng: ChaCha8Rng,
    place: &'a Place,
    settings: Settings,
    oracle: Oracle<'a>,
    monitor: &'a Monitor<'a>,
    log: Vec<Done>,
    figures: &'a mut Figures,
}

impl Play<'_> {
    fn play(&mut self, workers: &mut [Worker]) -> std::io::Result<Option<Mismatch>> {
        let end = self.figures.operations + OPERATIONS;
        let mut outcome = self.check();
        while outcome.is_none() && self.figures.operations < end {
            self.burst(workers)?;
            outcome = self.check();
        }
        self.figures.direct.exact += self.oracle.direct_exact;
        self.figures.direct.full += self.oracle.direct_full;
        Ok(outcome)
    }

    /// Let every worker do some operations; with several of them, ask for the status in
    /// the middle of it, so that tokens are given out while the tree changes.
    fn burst(&mut self, workers: &mut [Worker]) -> std::io::Result<()> {
        let many = workers.len() > 1;
        let size = if self.rng.random_bool(0.04) {
            25
        } else {
            6 / workers.len() as u32 + 1
        };
        for (n, worker) in workers.iter_mut().enumerate() {
            worker.begin(&Burst {
                seed: self.rng.random(),
                count: self.rng.random_range(1..=size),
                git_share: 12,
                by: n as u8 + 1,
                crowded: many,
                place: self.place.clone(),
            })?;
        }
        let from = self.log.len();
        if many {
            for _ in 0..self.rng.random_range(0..3) {
                let untracked = self.mode();
                let locks = self.rng.random_bool(0.7);
                let op = Op::Status { untracked, locks };
                let at = now();
                let _ = self.place.status(untracked, locks).output()?;
                self.log.push(Done { at, by: 0, op });
            }
        }
        for worker in workers {
            self.log.extend(worker.end()?);
        }
        self.log[from..].sort_by_key(|done| done.at);
        for done in &self.log[from..] {
            self.figures.operations += u64::from(done.op.changes());
            self.figures.git_commands += u64::from(matches!(done.op, Op::Git { .. }));
        }
        Ok(())
    }

    fn mode(&mut self) -> Untracked {
        let all = [Untracked::All, Untracked::Normal, Untracked::No];
        match self.settings.untracked {
            _ if self.rng.random_bool(0.1) => Untracked::No,
            Some(untracked) => untracked,
            None => all[self.rng.random_range(0..2)],
        }
    }

    /// Compare, in one way or several, while nothing happens.
    fn check(&mut self) -> Option<Mismatch> {
        for _ in 0..if self.rng.random_bool(0.15) { 2 } else { 1 } {
            if self.rng.random_bool(0.2) {
                self.note(Op::Query);
                if let Err(mismatch) = self.oracle.query(self.monitor) {
                    return Some(mismatch);
                }
            }
            let untracked = self.mode();
            let locks = self.rng.random_bool(0.7);
            self.note(Op::Compare { untracked, locks });
            match self.oracle.compare(untracked, locks) {
                Ok(Verdict::NoAnswer) => self.figures.no_answer += 1,
                Ok(verdict) => {
                    self.figures.comparisons += 1;
                    self.figures.gits_own += u64::from(verdict == Verdict::GitsOwn);
                    self.figures.gits_own_all += u64::from(verdict == Verdict::GitsOwnAll);
                }
                Err(mismatch) => return Some(mismatch),
            }
            if locks && self.rng.random_bool(0.03) {
                self.look_at_bits();
            }
        }
        None
    }

    /// Are index entries really taken as unchanged? If not, git looks at every file
    /// itself, and no comparison says anything.
    fn look_at_bits(&mut self) {
        let _ = self.place.status(Untracked::All, true).output();
        let (valid, all) = self.oracle.valid_entries();
        if all > 10 {
            self.figures.bits_asked += 1;
            self.figures.bits_set += u64::from(valid > 0);
        }
    }

    fn note(&mut self, op: Op) {
        self.log.push(Done {
            at: now(),
            by: 0,
            op,
        });
    }
}
