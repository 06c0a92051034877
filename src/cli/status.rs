//! `treewatch status`: is it watching, and if not, why not. One screen.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::problem::Outcome;
use super::show::{self, Tone, toned};
use super::worktree::Worktree;
use super::{exit, kernel, out, state};

/// `treewatch status [--json] [DIR]`.
pub fn run(dir: Option<&Path>, json: bool) -> Outcome {
    let worktree = Worktree::enter(dir)?;
    let state = state::of(&worktree);
    out::or_nobody_reads(if json {
        out::print_json(&state)
    } else {
        let limit = kernel::watches().map(|limit| limit.value);
        out::print(&screen(&state, limit, now()))
    })?;
    Ok(code(&state))
}

/// The exit code a state stands for.
pub fn code(state: &Value) -> u8 {
    match state["state"].as_str() {
        Some("watching" | "crawling") => exit::OK,
        Some("not-running") => exit::NOT_RUNNING,
        _ => exit::NO,
    }
}

/// The state in a word, coloured.
pub fn word(state: &Value) -> String {
    let word = state["state"].as_str().unwrap_or("unknown");
    let tone = match word {
        "watching" => Tone::Good,
        "crawling" => Tone::Doubtful,
        "not-running" => Tone::Faint,
        _ => Tone::Bad,
    };
    toned(
        tone,
        if word == "degraded" {
            "not watching"
        } else {
            word
        }
        .replace('-', " "),
    )
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The screen. `limit`: of watches; `now`: seconds since 1970.
fn screen(state: &Value, limit: Option<u64>, now: u64) -> String {
    let mut lines = Lines::default();
    let root = state["root"].as_str().unwrap_or("?");
    let mut first = word(state);
    match state["state"].as_str() {
        Some("crawling") => {
            first.push_str(": the tree is being walked; until then git looks at everything");
        }
        Some("degraded") => first.push_str(": git looks at everything, as without a monitor"),
        Some("not-running") => {
            first.push_str(": git's next command starts a watcher, if treewatch is enabled here")
        }
        _ => {}
    }
    lines.add("state", Some(first));
    lines.add("because", text(&state["reason"]));
    lines.add(
        "error",
        text(&state["last_error"]).filter(|_| state["state"] == "degraded"),
    );
    for line in advice(state) {
        lines.add("what to do", Some(line));
    }
    if let (Some(uptime), Some(pid)) = (number(&state["uptime_s"]), number(&state["pid"])) {
        let since = show::moment(now.saturating_sub(uptime));
        lines.add(
            "since",
            Some(format!("{since} ({}), process {pid}", show::span(uptime))),
        );
    } else if let Some(pid) = number(&state["pid"]) {
        lines.add("process", Some(pid.to_string()));
    }
    lines.add(
        "tree",
        number(&state["directories"]).map(|n| show::counted(n, "directory", "directories")),
    );
    if let Some(blind) = number(&state["blind_spots"]).filter(|&blind| blind > 0) {
        lines.add(
            "unreadable",
            Some(format!(
                "{}, named in every answer",
                show::counted(blind, "directory", "directories")
            )),
        );
    }
    lines.add(
        "watches",
        number(&state["watches"]).map(|watches| {
            let backend = state["backend"].as_str().unwrap_or("?");
            match limit.filter(|_| backend == "inotify") {
                Some(limit) => format!(
                    "{} of {} ({backend})",
                    show::count(watches),
                    show::count(limit)
                ),
                None => format!("{} ({backend})", show::count(watches)),
            }
        }),
    );
    lines.add("memory", number(&state["rss_bytes"]).map(show::bytes));
    lines.add(
        "journal",
        number(&state["journal_paths"]).map(|n| show::counted(n, "path", "paths")),
    );
    lines.add("queries", queries(state));
    lines.add("answers", answers(state));
    lines.add(
        "resyncs",
        number(&state["resyncs"]).map(|resyncs| {
            let last = text(&state["last_resync"]).map(|why| {
                let at = number(&state["last_resync_at"]);
                format!(
                    "; the last one{}: {why}",
                    at.map_or(String::new(), |at| format!(" {}", show::moment(at)))
                )
            });
            if resyncs == 0 {
                "none".to_owned()
            } else {
                format!("{}{}", show::count(resyncs), last.unwrap_or_default())
            }
        }),
    );
    lines.add(
        "next try",
        number(&state["retry_in_s"]).map(|left| format!("in {}", show::span(left))),
    );
    lines.add(
        "version",
        text(&state["version"]).map(|version| {
            if version == env!("CARGO_PKG_VERSION") {
                version
            } else {
                format!(
                    "{version}, while this program is {}",
                    env!("CARGO_PKG_VERSION")
                )
            }
        }),
    );
    lines.add("log", text(&state["log"]));
    format!("{}\n{}", toned(Tone::Strong, root), lines.text)
}

fn queries(state: &Value) -> Option<String> {
    let queries = number(&state["queries"])?;
    let mut text = show::count(queries);
    if let Some(mean) = state["query_us_mean"].as_f64().filter(|_| queries > 0) {
        text.push_str(&format!(", {} each on average", show::short(mean)));
    }
    if let Some(max) = state["query_us_max"].as_f64().filter(|_| queries > 0) {
        text.push_str(&format!(", {} at most", show::short(max)));
    }
    Some(text)
}

fn answers(state: &Value) -> Option<String> {
    let exact = number(&state["exact_answers"])?;
    let full = number(&state["full_answers"])?;
    let mut text = format!(
        "{} exact, {} \"look at everything\"",
        show::count(exact),
        show::count(full)
    );
    if let Some(reasons) = state["full_reasons"]
        .as_object()
        .filter(|reasons| !reasons.is_empty())
    {
        let reasons: Vec<String> = reasons
            .iter()
            .map(|(why, times)| format!("{} {why}", show::count(times.as_u64().unwrap_or(0))))
            .collect();
        text.push_str(&format!(" ({})", reasons.join(", ")));
    }
    Some(text)
}

/// What to do about a watcher that cannot watch.
fn advice(state: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let limit = &state["limit"];
    if let Some(command) = limit["raise_with"].as_str() {
        lines.push(format!("raise the limit: sudo {command}"));
        if let Some(setting) = command.strip_prefix("sysctl ") {
            lines.push(format!(
                "for good: echo '{setting}' | sudo tee /etc/sysctl.d/60-treewatch.conf"
            ));
        }
    }
    match state["state"].as_str() {
        Some("degraded") if state["remote"].is_string() => {
            lines.push(
                "if nobody else writes there: git config fsmonitor.allowRemote true".to_owned(),
            );
        }
        Some("degraded") if state["uptime_s"].is_null() => {
            lines.push("replace it: treewatch restart".to_owned());
        }
        _ => {}
    }
    lines
}

fn number(value: &Value) -> Option<u64> {
    value.as_u64()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn add(&mut self, label: &str, value: Option<String>) {
        if let Some(value) = value {
            let label = toned(Tone::Faint, format_args!("{label:<11}"));
            self.text.push_str(&format!("  {label} {value}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plain(state: Value) -> String {
        let text = screen(&state::whole(state), Some(524_288), 10_000);
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn a_watcher_that_watches() {
        let text = plain(json!({
            "state": "watching", "pid": 7, "root": "/w", "backend": "inotify",
            "directories": 11_111, "watches": 11_113, "rss_bytes": 4_513_792,
            "queries": 1204, "query_us_mean": 210.0, "exact_answers": 1200, "full_answers": 4,
            "full_reasons": {"unknown token": 3, "walking the tree": 1},
            "resyncs": 1, "last_resync": "overflow", "last_resync_at": 9_000, "uptime_s": 7_384,
            "journal_paths": 1, "log": "/w/log",
        }));
        for line in [
            "/w\n",
            "state       watching\n",
            "since       1970-01-01T00:43:36Z (2h 3m), process 7\n",
            "tree        11,111 directories\n",
            "watches     11,113 of 524,288 (inotify)\n",
            "memory      4.3 MiB\n",
            "journal     1 path\n",
            "queries     1,204, 0.21 ms each on average\n",
            "answers     1,200 exact, 4 \"look at everything\" (3 unknown token, 1 walking the tree)\n",
            "resyncs     1; the last one 1970-01-01T02:30:00Z: overflow\n",
            "log         /w/log\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn a_limit_is_named_with_the_command_that_raises_it() {
        let text = plain(json!({
            "state": "degraded", "root": "/w", "reason": "used up", "uptime_s": 1,
            "limit": {"name": "fs.inotify.max_user_watches", "value": 100, "needed": 200,
                "raise_with": "sysctl fs.inotify.max_user_watches=512"},
        }));
        assert!(text.contains("not watching"), "{text}");
        assert!(text.contains("because     used up"), "{text}");
        assert!(
            text.contains("sudo sysctl fs.inotify.max_user_watches=512\n"),
            "{text}"
        );
    }

    #[test]
    fn no_watcher_is_said_in_few_lines() {
        let text = plain(json!({"state": "not-running", "root": "/w"}));
        assert!(text.contains("not running"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
