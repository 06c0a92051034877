//! `treewatch bench`: the person's own repository, without the monitor and with it.
//!
//! Both sides run on indexes of their own, each brought to rest first, with the same
//! settings but for core.fsmonitor; and by turns, so that whatever else the machine does
//! meets both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::git_view::IndexCopy;
use super::hook_value::{own_path, value_for};
use super::problem::{Outcome, Problem};
use super::progress::Progress;
use super::show::{self, Tone, toned};
use super::worktree::{Worktree, last_words, no_git};
use super::{exit, out, start, stop};

/// What people run all day, and none of it changes anything.
const COMMANDS: [&[&str]; 4] = [
    &["status"],
    &["status", "--untracked-files=no"],
    &["diff", "--quiet"],
    &["add", "--all", "--dry-run"],
];

/// What is gained or lost below this is nothing anybody feels.
const NOTICEABLE: Duration = Duration::from_millis(10);

/// Fewer runs tell nothing.
const RUNS_MIN: usize = 3;

/// What `bench` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// A directory in the worktree [default: the current one]
    dir: Option<PathBuf>,
    /// Run each command so many times on each side
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Another git command to time, in place of the usual ones: it must not change anything
    #[arg(last = true, value_name = "GIT COMMAND")]
    command: Vec<OsString>,
}

/// The times of one command, sorted.
struct Times {
    name: String,
    without: Vec<Duration>,
    with: Vec<Duration>,
}

/// Times, and says what comes of it.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut worktree = Worktree::enter(arguments.dir.as_deref())?;
    worktree.must_be_ours("cannot time")?;
    let commands: Vec<Vec<OsString>> = if arguments.command.is_empty() {
        let own = |command: &&[&str]| command.iter().map(OsString::from).collect();
        COMMANDS.iter().map(own).collect()
    } else {
        vec![arguments.command.clone()]
    };
    let (_, new) = start::start(&mut worktree)?;
    let timed = time(&worktree, &commands, arguments.runs);
    if new {
        // There was none before, and nobody has asked for one to stay.
        stop::stop(&worktree.place, &worktree.top)?;
    }
    out::print(&text(&worktree.top, &timed?))?;
    Ok(exit::OK)
}

/// Times each command on both sides, by turns.
fn time(worktree: &Worktree, commands: &[Vec<OsString>], runs: u32) -> Result<Vec<Times>, Problem> {
    let progress = Progress::begin("walking the tree");
    let without = Side::new(worktree, &OsString::from("false"))?;
    let with = Side::new(worktree, &value_for(&own_path()?))?;
    without.settle(worktree)?;
    with.settle(worktree)?;
    let mut all = Vec::new();
    for command in commands {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let mut times = Times {
            name: format!("git {}", words.join(" ")),
            without: Vec::new(),
            with: Vec::new(),
        };
        progress.now(&times.name);
        // Once for the caches.
        without.time(worktree, command)?;
        with.time(worktree, command)?;
        for _ in 0..runs {
            times.without.push(without.time(worktree, command)?);
            times.with.push(with.time(worktree, command)?);
        }
        times.without.sort();
        times.with.sort();
        all.push(times);
    }
    Ok(all)
}

/// One side of the comparison: an index and a value for core.fsmonitor.
struct Side {
    index: IndexCopy,
    setting: OsString,
}

impl Side {
    fn new(worktree: &Worktree, value: &OsString) -> Result<Self, Problem> {
        let mut setting = OsString::from("core.fsmonitor=");
        setting.push(value);
        Ok(Self {
            index: IndexCopy::take(worktree)?,
            setting,
        })
    }

    /// Lets git write into the index what it wants to remember: the first run saves a
    /// token, the second is answered by it.
    fn settle(&self, worktree: &Worktree) -> Result<(), Problem> {
        for _ in 0..3 {
            self.time(worktree, &["status".into()])?;
        }
        Ok(())
    }

    fn time(&self, worktree: &Worktree, command: &[OsString]) -> Result<Duration, Problem> {
        let mut git = worktree.git();
        git.env("GIT_INDEX_FILE", self.index.path())
            .arg("-c")
            .arg(&self.setting)
            .args(command)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let began = Instant::now();
        let output = git.output().map_err(|error| no_git(&error))?;
        let took = began.elapsed();
        // diff --quiet answers with 1, and has nothing to say to it.
        let well = match output.status.code() {
            Some(0) => true,
            Some(1) => output.stderr.is_empty(),
            _ => false,
        };
        if !well {
            return Err(Problem::new(format_args!(
                "cannot time it: git failed: {}",
                last_words(&output)
            )));
        }
        Ok(took)
    }
}

fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(time: Duration) -> String {
    show::short(time.as_secs_f64() * 1e6)
}

fn text(top: &Path, all: &[Times]) -> String {
    let header = [
        "",
        "WITHOUT",
        "WITH",
        "TIMES AS FAST",
        "FASTEST",
        "FASTEST WITH",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for times in all {
        let (without, with) = (median(&times.without), median(&times.with));
        rows.push(vec![
            times.name.clone(),
            milliseconds(without),
            milliseconds(with),
            format!(
                "{:.1}",
                without.as_secs_f64() / with.as_secs_f64().max(1e-9)
            ),
            milliseconds(times.without.first().copied().unwrap_or_default()),
            milliseconds(times.with.first().copied().unwrap_or_default()),
        ]);
    }
    let runs = all.first().map_or(0, |times| times.with.len());
    format!(
        "{}: medians of {} on each side\n\n{}\n{}\n",
        toned(Tone::Strong, top.display()),
        show::counted(runs as u64, "run", "runs"),
        show::table(&rows, &[1, 2, 3, 4, 5]),
        verdict(all)
    )
}

/// An honest one. A gain counts if it is felt, and if it is more than chance: then even the
/// third quarter of the runs with the monitor is faster than the first without.
fn verdict(all: &[Times]) -> String {
    let quarter = |sorted: &[Duration], nth: usize| {
        sorted
            .get((sorted.len() * nth / 4).min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    let clearly = |fast: &[Duration], slow: &[Duration]| {
        fast.len() >= RUNS_MIN && quarter(fast, 3) < quarter(slow, 1)
    };
    let gain = |times: &Times| median(&times.without).saturating_sub(median(&times.with));
    let loss = |times: &Times| median(&times.with).saturating_sub(median(&times.without));
    let best = all
        .iter()
        .filter(|times| clearly(&times.with, &times.without))
        .max_by_key(|times| gain(times));
    let worst = all
        .iter()
        .filter(|times| clearly(&times.without, &times.with))
        .max_by_key(|times| loss(times));
    match (best, worst) {
        (Some(best), _) if gain(best) >= NOTICEABLE => format!(
            "{}: {} takes {} less.",
            toned(Tone::Good, "worth it"),
            best.name,
            milliseconds(gain(best))
        ),
        (_, Some(worst)) if loss(worst) >= NOTICEABLE => format!(
            "{}: {} takes {} more. Turn it off here: treewatch disable",
            toned(Tone::Bad, "not worth it here"),
            worst.name,
            milliseconds(loss(worst))
        ),
        _ => format!(
            "{}: nothing gets faster, or slower, by so much that it could be felt. It does no harm either.",
            toned(Tone::Doubtful, "not worth it here")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(without: &[u64], with: &[u64]) -> Times {
        let all = |list: &[u64]| list.iter().map(|&ms| Duration::from_millis(ms)).collect();
        Times {
            name: "git status".to_owned(),
            without: all(without),
            with: all(with),
        }
    }

    fn said(without: &[u64], with: &[u64]) -> String {
        let text = verdict(&[times(without, with)]);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn the_verdict_is_honest() {
        let fast = said(&[180, 185, 190, 200], &[30, 35, 40, 45]);
        assert!(
            fast.starts_with("worth it: git status takes 150 ms less"),
            "{fast}"
        );
        let same = said(&[5, 5, 6, 7], &[4, 5, 6, 6]);
        assert!(same.starts_with("not worth it here: nothing"), "{same}");
        let slow = said(&[10, 11, 12, 13], &[40, 41, 42, 43]);
        assert!(
            slow.starts_with("not worth it here: git status takes 30 ms more"),
            "{slow}"
        );
        let noise = said(&[10, 30, 90, 95], &[10, 11, 30, 80]);
        assert!(noise.starts_with("not worth it here: nothing"), "{noise}");
    }

    #[test]
    fn the_table_has_the_ratio() {
        let text = text(Path::new("/w"), &[times(&[100, 100, 100], &[50, 50, 50])]);
        assert!(
            text.contains("git status   100 ms  50 ms            2.0"),
            "{text}"
        );
    }
}
