//! The state of a worktree's watcher as one JSON object, the same fields always, whether
//! there is a watcher or not.

use std::os::unix::fs::OpenOptionsExt;

use nix::unistd::geteuid;
use serde_json::{Map, Value, json};

use crate::client::Failure;
use crate::repo::Whereabouts;
use crate::start::Mark;

use super::worktree::{Worktree, user};
use super::{process, watcher};

/// Every field of a state, in the order in which it is shown. A watcher of another version
/// may leave some out, or know more.
pub const FIELDS: [&str; 31] = [
    "state",
    "reason",
    "pid",
    "root",
    "git_dir",
    "backend",
    "instance",
    "sequence",
    "directories",
    "watches",
    "blind_spots",
    "journal_paths",
    "resyncs",
    "last_resync",
    "last_resync_at",
    "queries",
    "exact_answers",
    "full_answers",
    "full_reasons",
    "query_us_mean",
    "query_us_max",
    "last_error",
    "remote",
    "limit",
    "retry_in_s",
    "rss_bytes",
    "uptime_s",
    "socket",
    "log",
    "protocol",
    "version",
];

/// The state of the watcher of a worktree.
pub fn of(worktree: &Worktree) -> Value {
    match watcher::status(&worktree.place) {
        Ok(state) => whole(state),
        Err(failure) => without_answer(worktree, &failure),
    }
}

/// The same with `null` for whatever is missing.
pub fn whole(state: Value) -> Value {
    let mut fields = match state {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    for field in FIELDS {
        fields.entry(field).or_insert(Value::Null);
    }
    Value::Object(fields)
}

/// What can be told when no watcher answers.
fn without_answer(worktree: &Worktree, failure: &Failure) -> Value {
    let place = &worktree.place;
    let holder = process::of(place).pop();
    let (state, reason) = match failure {
        Failure::Nobody => match &holder {
            None if place.owner != geteuid().as_raw() => (
                "not-running",
                Some(format!(
                    "the worktree belongs to {}, and only its owner has a watcher",
                    user(place.owner)
                )),
            ),
            None => ("not-running", last_start(place)),
            Some(_) => (
                "degraded",
                Some("the watcher has no socket any more: it was cut off because it did not answer, or is about to end".to_owned()),
            ),
        },
        Failure::Stranger(_) => ("not-running", Some(watcher::words(failure))),
        failure => ("degraded", Some(watcher::words(failure))),
    };
    whole(json!({
        "state": state,
        "reason": reason,
        "pid": holder.map(|holder| holder.process.pid()),
        "root": worktree.top.to_string_lossy(),
        "git_dir": worktree.git_dir.to_string_lossy(),
        "log": log(place).map(|path| path.to_string_lossy().into_owned()),
    }))
}

/// What the lock file says of the last start, if it says anything.
fn last_start(place: &Whereabouts) -> Option<String> {
    place.private_sockets().find_map(|socket| {
        let lock = std::fs::File::options()
            .read(true)
            // A fifo in its place would be waited for.
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .open(socket.with_extension("lock"));
        let file = lock.ok()?;
        match Mark::read(&file) {
            Mark::Failed { times, .. } => Some(format!(
                "the last start failed ({times} in a row); the log says why"
            )),
            _ => None,
        }
    })
}

/// The log of a worktree's watcher, if there is one.
pub fn log(place: &Whereabouts) -> Option<std::path::PathBuf> {
    place
        .private_sockets()
        .map(|socket| socket.with_extension("log"))
        .find(|path| path.symlink_metadata().is_ok_and(|found| found.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_there_and_none_is_lost() {
        let state = whole(json!({"state": "watching", "pid": 7, "new": true}));
        for field in FIELDS {
            assert!(state.get(field).is_some(), "{field}");
        }
        assert_eq!(state["pid"], 7);
        assert_eq!(state["new"], true);
        assert_eq!(state["root"], Value::Null);
        assert_eq!(whole(Value::Null)["state"], Value::Null);
    }
}
