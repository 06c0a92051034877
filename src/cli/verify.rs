//! `treewatch verify`: is git's view with the monitor the same as without?
//!
//! Both looks are taken from the same index, and without a monitor also without git's
//! untracked cache, which errs at times by itself. While files change, two looks differ
//! for that reason alone; so a difference only counts if what git sees without the monitor
//! was the same before and after.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::answer::quoted;
use super::git_view::{IndexCopy, Untracked, quiet_git, records, run as run_git, skippable};
use super::problem::{Outcome, Problem};
use super::progress::Progress;
use super::show::{self, Tone, toned};
use super::worktree::Worktree;
use super::{doctor_git, exit, out};

/// So often a look is taken again when files change meanwhile.
const TRIES: u32 = 5;

/// What `verify` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// A directory in the worktree [default: the current one]
    dir: Option<PathBuf>,
    /// Compare so many times; 0: until Ctrl-C
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,
    /// Wait so long between two comparisons: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(text)
            .map_err(|_| "seconds are meant, or a number with s, m, h or d, such as 5m".to_owned()),
    }
}

/// One comparison.
struct Compared {
    /// What git shows only with, or only without, the monitor: sorted records.
    differences: Vec<Difference>,
    /// Entries git need not look at, and all entries.
    skippable: (u64, u64),
}

struct Difference {
    with_monitor: bool,
    record: Vec<u8>,
}

/// Compares, once or for a day.
pub fn run(arguments: &Arguments) -> Outcome {
    let worktree = Worktree::enter(arguments.dir.as_deref())?;
    must_be_enabled(&worktree)?;
    let (mut done, mut code) = (0, exit::OK);
    loop {
        let compared = compare(&worktree)?;
        if !compared.differences.is_empty() {
            code = exit::NO;
        }
        let read = out::or_nobody_reads(out::print(&text(&compared)))?;
        done += 1;
        if done == arguments.repeat || !read {
            return Ok(code);
        }
        std::thread::sleep(arguments.interval);
    }
}

fn must_be_enabled(worktree: &Worktree) -> Result<(), Problem> {
    if doctor_git::is_enabled(worktree)? {
        return Ok(());
    }
    Err(Problem::new(format_args!(
        "nothing to verify: git does not use treewatch in {}",
        worktree.top.display()
    ))
    .advice("Turn it on: treewatch enable"))
}

fn compare(worktree: &Worktree) -> Result<Compared, Problem> {
    let progress = Progress::begin("running git status as you would");
    // The first run may save a token, and only the next one is answered by it.
    for _ in 0..2 {
        let mut git = worktree.git();
        git.arg("status");
        run_git(git)?;
    }
    let skippable = skippable(worktree)?;
    if skippable.1 > 0 && skippable.0 == 0 {
        return Err(Problem::new(format_args!(
            "nothing to verify: git looks at every file in {}, as if there were no monitor",
            worktree.top.display()
        ))
        .advice("Why: treewatch doctor"));
    }
    let mut differences = Vec::new();
    for untracked in [Untracked::All, Untracked::Normal] {
        progress.now("comparing git status with the monitor and without");
        differences.extend(compare_mode(worktree, untracked)?);
    }
    differences.sort_by(|a, b| (&a.record, a.with_monitor).cmp(&(&b.record, b.with_monitor)));
    differences.dedup_by(|a, b| a.record == b.record && a.with_monitor == b.with_monitor);
    Ok(Compared {
        differences,
        skippable,
    })
}

fn compare_mode(worktree: &Worktree, untracked: Untracked) -> Result<Vec<Difference>, Problem> {
    let index = IndexCopy::take(worktree)?;
    let mut before = look(worktree, untracked, Look::Plain(&index))?;
    for _ in 0..TRIES {
        let with = look(worktree, untracked, Look::Monitored)?;
        if with == before {
            return Ok(Vec::new());
        }
        let after = look(worktree, untracked, Look::Plain(&index))?;
        if after == before {
            if untracked == Untracked::Normal
                && look(worktree, untracked, Look::CacheOnly(&index))? == with
            {
                // git's untracked cache is wrong here with no monitor at all.
                return Ok(Vec::new());
            }
            return Ok(difference(&before, &with));
        }
        before = after;
    }
    Err(
        Problem::new("nothing could be compared: files kept changing all the time")
            .advice("Try again when nothing is being built there."),
    )
}

/// How git is to look.
enum Look<'a> {
    /// With the monitor.
    Monitored,
    /// At every file.
    Plain(&'a IndexCopy),
    /// Without the monitor, with all other settings.
    CacheOnly(&'a IndexCopy),
}

fn look(
    worktree: &Worktree,
    untracked: Untracked,
    look: Look<'_>,
) -> Result<BTreeSet<Vec<u8>>, Problem> {
    let index = match look {
        Look::Monitored => None,
        Look::Plain(index) | Look::CacheOnly(index) => Some(index.path()),
    };
    let mut git = quiet_git(worktree, index.as_deref());
    match look {
        Look::Monitored => {}
        Look::Plain(_) => {
            git.args([
                "-c",
                "core.fsmonitor=false",
                "-c",
                "core.untrackedCache=false",
            ]);
        }
        Look::CacheOnly(_) => {
            git.args(["-c", "core.fsmonitor=false"]);
        }
    }
    git.args(["status", "--porcelain=v1", "-z"]);
    git.arg(format!("--untracked-files={}", untracked.word()));
    Ok(records(&run_git(git)?).into_iter().collect())
}

fn difference(without: &BTreeSet<Vec<u8>>, with: &BTreeSet<Vec<u8>>) -> Vec<Difference> {
    let only = |one: &BTreeSet<Vec<u8>>, other: &BTreeSet<Vec<u8>>, with_monitor| {
        one.difference(other)
            .map(|record| Difference {
                with_monitor,
                record: record.clone(),
            })
            .collect::<Vec<_>>()
    };
    let mut all = only(without, with, false);
    all.extend(only(with, without, true));
    all
}

fn text(compared: &Compared) -> String {
    let mut text = String::new();
    for difference in &compared.differences {
        let (letters, path) = difference.record.split_at(difference.record.len().min(3));
        let side = if difference.with_monitor {
            "only with the monitor:   "
        } else {
            "only without the monitor:"
        };
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        text.push_str(&format!(
            "{side} {}{}\n",
            String::from_utf8_lossy(letters),
            String::from_utf8_lossy(&quoted(path))
        ));
    }
    let (skippable, all) = compared.skippable;
    let scope = format!(
        "git need not look at {} of {}",
        show::count(skippable),
        show::counted(all, "file", "files")
    );
    text.push_str(&if compared.differences.is_empty() {
        format!("{}: no difference; {scope}\n", toned(Tone::Good, "same"))
    } else {
        format!(
            "{}: {}; {scope}\n  The truth is what git sees without the monitor. To be safe now: treewatch disable\n  Please report it, with what `treewatch log` and `treewatch doctor` say.\n",
            toned(Tone::Bad, "different"),
            show::counted(compared.differences.len() as u64, "difference", "differences")
        )
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_that_differs_is_named() {
        let set = |records: &[&[u8]]| records.iter().map(|record| record.to_vec()).collect();
        let without = set(&[b" M a", b"?? b c", b" D same"]);
        let with = set(&[b"?? new\nline", b" D same"]);
        let compared = Compared {
            differences: difference(&without, &with),
            skippable: (1, 2),
        };
        let text = text(&compared);
        for line in [
            "only without the monitor:  M a\n",
            "only without the monitor: ?? b c\n",
            "only with the monitor:    ?? \"new\\nline\"\n",
            "3 differences; git need not look at 1 of 2 files",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains("same\n"));
        assert!(difference(&without, &without).is_empty());
    }

    #[test]
    fn intervals_are_seconds_or_have_a_unit() {
        assert_eq!(interval("90"), Ok(Duration::from_secs(90)));
        assert_eq!(interval("5m"), Ok(Duration::from_secs(300)));
        assert!(interval("soon").is_err_and(|why| why.contains("such as 5m")));
    }
}
