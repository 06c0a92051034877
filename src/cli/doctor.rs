//! `treewatch doctor`: everything a supporter would ask for, and what to do, in commands.
//!
//! Each finding is well, worth knowing, or wrong. Exit code 0 only if nothing is wrong.
//! What git, index and files say is in [`super::doctor_git`], what watcher and kernel say
//! here.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::geteuid;
use serde_json::{Value, json};

use super::problem::Outcome;
use super::progress::Progress;
use super::show::{self, Tone, toned};
use super::worktree::Worktree;
use super::{doctor_git, exit, kernel, out, state, watcher};
use crate::client;
use crate::wire::Kind;

/// How it is with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Not wrong, but to be known.
    Known,
    /// Wrong: treewatch does not help, or not as much as it could.
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug)]
pub struct Finding {
    /// How it is.
    pub verdict: Verdict,
    /// What was looked at, in a word or two.
    pub about: &'static str,
    /// What was found.
    pub found: String,
    /// What to do about it: a command, or a sentence.
    pub advice: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn well(about: &'static str, found: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Well,
            about,
            found: found.into(),
            advice: None,
        }
    }

    /// To be known.
    pub fn known(about: &'static str, found: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Known,
            ..Self::well(about, found)
        }
    }

    /// Wrong, and what to do.
    pub fn wrong(about: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Wrong,
            advice: Some(advice.into()),
            ..Self::well(about, found)
        }
    }

    /// With something to do about it.
    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// `treewatch doctor [--json] [DIR]`.
pub fn run(dir: Option<&Path>, as_json: bool) -> Outcome {
    let worktree = Worktree::enter(dir)?;
    let progress = Progress::begin("asking git");
    let mut findings = vec![program()];
    findings.extend(doctor_git::look(&worktree)?);
    progress.now("asking the watcher");
    let state = state::of(&worktree);
    let enabled = doctor_git::is_enabled(&worktree)?;
    findings.extend(of_watcher(&worktree, &state, enabled));
    findings.extend(of_files(&worktree, &state));
    progress.now("counting watches");
    findings.extend(of_limits(&state, &kernel::used()));
    drop(progress);
    out::or_nobody_reads(if as_json {
        out::print_json(&Value::Array(findings.iter().map(as_value).collect()))
    } else {
        out::print(&text(&worktree.top, &findings))
    })?;
    let wrong = findings.iter().any(|f| f.verdict == Verdict::Wrong);
    Ok(if wrong { exit::NO } else { exit::OK })
}

fn program() -> Finding {
    let path = std::env::current_exe().map_or_else(
        |error| format!("(where is not known: {error})"),
        |path| path.display().to_string(),
    );
    Finding::well(
        "program",
        format!("treewatch {}, {path}", env!("CARGO_PKG_VERSION")),
    )
}

/// What the watcher says of itself, and whether it answers. `enabled`: git asks it.
fn of_watcher(worktree: &Worktree, state: &Value, enabled: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let reason = state["reason"]
        .as_str()
        .unwrap_or("the reason is not known");
    findings.push(match state["state"].as_str() {
        Some("watching") => Finding::well(
            "watcher",
            format!(
                "watching {}, process {}",
                show::counted(
                    state["directories"].as_u64().unwrap_or(0),
                    "directory",
                    "directories"
                ),
                state["pid"]
            ),
        ),
        Some("crawling") => Finding::known("watcher", "still walking the tree for the first time"),
        // Nothing to start while git does not ask.
        Some("not-running") if !enabled => Finding::known("watcher", "not running"),
        Some("not-running") => Finding::wrong(
            "watcher",
            match state["reason"].as_str() {
                Some(reason) => format!("not running: {reason}"),
                None => "not running".to_owned(),
            },
            "treewatch start",
        ),
        _ if state["uptime_s"].is_null() => Finding::wrong("watcher", reason, "treewatch restart"),
        _ => Finding::wrong(
            "watcher",
            format!("not watching: {reason}"),
            match state["limit"]["raise_with"].as_str() {
                Some(command) => format!("sudo {command}"),
                None => "treewatch log".to_owned(),
            },
        ),
    });
    if let Some(version) = state["version"].as_str() {
        findings.push(if version == env!("CARGO_PKG_VERSION") {
            Finding::well("versions", "watcher and program are the same")
        } else {
            Finding::wrong(
                "versions",
                format!(
                    "the watcher is {version}, this program {}",
                    env!("CARGO_PKG_VERSION")
                ),
                "treewatch restart",
            )
        });
    }
    if let Some(blind) = state["blind_spots"].as_u64().filter(|&blind| blind > 0) {
        findings.push(Finding::known(
            "permissions",
            format!(
                "{} cannot be read; git looks at them by itself",
                show::counted(blind, "directory", "directories")
            ),
        ));
    }
    if matches!(state["state"].as_str(), Some("watching" | "crawling")) {
        findings.push(of_answer(worktree, state));
    }
    if let (Some(exact), Some(full)) = (
        state["exact_answers"].as_u64(),
        state["full_answers"].as_u64(),
    ) && full > 20
        && full > exact
    {
        findings.push(Finding::known("answers", format!(
            "only {} of {} named the changes, the others were \"look at everything\": see treewatch status",
            show::count(exact),
            show::count(exact + full)
        )));
    }
    findings
}

/// Asks as the hook does, twice: the second answer must be exact.
fn of_answer(worktree: &Worktree, state: &Value) -> Finding {
    let ask = |token: &[u8]| {
        let place = &worktree.place;
        client::reach(place)
            .and_then(|socket| client::ask(&socket, place, Kind::Query, token).map(|()| socket))
            .and_then(|socket| client::answer(&socket, client::DEADLINE))
    };
    let began = std::time::Instant::now();
    let first = match ask(b"") {
        Ok(first) => first,
        Err(failure) => {
            return Finding::wrong("answer", watcher::words(&failure), "treewatch restart");
        }
    };
    let took = show::short(began.elapsed().as_secs_f64() * 1e6);
    let token = first.split(|&byte| byte == 0).next().unwrap_or_default();
    match ask(token) {
        Ok(second) if second.ends_with(b"\0/\0") && state["state"] == "watching" => Finding::wrong(
            "answer",
            "git is told to look at everything although the tree is watched",
            "treewatch log",
        ),
        Ok(_) => Finding::well("answer", format!("in {took}")),
        Err(failure) => Finding::wrong("answer", watcher::words(&failure), "treewatch restart"),
    }
}

/// Socket and directory: ours alone.
fn of_files(worktree: &Worktree, state: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(socket) = state["socket"].as_str().map(Path::new) else {
        return findings;
    };
    let own = worktree.git_dir.join("treewatch");
    if !socket.starts_with(&worktree.git_dir) && !own.exists() {
        findings.push(Finding::known("socket", format!(
            "{}: the git directory cannot hold it (read-only, or a file system that may be unmounted)",
            socket.display()
        )));
    }
    // One in the git directory that others could use is passed over.
    let dir = if own.exists() {
        &*own
    } else {
        socket.parent().unwrap_or(socket)
    };
    for (path, mode) in [(dir, 0o700), (socket, 0o600)] {
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        if found.uid() != geteuid().as_raw() || found.mode() & 0o777 != mode {
            findings.push(Finding::wrong(
                "permissions",
                format!(
                    "{} has mode {:o} and owner {}, not {mode:o} and {}",
                    path.display(),
                    found.mode() & 0o777,
                    found.uid(),
                    geteuid()
                ),
                format!("chmod {mode:o} {}; treewatch restart", path.display()),
            ));
        }
    }
    findings
}

/// What the kernel allows against what is used and needed.
fn of_limits(state: &Value, used: &kernel::Used) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut compare = |about, limit: Option<kernel::Limit>, used: u64, what: &str| {
        let Some(limit) = limit else { return };
        let found = format!(
            "{} of {} {what} used by all programs of this user ({})",
            show::count(used),
            show::count(limit.value),
            limit.name
        );
        // What the watcher needs, it has said itself, and it knows better.
        let said = state["limit"]["name"] == limit.name;
        findings.push(if said {
            Finding::known(about, found)
        } else if used >= limit.value / 10 * 9 {
            let enough = limit.value.saturating_mul(2).next_power_of_two();
            Finding::wrong(about, found, format!("sudo sysctl {}={enough}", limit.name))
        } else {
            Finding::well(about, found)
        });
    };
    if state["backend"] != "notify" {
        compare("watches", kernel::watches(), used.watches, "watches");
        compare(
            "instances",
            kernel::instances(),
            used.instances,
            "instances",
        );
    }
    if let Some(resyncs) = state["resyncs"].as_u64().filter(|&resyncs| resyncs > 0) {
        let why = state["last_resync"].as_str().unwrap_or("not known");
        let mut finding = Finding::known(
            "resyncs",
            format!(
                "the tree was walked again {}, the last time because: {why}",
                show::counted(resyncs, "time", "times")
            ),
        );
        if why.contains("queue")
            && let Some(queue) = kernel::queue()
        {
            finding = finding.advice(format!(
                "sudo sysctl {}={}",
                queue.name,
                queue.value.saturating_mul(4)
            ));
        }
        findings.push(finding);
    }
    findings
}

fn as_value(finding: &Finding) -> Value {
    json!({
        "verdict": match finding.verdict {
            Verdict::Well => "well",
            Verdict::Known => "known",
            Verdict::Wrong => "wrong",
        },
        "about": finding.about,
        "found": finding.found,
        "advice": finding.advice,
    })
}

fn text(top: &Path, findings: &[Finding]) -> String {
    let mut text = format!("{}\n", toned(Tone::Strong, top.display()));
    for finding in findings {
        let (tone, word) = match finding.verdict {
            Verdict::Well => (Tone::Good, "ok    "),
            Verdict::Known => (Tone::Doubtful, "note  "),
            Verdict::Wrong => (Tone::Bad, "wrong "),
        };
        text.push_str(&format!(
            "  {} {:<15} {}\n",
            toned(tone, word),
            finding.about,
            finding.found
        ));
    }
    let mut advice: Vec<&str> = Vec::new();
    for given in findings
        .iter()
        .filter_map(|finding| finding.advice.as_deref())
    {
        if !advice.contains(&given) {
            advice.push(given);
        }
    }
    let wrong = findings.iter().any(|f| f.verdict == Verdict::Wrong);
    text.push_str(match (wrong, advice.is_empty()) {
        (false, true) => "\nall is well\n",
        (false, false) => "\nall is well; what could be better still:\n",
        (true, _) => "\nwhat to do:\n",
    });
    for advice in advice {
        text.push_str(&format!("  {advice}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(findings: &[Finding]) -> String {
        anstream::adapter::strip_str(&text(Path::new("/w"), findings)).to_string()
    }

    #[test]
    fn it_ends_with_what_to_do_and_says_it_once() {
        let text = plain(&[
            Finding::well("git", "2.55"),
            Finding::wrong("watcher", "gone", "treewatch restart"),
            Finding::wrong("answer", "none", "treewatch restart"),
        ]);
        assert!(text.contains("wrong  watcher         gone\n"), "{text}");
        assert!(
            text.ends_with("\nwhat to do:\n  treewatch restart\n"),
            "{text}"
        );
    }

    #[test]
    fn all_is_well_is_said() {
        assert!(plain(&[Finding::well("git", "2.55")]).ends_with("\nall is well\n"));
    }

    #[test]
    fn limits_that_are_nearly_used_up_are_wrong() {
        let state = state::whole(json!({"backend": "inotify"}));
        let none = of_limits(&state, &kernel::Used::default());
        assert!(none.iter().all(|finding| finding.verdict == Verdict::Well));
        let all = kernel::Used {
            instances: u64::MAX,
            watches: u64::MAX,
        };
        for finding in of_limits(&state, &all) {
            assert_eq!(finding.verdict, Verdict::Wrong);
            assert!(finding.advice.unwrap().starts_with("sudo sysctl "));
        }
    }
}
