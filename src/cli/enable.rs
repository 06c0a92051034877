//! `treewatch enable` and `disable`: git's settings, and back to what was there before.
//!
//! What was there before is kept beside, in the same file: `treewatch.savedFsmonitor` and
//! `treewatch.savedUntrackedCache`, and `treewatch.enabled` names the settings made.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::hook_value::{self, Whose};
use super::problem::{Outcome, Problem};
use super::progress::Progress;
use super::settings::{Scope, Settings};
use super::stop::{Stopped, stop};
use super::worktree::Worktree;
use super::{exit, out, process};
use crate::watcher::remote;

/// Which settings were made, in `treewatch.enabled`.
const ENABLED: &str = "treewatch.enabled";

/// A setting of git's, the word for it in [`ENABLED`], and where its old values are kept.
struct Kept {
    key: &'static str,
    word: &'static str,
    saved: &'static str,
}

const FSMONITOR: Kept = Kept {
    key: "core.fsmonitor",
    word: "fsmonitor",
    saved: "treewatch.savedFsmonitor",
};
const UNTRACKED_CACHE: Kept = Kept {
    key: "core.untrackedCache",
    word: "untrackedCache",
    saved: "treewatch.savedUntrackedCache",
};

/// What `enable` and `disable` take.
#[derive(clap::Args)]
pub struct Arguments {
    /// A directory in the worktree [default: the current one]
    dir: Option<PathBuf>,
    /// For every repository of this user, in the user's own configuration
    #[arg(long)]
    global: bool,
    /// Also where core.fsmonitor is somebody else's
    #[arg(long)]
    force: bool,
}

/// `treewatch enable`.
pub fn enable(arguments: &Arguments, untracked_cache: bool) -> Outcome {
    let (worktree, scope) = target(arguments)?;
    if scope == Scope::Local
        && let Some(worktree) = &worktree
    {
        must_be_of_use(worktree)?;
    }
    let settings = Settings::of(worktree.as_ref());
    let waiting = Progress::begin("waiting for another treewatch that changes the settings");
    let _lock = settings.lock(scope);
    drop(waiting);
    let value = hook_value::value_for(&hook_value::own_path()?);
    may_replace(&settings, scope, arguments.force)?;

    let mut report = String::new();
    keep_and_set(&settings, scope, &FSMONITOR, &value, &mut report)?;
    if untracked_cache {
        let set = match worktree.as_ref() {
            _ if settings.effective(UNTRACKED_CACHE.key)?.is_some() => false,
            Some(worktree) => untracked_cache_works(worktree, &mut report)?,
            None => {
                report.push_str("core.untrackedCache: left alone; whether it works can only be tried in a worktree\n");
                false
            }
        };
        if set {
            keep_and_set(
                &settings,
                scope,
                &UNTRACKED_CACHE,
                OsStr::new("true"),
                &mut report,
            )?;
        }
    }
    warn_of_others(&settings, &value, &mut report)?;
    report.push_str(&format!(
        "back to before: treewatch disable{}\n",
        option(scope)
    ));
    out::print(&report)?;
    Ok(exit::OK)
}

/// `treewatch disable`.
pub fn disable(arguments: &Arguments) -> Outcome {
    let (worktree, scope) = target(arguments)?;
    let settings = Settings::of(worktree.as_ref());
    let waiting = Progress::begin("waiting for another treewatch that changes the settings");
    let _lock = settings.lock(scope);
    drop(waiting);
    let mut report = String::new();
    let enabled = settings.all(scope, ENABLED)?;
    let words = enabled
        .first()
        .map(|words| words.to_string_lossy().into_owned())
        .unwrap_or_default();
    for kept in [&FSMONITOR, &UNTRACKED_CACHE] {
        if words.split(' ').any(|word| word == kept.word) {
            put_back(&settings, scope, kept, arguments.force, &mut report)?;
        }
    }
    if !enabled.is_empty() {
        settings.put(scope, ENABLED, &[])?;
    }
    // One that somebody wrote there by hand.
    let by_hand = |value: &OsString| hook_value::whose(value) == Whose::Ours;
    if words.is_empty()
        && settings
            .all(scope, FSMONITOR.key)?
            .last()
            .is_some_and(by_hand)
    {
        settings.put(scope, FSMONITOR.key, &[])?;
        report.push_str("core.fsmonitor: removed\n");
    }
    if let Some(worktree) = worktree.as_ref().filter(|_| scope == Scope::Local) {
        let left = settings.effective(FSMONITOR.key)?;
        if let Some(left) = left.filter(|left| hook_value::whose(&left.value) == Whose::Ours) {
            // Enabled for all repositories, and not wanted in this one.
            settings.put(scope, FSMONITOR.key, &["false".into()])?;
            report.push_str(&format!(
                "core.fsmonitor = false, against the {} setting; to remove it again: git config --unset core.fsmonitor\n",
                left.scope
            ));
        }
        let stopped = stop(&worktree.place, &worktree.top)?;
        if stopped != Stopped::Nothing {
            report.push_str(&stopped.words(&worktree.top));
        }
    }
    let changed = !report.is_empty();
    if changed && scope == Scope::Global && !process::all().is_empty() {
        report.push_str(
            "watchers that run already end when nobody has asked for long; to end them now: treewatch stop --all\n",
        );
    }
    if !changed {
        report.push_str(&format!(
            "treewatch is not enabled {}\n",
            where_to(&worktree, scope)
        ));
    }
    out::print(&report)?;
    Ok(exit::OK)
}

fn target(arguments: &Arguments) -> Result<(Option<Worktree>, Scope), Problem> {
    let dir = arguments.dir.as_deref();
    if arguments.global {
        return Ok((Worktree::enter(dir).ok(), Scope::Global));
    }
    Ok((Some(Worktree::enter(dir)?), Scope::Local))
}

fn option(scope: Scope) -> &'static str {
    match scope {
        Scope::Local => "",
        Scope::Global => " --global",
    }
}

fn where_to(worktree: &Option<Worktree>, scope: Scope) -> String {
    match (worktree, scope) {
        (Some(worktree), Scope::Local) => format!("in {}", worktree.top.display()),
        _ => "for all repositories".to_owned(),
    }
}

/// Refuses where a watcher could not help.
fn must_be_of_use(worktree: &Worktree) -> Result<(), Problem> {
    worktree.must_be_ours("cannot enable treewatch in")?;
    let settings = Settings::of(Some(worktree));
    if let Some(kind) = remote::kind(&worktree.top)
        && settings.truth("fsmonitor.allowRemote") != Some(true)
    {
        return Err(Problem::new(format_args!(
            "cannot enable treewatch in {}: it is on {kind}, which does not tell of changes made elsewhere",
            worktree.top.display()
        ))
        .advice("If nobody else writes there: git config fsmonitor.allowRemote true"));
    }
    Ok(())
}

/// Refuses to take core.fsmonitor away from somebody else.
fn may_replace(settings: &Settings<'_>, scope: Scope, force: bool) -> Result<(), Problem> {
    let value = match scope {
        Scope::Local => settings.effective(FSMONITOR.key)?.map(|found| found.value),
        Scope::Global => settings.all(scope, FSMONITOR.key)?.pop(),
    };
    let Some(value) = value.filter(|_| !force) else {
        return Ok(());
    };
    let refuse = |what: String, stop: &str| {
        Err(Problem::new(format_args!("core.fsmonitor is in use already: {what}"))
            .advice(format_args!("To replace it: {stop}treewatch enable --force{}\n`treewatch disable` puts it back.", option(scope))))
    };
    match hook_value::whose(&value) {
        Whose::Nobody | Whose::Ours => Ok(()),
        Whose::BuiltIn => refuse(
            "git's own daemon runs (core.fsmonitor=true)".to_owned(),
            "git fsmonitor--daemon stop; ",
        ),
        Whose::Other => refuse(value.to_string_lossy().into_owned(), ""),
    }
}

/// Sets one of git's settings, and keeps what was there unless that is kept already.
fn keep_and_set(
    settings: &Settings<'_>,
    scope: Scope,
    kept: &Kept,
    value: &OsStr,
    report: &mut String,
) -> Result<(), Problem> {
    let before = settings.all(scope, kept.key)?;
    let enabled = settings.all(scope, ENABLED)?.pop().unwrap_or_default();
    let mut words: Vec<String> = enabled
        .to_string_lossy()
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    if !words.iter().any(|word| word == kept.word) {
        if !before.is_empty() || !settings.all(scope, kept.saved)?.is_empty() {
            settings.put(scope, kept.saved, &before)?;
        }
        words.push(kept.word.to_owned());
        settings.put(scope, ENABLED, &[words.join(" ").into()])?;
    }
    let shown = value.to_string_lossy();
    if before.len() == 1 && before[0] == value {
        report.push_str(&format!("{} = {shown}, as it was\n", kept.key));
        return Ok(());
    }
    settings.put(scope, kept.key, &[value.to_owned()])?;
    report.push_str(&format!("{} = {shown} ({})\n", kept.key, scope.name()));
    if let Some(before) = before.last() {
        report.push_str(&format!("  before: {}\n", before.to_string_lossy()));
    }
    Ok(())
}

/// Puts back what [`keep_and_set`] has kept.
fn put_back(
    settings: &Settings<'_>,
    scope: Scope,
    kept: &Kept,
    force: bool,
    report: &mut String,
) -> Result<(), Problem> {
    let saved = settings.all(scope, kept.saved)?;
    let now = settings.all(scope, kept.key)?;
    let still_ours = match kept.word {
        "fsmonitor" => now
            .last()
            .is_some_and(|value| hook_value::whose(value) == Whose::Ours),
        _ => now == ["true"],
    };
    if still_ours || force {
        settings.put(scope, kept.key, &saved)?;
        report.push_str(&match saved.last() {
            Some(value) => format!("{} = {}, as before\n", kept.key, value.to_string_lossy()),
            None => format!("{}: removed, as before\n", kept.key),
        });
    } else {
        report.push_str(&format!(
            "{}: left alone, somebody has changed it since\n",
            kept.key
        ));
    }
    if saved.is_empty() {
        return Ok(());
    }
    settings.put(scope, kept.saved, &[])
}

/// git's own check, in the worktree. It takes some seconds: it waits for clocks.
fn untracked_cache_works(worktree: &Worktree, report: &mut String) -> Result<bool, Problem> {
    let _progress = Progress::begin("asking git whether its untracked cache works here");
    let output = worktree
        .git()
        .args(["update-index", "--test-untracked-cache"])
        .output()
        .map_err(|error| super::worktree::no_git(&error))?;
    if !output.status.success() {
        report.push_str(
            "core.untrackedCache: left alone, git says that it does not work on this file system\n",
        );
    }
    Ok(output.status.success())
}

/// What would keep the new settings from counting.
fn warn_of_others(
    settings: &Settings<'_>,
    value: &OsStr,
    report: &mut String,
) -> Result<(), Problem> {
    if let Some(found) = settings.effective(FSMONITOR.key)?
        && found.value != value
    {
        report.push_str(&format!(
            "but here the {} setting counts: core.fsmonitor = {}\n",
            found.scope,
            found.value.to_string_lossy()
        ));
    }
    if let Some(found) = settings.effective("core.fsmonitorHookVersion")?
        && found.value != "2"
    {
        report.push_str(&format!(
            "but core.fsmonitorHookVersion is {}, with which git cannot use it: git config --unset core.fsmonitorHookVersion\n",
            found.value.to_string_lossy()
        ));
    }
    Ok(())
}
