//! The notify crate's events, cut down to what is of use here. Pure.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use ::notify::event::{
    AccessKind, AccessMode, CreateKind, EventKind, ModifyKind, RemoveKind, RenameMode,
};

/// What the crate said of a path. `Option<bool>`: whether it is a directory, where the
/// system says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It appeared.
    Created(Option<bool>),
    /// It was removed.
    Removed(Option<bool>),
    /// It was renamed to another path.
    From,
    /// It came by a rename.
    To,
    /// One of the two, and nobody says which.
    Renamed,
    /// Its content changed.
    Written,
    /// A writer closed it.
    Closed,
    /// Mode, owner, times or extended attributes changed.
    Attributes,
    /// Something happened.
    Touched,
}

impl Kind {
    /// Whether something may have gone from where it was, or come over something else.
    pub fn can_end_something(self) -> bool {
        !matches!(
            self,
            Self::Created(_) | Self::Written | Self::Closed | Self::Attributes
        )
    }
}

/// One event about one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// What.
    pub kind: Kind,
    /// Absolute path.
    pub path: Vec<u8>,
    /// Connects the two halves of a rename; 0 for none.
    pub cookie: u32,
}

/// Hands the parts of one of the crate's events to `sink`. Opening, reading and closing
/// what was only read are left out. `false`: the event says that others were lost.
pub fn take_apart(event: ::notify::Event, sink: &mut dyn FnMut(Raw)) -> bool {
    if event.need_rescan() {
        return false;
    }
    let kind = match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => Kind::Closed,
        EventKind::Access(_) => return true,
        EventKind::Create(CreateKind::Folder) => Kind::Created(Some(true)),
        EventKind::Create(CreateKind::File) => Kind::Created(Some(false)),
        EventKind::Create(_) => Kind::Created(None),
        EventKind::Remove(RemoveKind::Folder) => Kind::Removed(Some(true)),
        EventKind::Remove(RemoveKind::File) => Kind::Removed(Some(false)),
        EventKind::Remove(_) => Kind::Removed(None),
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) => Kind::From,
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Kind::To,
        // Said in addition to the two halves (notify: inotify.rs, the only one that does).
        EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return true,
        EventKind::Modify(ModifyKind::Name(_)) => Kind::Renamed,
        EventKind::Modify(ModifyKind::Data(_)) => Kind::Written,
        EventKind::Modify(ModifyKind::Metadata(_)) => Kind::Attributes,
        EventKind::Modify(_) | EventKind::Any | EventKind::Other => Kind::Touched,
    };
    // inotify's cookies are 32 bits wide; the crate passes them on in a usize.
    let cookie = event.tracker().and_then(|n| n.try_into().ok()).unwrap_or(0);
    for path in event.paths {
        sink(Raw {
            kind,
            path: bytes(path),
            cookie,
        });
    }
    true
}

fn bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::notify::Event;
    use ::notify::event::{DataChange, Flag, MetadataKind};

    fn parts(event: Event) -> Option<Vec<Kind>> {
        let mut kinds = Vec::new();
        take_apart(event.add_path("/t/x".into()), &mut |raw| {
            assert_eq!(raw.path, b"/t/x");
            kinds.push(raw.kind);
        })
        .then_some(kinds)
    }

    #[test]
    fn every_change_is_kept_and_reading_is_not() {
        for (kind, expected) in [
            (
                EventKind::Access(AccessKind::Close(AccessMode::Write)),
                Some(Kind::Closed),
            ),
            (EventKind::Access(AccessKind::Open(AccessMode::Any)), None),
            (EventKind::Access(AccessKind::Close(AccessMode::Read)), None),
            (
                EventKind::Create(CreateKind::Any),
                Some(Kind::Created(None)),
            ),
            (
                EventKind::Remove(RemoveKind::Folder),
                Some(Kind::Removed(Some(true))),
            ),
            (
                EventKind::Modify(ModifyKind::Data(DataChange::Size)),
                Some(Kind::Written),
            ),
            (
                EventKind::Modify(ModifyKind::Metadata(MetadataKind::Extended)),
                Some(Kind::Attributes),
            ),
            (EventKind::Modify(ModifyKind::Name(RenameMode::Both)), None),
            (
                EventKind::Modify(ModifyKind::Name(RenameMode::Any)),
                Some(Kind::Renamed),
            ),
            (EventKind::Modify(ModifyKind::Any), Some(Kind::Touched)),
            (EventKind::Any, Some(Kind::Touched)),
            (EventKind::Other, Some(Kind::Touched)),
        ] {
            let expected: Vec<_> = expected.into_iter().collect();
            assert_eq!(parts(Event::new(kind)), Some(expected), "{kind:?}");
        }
    }

    #[test]
    fn a_loss_is_told() {
        assert_eq!(
            parts(Event::new(EventKind::Other).set_flag(Flag::Rescan)),
            None
        );
    }
}
