//! The hook's front end: what the journal says, in the words of git's hook protocol.
//!
//! `<token>\0` and then every changed path, each ended by NUL, or `/\0` for "look at
//! everything" (githooks(5), fsmonitor-watchman; git: fsmonitor.c, `refresh_fsmonitor`).

use super::tracker::{Changes, Tracker};
use crate::backend::Backend;
use crate::token;

/// An answer, and whether it names paths.
pub struct HookAnswer {
    /// The bytes the hook prints.
    pub bytes: Vec<u8>,
    /// Why it is "everything", in few words; `None` if it is exact.
    pub everything: Option<&'static str>,
}

/// The answer while nothing is known: its token is one that gets "everything" again.
pub fn unknown(why: &'static str) -> HookAnswer {
    everything(token::NOBODY, why)
}

/// The answer to a token. Only right after the tracker has settled.
pub fn answer<B: Backend>(tracker: &mut Tracker<B>, token: &[u8], ignore_case: bool) -> HookAnswer {
    let present = tracker.place();
    let ours = token::write(tracker.instance(), present);
    let Some(place) = token::read(token, tracker.instance()) else {
        return everything(&ours, "unknown token");
    };
    let Changes::Paths(blind, changed) = tracker.since(place) else {
        return everything(&ours, "not in the journal");
    };
    let mut bytes = ours.clone().into_bytes();
    bytes.push(0);
    let start = bytes.len();
    for path in changed {
        bytes.extend_from_slice(path);
        bytes.push(0);
    }
    if ignore_case && bytes.len() > start {
        // The index may spell any of them otherwise, and git before 2.45 would then not
        // find them (git: fsmonitor.c, handle_using_name_hash_icase, is newer).
        return everything(&ours, "case ignored");
    }
    for path in blind {
        bytes.extend_from_slice(&path);
        bytes.push(0);
    }
    HookAnswer {
        bytes,
        everything: None,
    }
}

fn everything(token: &str, why: &'static str) -> HookAnswer {
    let mut bytes = token.as_bytes().to_vec();
    bytes.extend_from_slice(b"\0/\0");
    HookAnswer {
        bytes,
        everything: Some(why),
    }
}
