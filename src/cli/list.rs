//! `treewatch list`: every watcher of this user.

use serde_json::{Value, json};

use crate::client::Failure;

use super::answer::quoted;
use super::problem::Outcome;
use super::process::{self, Running};
use super::{exit, out, show, state, status, watcher};

/// `treewatch list [--json]`.
pub fn run(json: bool) -> Outcome {
    let mut states: Vec<Value> = process::all().iter().map(state_of).collect();
    states.sort_by_key(|state| state["root"].as_str().map(str::to_owned));
    if json {
        out::print_json(&Value::Array(states))?;
    } else if states.is_empty() {
        out::print("no watcher is running\n")?;
    } else {
        out::print(&table(&states))?;
    }
    Ok(exit::OK)
}

fn state_of(running: &Running) -> Value {
    match watcher::status_at(&running.socket()) {
        Ok(state) => state::whole(state),
        Err(failure) => state::whole(json!({
            "state": "degraded",
            "reason": match failure {
                // Its process is there.
                Failure::Nobody => "its socket is not there: it was cut off because it did not answer, is about to end, or runs in a container".to_owned(),
                failure => watcher::words(&failure),
            },
            "pid": running.process.pid(),
            "root": running.root().map(|root| root.to_string_lossy().into_owned()),
        })),
    }
}

fn table(states: &[Value]) -> String {
    let header = ["PID", "STATE", "DIRECTORIES", "MEMORY", "UP", "WORKTREE"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for state in states {
        let shown = |field: &str, show: &dyn Fn(u64) -> String| {
            state[field].as_u64().map_or_else(|| "-".to_owned(), show)
        };
        rows.push(vec![
            shown("pid", &|pid| pid.to_string()),
            anstream::adapter::strip_str(&status::word(state)).to_string(),
            shown("directories", &show::count),
            shown("rss_bytes", &show::bytes),
            shown("uptime_s", &show::span),
            String::from_utf8_lossy(&quoted(state["root"].as_str().unwrap_or("?").as_bytes()))
                .into_owned(),
        ]);
    }
    let text = show::table(&rows, &[0, 2, 3]);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{}\n{rest}", show::toned(show::Tone::Strong, first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_that_say_nothing_have_a_row_too() {
        let states = [
            state::whole(json!({"state": "watching", "pid": 7, "root": "/a", "directories": 1200})),
            state::whole(json!({"state": "degraded", "pid": 12, "root": "/b\nc"})),
        ];
        let text = table(&states);
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.contains("  7  watching            1,200"), "{text}");
        assert!(text.contains(" 12  not watching"), "{text}");
        assert!(text.ends_with("  \"/b\\nc\"\n"), "{text}");
    }
}
