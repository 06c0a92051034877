//! Speaking to the watcher of a worktree, for people: with words for what goes wrong.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::client::{self, Failure};
use crate::repo::Whereabouts;
use crate::start::NotStarted;
use crate::wire::Kind;

use super::worktree::user;

/// How long a person's command waits for a watcher that says nothing.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// Asks the watcher for its state.
pub fn status(place: &Whereabouts) -> Result<Value, Failure> {
    let socket = client::reach(place)?;
    client::ask(&socket, place, Kind::Status, b"")?;
    parse(&client::answer(&socket, DEADLINE)?)
}

/// Asks the watcher at a socket for its state, whichever worktree it watches.
pub fn status_at(socket: &Path) -> Result<Value, Failure> {
    let socket = client::reach_at(socket)?;
    client::ask(&socket, &Whereabouts::any(), Kind::Status, b"")?;
    parse(&client::answer(&socket, DEADLINE)?)
}

/// Reads a state.
pub fn parse(answer: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(answer).map_err(|error| Failure::Broken(error.into()))
}

/// A failure in words, as the end of a sentence; a user has a name in it.
pub fn words(failure: &Failure) -> String {
    match failure {
        Failure::Stranger(uid) => format!("the watcher belongs to {}", user(*uid)),
        failure => failure.to_string(),
    }
}

/// Why no watcher was started, in words.
pub fn not_started(why: &NotStarted) -> String {
    match why {
        NotStarted::NotOwner(uid) => {
            format!(
                "it belongs to {}, and only the owner has a watcher",
                user(*uid)
            )
        }
        NotStarted::NotAnswering(failure) => words(failure),
        why => why.to_string(),
    }
}
