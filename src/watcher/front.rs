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

/// What has to be known of whoever asks.
pub struct Asker<'a> {
    /// `core.ignoreCase`: the index may spell a path otherwise than the disk does.
    pub ignore_case: bool,
    /// Whether git may have cached listings of directories: asked only if it matters.
    pub untracked_cache: &'a mut dyn FnMut() -> bool,
}

/// The answer to a token. Only right after the tracker has settled.
pub fn answer<B: Backend>(
    tracker: &mut Tracker<B>,
    token: &[u8],
    mut asker: Asker<'_>,
) -> HookAnswer {
    let Some(place) = token::read(token, tracker.instance()) else {
        return told_everything(tracker, None, &mut asker, "unknown token");
    };
    match named(tracker, place, asker.ignore_case) {
        Ok(bytes) => HookAnswer {
            bytes,
            everything: None,
        },
        Err(why) => told_everything(tracker, Some(place), &mut asker, why),
    }
}

/// What changed since `place`, path by path, or why that cannot be told.
fn named<B: Backend>(
    tracker: &mut Tracker<B>,
    place: u64,
    ignore_case: bool,
) -> Result<Vec<u8>, &'static str> {
    let present = tracker.place();
    let Changes::Paths(paths) = tracker.since(place) else {
        return Err("not in the journal");
    };
    let mut changed = paths.changed.peekable();
    let same = changed.peek().is_none() && !paths.listings;
    if !same && ignore_case {
        // The index may spell any of them otherwise, and git before 2.45 would then not
        // find them (git: fsmonitor.c, handle_using_name_hash_icase, is newer).
        return Err("case ignored");
    }
    let now = if same { place } else { present };
    let mut bytes = token::write(tracker.instance(), now).into_bytes();
    bytes.push(0);
    let mut add = |path: &[u8]| {
        bytes.extend_from_slice(path);
        bytes.push(0);
    };
    changed.for_each(&mut add);
    paths.blind.iter().for_each(|path| add(path));
    if paths.listings {
        tracker.every_listing(&mut add);
    }
    Ok(bytes)
}

/// Everything, to who asked from `place`; and if git has cached listings, what is owed to
/// them comes with the next answer (see [`super::journal`]).
fn told_everything<B: Backend>(
    tracker: &mut Tracker<B>,
    place: Option<u64>,
    asker: &mut Asker<'_>,
    why: &'static str,
) -> HookAnswer {
    let place = if (asker.untracked_cache)() {
        tracker.owed_place(place)
    } else {
        tracker.place()
    };
    everything(&token::write(tracker.instance(), place), why)
}

fn everything(token: &str, why: &'static str) -> HookAnswer {
    let mut bytes = token.as_bytes().to_vec();
    bytes.extend_from_slice(b"\0/\0");
    HookAnswer {
        bytes,
        everything: Some(why),
    }
}
