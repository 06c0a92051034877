//! Processes that work on the tree, several at once.
//!
//! A worker is this program again. It gets lines of JSON on its standard input and gives
//! one line back for each. It does nothing between an answer and the next line: a tree
//! whose workers have all answered is quiet. No signals, no waiting for time to pass.

use crate::exec::Executor;
use crate::r#gen::Generator;
use crate::ops::Done;
use crate::sandbox::Place;
use crate::tree::View;
use nix::time::{ClockId, clock_gettime};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The first argument that makes this program a worker.
pub const FLAG: &str = "--worker";

/// Some operations to choose and do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Burst {
    pub seed: u64,
    /// At least this many operations; what belongs together is not torn apart.
    pub count: u32,
    /// Git commands among the patterns, in percent.
    pub git_share: u32,
    pub by: u8,
    pub crowded: bool,
    pub place: Place,
}

/// Nanoseconds of the clock that all processes share.
pub fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |t| {
        t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs()
    })
}

/// Be a worker until standard input ends.
pub fn main() -> i32 {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return 1 };
        let Ok(burst) = serde_json::from_str::<Burst>(&line) else {
            return 2;
        };
        let Ok(mut answer) = serde_json::to_vec(&perform(&burst)) else {
            return 3;
        };
        answer.push(b'\n');
        if out.write_all(&answer).and_then(|()| out.flush()).is_err() {
            return 4;
        }
    }
    0
}

fn perform(burst: &Burst) -> Vec<Done> {
    let rng = ChaCha8Rng::seed_from_u64(burst.seed);
    let mut generator = Generator::new(rng, burst.git_share);
    let mut executor = Executor::new(&burst.place, burst.crowded);
    let mut done = Vec::new();
    while done.len() < burst.count as usize {
        for op in generator.next(View::of(&burst.place.base)) {
            let at = now();
            executor.run(&op);
            done.push(Done {
                at,
                by: burst.by,
                op,
            });
        }
    }
    executor.quiet();
    done
}

/// A worker, seen from the one that asks.
pub struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Worker {
    pub fn spawn(program: &Path) -> std::io::Result<Self> {
        let mut child = Command::new(program)
            .arg(FLAG)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lost = || std::io::Error::other("a worker without pipes");
        let to = child.stdin.take().ok_or_else(lost)?;
        let from = BufReader::new(child.stdout.take().ok_or_else(lost)?);
        Ok(Self { child, to, from })
    }

    pub fn begin(&mut self, burst: &Burst) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(burst)?;
        line.push(b'\n');
        self.to.write_all(&line)?;
        self.to.flush()
    }

    /// Wait for the end of what was begun.
    pub fn end(&mut self) -> std::io::Result<Vec<Done>> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Let the worker end.
    pub fn dismiss(self) {
        let Self { mut child, to, .. } = self;
        drop(to);
        let _ = child.wait();
    }
}
