//! A run: options, an ordinary user, episodes until the budget is spent, the figures.

use crate::episode::{self, Failure, Figures, Stage};
use crate::monitor::{self, Backend, Programs};
use crate::ops::Done;
use crate::races;
use crate::sandbox::{Place, Settings};
use crate::shrink::{self, Way};
use crate::workers::Worker;
use clap::Parser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, chown, setgid, setgroups, setuid};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

/// The user root becomes, if MODEL_UID names no other. Nobody's, on most machines; it
/// needs no name (Watchman wants one: MODEL_UID=65534).
const ORDINARY: u32 = 60_123;

/// Random work on a tree, `git status` under a monitor against git without one.
#[derive(Parser)]
#[command(name = "model")]
struct Options {
    /// Seed of the first episode (or MODEL_SEED); with --minutes a new one each time
    /// otherwise.
    #[arg(long)]
    seed: Option<u64>,
    /// Operations for each backend (or MODEL_OPS).
    #[arg(long)]
    ops: Option<u64>,
    /// Minutes in all, instead of a number of operations (or MODEL_MINUTES).
    #[arg(long)]
    minutes: Option<f64>,
    /// What is tested.
    #[arg(long, value_delimiter = ',', default_value = "inotify,notify")]
    backend: Vec<Backend>,
    /// Processes at once; by the seed otherwise.
    #[arg(long)]
    procs: Option<u8>,
    /// The untracked cache; by the seed otherwise.
    #[arg(long)]
    untracked_cache: Option<bool>,
    /// The least share of exact answers, in percent; by the backend otherwise.
    #[arg(long)]
    floor: Option<u64>,
    /// End after this many failures.
    #[arg(long, default_value_t = 1)]
    failures: usize,
    /// Do not shrink failures.
    #[arg(long)]
    no_shrink: bool,
    /// Do the operations of a file again that an earlier failure left.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Rounds of (change, then query) before the episodes.
    #[arg(long, default_value_t = 2000)]
    races: u32,
    /// Where to work (or MODEL_DIR); a temporary directory otherwise.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Taken for a filter of test names, as `cargo test NAME` passes it to every test.
    filter: Vec<String>,
}

/// What a failure leaves behind for `--replay`.
#[derive(Serialize, Deserialize)]
struct Saved {
    backend: String,
    settings: Settings,
    log: Vec<Done>,
}

pub fn main() -> i32 {
    let mut options = Options::parse();
    if !options.filter.is_empty() && !options.filter.iter().any(|f| "model".contains(f.as_str())) {
        return 0;
    }
    let number = |name: &str| env::var(name).ok().and_then(|v| v.parse::<f64>().ok());
    options.seed = options
        .seed
        .or_else(|| env::var("MODEL_SEED").ok()?.parse().ok());
    options.ops = options.ops.or(number("MODEL_OPS").map(|n| n as u64));
    options.minutes = options.minutes.or(number("MODEL_MINUTES"));
    options.dir = options.dir.or(env::var_os("MODEL_DIR").map(PathBuf::from));
    match run(&options) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(text) => {
            eprintln!("model: {text}");
            2
        }
    }
}

fn run(options: &Options) -> Result<bool, String> {
    let parent = options.dir.clone().unwrap_or_else(env::temp_dir);
    let parent = fs::canonicalize(&parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    let dir = tempfile::Builder::new()
        .prefix("treewatch-model-")
        .tempdir_in(parent)
        .map_err(|e| e.to_string())?;
    let stage = set_up(dir.path()).map_err(|e| format!("{}: {e}", dir.path().display()))?;
    if let Some(file) = &options.replay {
        return replay(&stage, file);
    }
    let mut good = true;
    for &backend in &options.backend {
        if options.races > 0 {
            good &= races::run(&stage, backend, options.races)?;
        }
        if options.ops != Some(0) {
            good &= episodes(&stage, backend, options)?;
        }
    }
    good &= nothing_left(&stage);
    Ok(good)
}

/// Programs, helper and template in `dir`, all of it an ordinary user's.
fn set_up(dir: &Path) -> std::io::Result<Stage> {
    let copy = |from: &Path, name: &str| -> std::io::Result<PathBuf> {
        let to = dir.join(name);
        fs::copy(from, &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
        Ok(to)
    };
    let model = copy(Path::new("/proc/self/exe"), "model")?;
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("treewatch");
    let treewatch = env::var_os("TREEWATCH").map_or(built, PathBuf::from);
    let treewatch = match treewatch.is_file() {
        true => Some(copy(&treewatch, "treewatch")?),
        false => None,
    };
    let helper = dir.join("mmap-write");
    let mmap_helper = match env::var_os("MODEL_MMAP_HELPER") {
        Some(path) => Some(copy(Path::new(&path), "mmap-write")?),
        None => {
            let source = dir.join("mmap-write.c");
            fs::write(&source, include_str!("../helper/mmap-write.c"))?;
            let mut cc = Command::new("cc");
            cc.arg("-o").arg(&helper).arg(&source);
            match cc.status() {
                Ok(status) if status.success() => Some(helper),
                _ => {
                    println!("# no C compiler: writes through mappings are left out");
                    None
                }
            }
        }
    };
    if Uid::effective().is_root() {
        let id = env::var("MODEL_UID").ok().and_then(|id| id.parse().ok());
        let id = id.filter(|&id| id != 0).unwrap_or(ORDINARY);
        let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
        chown(dir, Some(uid), Some(gid))?;
        setgroups(&[])?;
        setgid(gid)?;
        setuid(uid)?;
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
    let stage = Stage {
        dir: dir.to_path_buf(),
        programs: Programs { model, treewatch },
        template: Place {
            base: dir.join("template"),
            mmap_helper: None,
        },
        mmap_helper,
    };
    stage.template.make_template()?;
    Ok(stage)
}

fn episodes(stage: &Stage, backend: Backend, options: &Options) -> Result<bool, String> {
    // A test of every change should not fail one day and pass the next; a soak is to find
    // what no other has.
    let first = options.seed.unwrap_or_else(|| match options.minutes {
        Some(_) => workers_clock() % 1_000_000_000,
        None => 20_261_130,
    });
    let until = options.minutes.map(|m| {
        let part = m * 60.0 / options.backend.len() as f64;
        Instant::now() + Duration::from_secs_f64(part)
    });
    let goal = options.ops.unwrap_or(2500);
    println!("# {}: first seed {first}", backend.name());
    let mut figures = Figures::default();
    let mut workers = Vec::new();
    let mut failures = 0;
    let began = Instant::now();
    while until.map_or(figures.operations < goal, |until| Instant::now() < until) {
        let seed = first.wrapping_add(figures.episodes.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut settings = episode::settings(seed, options.procs);
        if let Some(on) = options.untracked_cache {
            settings.untracked_cache = on;
        }
        if let Some(failure) = episode::run(stage, backend, settings, &mut workers, &mut figures)? {
            if tell(stage, &failure, options.no_shrink) {
                println!("# git's own: it fails in the same way without treewatch");
                figures.gits_own += 1;
                continue;
            }
            failures += 1;
            if failures >= options.failures {
                break;
            }
        }
    }
    workers.into_iter().for_each(Worker::dismiss);
    Ok(summary(
        backend,
        options,
        &figures,
        failures,
        began.elapsed(),
    ))
}

fn workers_clock() -> u64 {
    crate::workers::now() ^ (u64::from(std::process::id()) << 20)
}

/// Says what differs; whether it is git's own, as far as that was looked into.
fn tell(stage: &Stage, failure: &Failure, no_shrink: bool) -> bool {
    let Failure {
        backend,
        settings,
        log,
        mismatch,
    } = failure;
    println!("# differs - {}: {}", backend.name(), mismatch.kind);
    for line in mismatch.text.lines() {
        println!("#   {line}");
    }
    println!("# {settings:?}");
    println!(
        "# again: MODEL_SEED={} cargo test --test model -- --backend {} --procs {} --untracked-cache {}{}",
        settings.seed,
        backend.name(),
        settings.procs,
        settings.untracked_cache,
        if settings.procs > 1 {
            "   (several processes: timing matters)"
        } else {
            ""
        }
    );
    let name = format!("treewatch-model-{}-{}.json", backend.name(), settings.seed);
    let path = env::temp_dir().join(name);
    let saved = Saved {
        backend: backend.name().to_owned(),
        settings: *settings,
        log: log.clone(),
    };
    if serde_json::to_vec(&saved).is_ok_and(|text| fs::write(&path, text).is_ok()) {
        println!(
            "# its {} operations: --replay {}",
            log.len(),
            path.display()
        );
    }
    !no_shrink && shrink::report(stage, failure)
}

fn replay(stage: &Stage, file: &Path) -> Result<bool, String> {
    let text = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let saved: Saved = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
    let backend = <Backend as clap::ValueEnum>::from_str(&saved.backend, true)?;
    let found = shrink::replay(
        stage,
        backend,
        saved.settings,
        &saved.log,
        Way::InOrder,
        false,
    );
    let Some(mismatch) = found else {
        println!(
            "ok - {} operations done again, no difference",
            saved.log.len()
        );
        return Ok(true);
    };
    let failure = Failure {
        backend,
        settings: saved.settings,
        log: saved.log,
        mismatch,
    };
    tell(stage, &failure, false);
    Ok(false)
}

/// Print the figures; are they good?
fn summary(
    backend: Backend,
    options: &Options,
    figures: &Figures,
    failures: usize,
    took: Duration,
) -> bool {
    let Figures {
        answers, direct, ..
    } = figures;
    let all = answers.exact + answers.full;
    let share = (answers.exact * 100).checked_div(all).unwrap_or(0);
    println!(
        "# {}: {} operations ({} of them git's), {} comparisons, {} differences, {} of git's own \
         (and {} with -uall alone), {} without an answer from git; {} episodes, {} s",
        backend.name(),
        figures.operations,
        figures.git_commands,
        figures.comparisons,
        failures,
        figures.gits_own,
        figures.gits_own_all,
        figures.no_answer,
        figures.episodes,
        took.as_secs(),
    );
    println!(
        "# {}: answers: {} exact, {} full ({share} % exact); asked directly: {} exact, {} full; \
         fsmonitor bits set in {} of {} looks",
        backend.name(),
        answers.exact,
        answers.full,
        direct.exact,
        direct.full,
        figures.bits_set,
        figures.bits_asked,
    );
    let mut good = failures == 0;
    let floor = options.floor.unwrap_or_else(|| backend.floor());
    // Few answers say little about a share.
    let counted = all >= 200;
    if floor > 0 && all == 0 && figures.comparisons > 0 {
        println!(
            "not ok - {}: the monitor counted no answers",
            backend.name()
        );
        good = false;
    }
    let direct_all = direct.exact + direct.full;
    let direct_share = (direct.exact * 100).checked_div(direct_all).unwrap_or(100);
    // Between two direct questions lies more than between two of git's.
    if counted && (share < floor || (direct_all >= 50 && direct_share < floor / 5)) {
        println!(
            "not ok - {}: {share} % exact answers ({direct_share} % asked directly), at least {floor} wanted",
            backend.name()
        );
        good = false;
    }
    let monitored = backend != Backend::None;
    if monitored && figures.bits_asked >= 20 && figures.bits_set * 10 < figures.bits_asked * 7 {
        println!("not ok - {}: git scans all along", backend.name());
        good = false;
    }
    if good {
        println!("ok - {}", backend.name());
    }
    good
}

/// Every watcher must have ended: those of the episodes were told to, those of linked
/// worktrees have lost their worktrees.
fn nothing_left(stage: &Stage) -> bool {
    let Some(program) = &stage.programs.treewatch else {
        return true;
    };
    let ended = monitor::poll("no watcher is left", || {
        monitor::running(program).is_empty()
    });
    if ended.is_ok() {
        return true;
    }
    for (pid, line) in monitor::running(program) {
        println!("not ok - still running: {pid} {line}");
        // It runs our own copy of the program, which nobody else can have started.
        if let Ok(pid) = i32::try_from(pid) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }
    false
}
