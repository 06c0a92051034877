//! From paths to watches: what an event about a path means for the directories that are
//! registered. Pure but for one look, at what an entry of unknown kind is.
//!
//! An event about the path of a registered directory is one about an entry of the
//! directory above, and perhaps the end of the registration: the crate drops a watch
//! when it reads that something at its path was removed or renamed away, whatever is
//! there by then. So the registration ends here as well, with all below it, and the
//! tracker is told that the watches are gone and looks again. The crate reads the event
//! before we do, and drops the watch before it takes the next registration; so what is
//! registered again after this cannot be dropped for the same reason.
//!
//! Nothing is missed meanwhile. A directory whose registration ends this way was renamed
//! or removed itself, or was registered after that event was made, since the last answer:
//! then git knows nothing in it yet, and everything in it is listed again.

use std::rc::Rc;

use super::raw::{Kind, Raw};
use super::registry::{Registry, split};
use crate::backend::{Event, WatchId, What};

/// How the system tells of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// One event for each change, in order, for registered directories only (inotify).
    Each,
    /// What happened to a path within some time in one go, in no order, perhaps together
    /// with what happened before, for a whole tree (FSEvents).
    Merged,
}

/// What is to be done after an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// These paths are not registered any more: the crate should forget them too.
    pub dropped: Vec<Rc<[u8]>>,
    /// The top of the worktree was renamed or removed.
    pub top: bool,
}

/// See the module's text.
pub struct Translator<'a> {
    /// What is registered.
    pub registry: &'a mut Registry,
    /// The path of the top, once it is registered.
    pub top: Option<&'a [u8]>,
    /// How the system tells of things.
    pub manner: Manner,
    /// Whether a path leads to a directory; `None` if that cannot be told.
    pub is_dir: &'a dyn Fn(&[u8]) -> Option<bool>,
}

impl Translator<'_> {
    /// Hands one event to `sink`, in as many as it takes.
    pub fn take(&mut self, raw: &Raw, sink: &mut dyn FnMut(Event<'_>)) -> Outcome {
        let path = &raw.path[..];
        let registered = self.registry.find(path);
        let goes = matches!(raw.kind, Kind::Removed(_) | Kind::From | Kind::Renamed);
        if let (Some((id, _)), Kind::Attributes) = (registered, raw.kind) {
            sink(about(id, What::Attributes, true));
        }
        let has_below = goes && self.registry.has_below(path);
        // What was in it, if a tree goes at once, nobody tells.
        let at_once = has_below && matches!(raw.kind, Kind::Removed(_));
        if let Some((dir, name)) = split(path) {
            if let Some((id, _)) = self.registry.find(dir) {
                let kind = if at_once { Kind::From } else { raw.kind };
                self.entry(id, name, kind, raw, registered.is_some(), sink);
            } else if self.manner == Manner::Merged {
                self.somewhere_below(path, sink);
            }
        }
        if !goes || (registered.is_none() && !has_below) {
            return Outcome::default();
        }
        if self.top == Some(path) {
            return Outcome {
                top: true,
                ..Outcome::default()
            };
        }
        let gone = self.registry.remove_all(path);
        let top = gone.iter().any(|r| self.top == Some(&r.path));
        for registration in &gone {
            sink(about(registration.id, What::WatchGone, true));
        }
        let dropped = gone.into_iter().map(|r| r.path).collect();
        Outcome { dropped, top }
    }

    fn entry(
        &self,
        id: WatchId,
        name: &[u8],
        kind: Kind,
        raw: &Raw,
        registered: bool,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let merged = self.manner == Manner::Merged;
        let mut say = |what, is_dir| {
            sink(Event {
                watch: id,
                what,
                is_dir,
                name,
                cookie: raw.cookie,
            });
        };
        // Where it is not known whether it is a directory, it is told of as both: what is
        // told of a directory makes the tracker look, what is told of a file makes it
        // think of hard links.
        let mut both = |what, is_dir: Option<bool>| {
            if is_dir != Some(true) {
                say(what, false);
            }
            if is_dir != Some(false) {
                say(what, true);
            }
        };
        let known = registered.then_some(true);
        match kind {
            // "Created" may be said of what was created some time ago.
            Kind::Created(is_dir) if merged => {
                if is_dir != Some(true) {
                    both(What::Written, Some(false));
                }
                if is_dir != Some(false) || registered {
                    both(What::MovedTo, Some(true));
                }
            }
            Kind::Created(is_dir) => both(What::Created, is_dir),
            Kind::Removed(is_dir) => both(What::Deleted, known.or(is_dir)),
            Kind::From => both(What::MovedFrom, known.or(Some(false))),
            Kind::To => both(What::MovedTo, None),
            Kind::Renamed => {
                both(What::MovedFrom, None);
                both(What::MovedTo, Some(true));
            }
            Kind::Written => both(What::Written, known.or(Some(false))),
            Kind::Closed => both(What::Closed, known.or(Some(false))),
            Kind::Attributes => {
                let is_dir = known.or_else(|| (self.is_dir)(&raw.path));
                both(What::Attributes, is_dir);
            }
            Kind::Touched => {
                both(What::Written, known.or(Some(false)));
                both(What::MovedTo, Some(true));
            }
        }
    }

    /// Something below a directory that is not registered: it may be a new one that was
    /// not seen yet. What lies below a `.git` is not watched at all.
    fn somewhere_below(&self, path: &[u8], sink: &mut dyn FnMut(Event<'_>)) {
        let Some((id, below)) = self.registry.deepest_above(path) else {
            return;
        };
        let above = &path[..path.len() - below.len()];
        let in_git = |part: &[u8]| part.split(|&byte| byte == b'/').any(|name| name == b".git");
        let first = below.split(|&byte| byte == b'/').next().unwrap_or(below);
        let outside = self.top.is_none_or(|top| !path.starts_with(top));
        if outside || in_git(above) || in_git(below) {
            return;
        }
        sink(Event {
            watch: id,
            what: What::MovedTo,
            is_dir: true,
            name: first,
            cookie: 0,
        });
    }
}

/// An event about a watched directory itself.
fn about(watch: WatchId, what: What, is_dir: bool) -> Event<'static> {
    Event {
        watch,
        what,
        is_dir,
        name: b"",
        cookie: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        registry: Registry,
        manner: Manner,
    }

    /// (directory, what, is_dir, name)
    type Told = (String, What, bool, String);

    impl World {
        fn new(manner: Manner) -> Self {
            let mut registry = Registry::default();
            for (inode, path) in ["/t", "/t/a", "/t/a/x", "/t/b"].iter().enumerate() {
                registry.insert(path.as_bytes(), (1, inode as u64)).unwrap();
            }
            Self { registry, manner }
        }

        fn take(&mut self, kind: Kind, path: &str) -> (Vec<Told>, Outcome) {
            let ids: Vec<_> = ["/t", "/t/a", "/t/a/x", "/t/b"]
                .iter()
                .map(|p| (self.registry.find(p.as_bytes()).map(|(id, _)| id), *p))
                .collect();
            let mut told = Vec::new();
            let outcome = Translator {
                registry: &mut self.registry,
                top: Some(b"/t"),
                manner: self.manner,
                is_dir: &|path| (!path.ends_with(b"?")).then(|| path.ends_with(b"dir")),
            }
            .take(
                &Raw {
                    kind,
                    path: path.into(),
                    cookie: 5,
                },
                &mut |event| {
                    let (_, dir) = ids.iter().find(|(id, _)| *id == Some(event.watch)).unwrap();
                    let name = String::from_utf8(event.name.to_vec()).unwrap();
                    told.push(((*dir).to_owned(), event.what, event.is_dir, name));
                },
            );
            (told, outcome)
        }

        fn told(&mut self, kind: Kind, path: &str) -> Vec<(What, bool)> {
            let (told, outcome) = self.take(kind, path);
            assert_eq!(outcome, Outcome::default());
            let (dir, name) = path.rsplit_once('/').unwrap();
            assert!(told.iter().all(|t| t.0 == dir && t.3 == name), "{told:?}");
            told.into_iter().map(|t| (t.1, t.2)).collect()
        }
    }

    #[test]
    fn an_entry_is_told_of_to_its_directory() {
        let mut world = World::new(Manner::Each);
        let cases = [
            (
                Kind::Created(Some(false)),
                "/t/f",
                vec![(What::Created, false)],
            ),
            (
                Kind::Created(Some(true)),
                "/t/a/d",
                vec![(What::Created, true)],
            ),
            (Kind::Written, "/t/a/x/f", vec![(What::Written, false)]),
            (Kind::From, "/t/f", vec![(What::MovedFrom, false)]),
            (
                Kind::To,
                "/t/f",
                vec![(What::MovedTo, false), (What::MovedTo, true)],
            ),
            (Kind::Attributes, "/t/a/f", vec![(What::Attributes, false)]),
            (Kind::Attributes, "/t/a/dir", vec![(What::Attributes, true)]),
            (
                Kind::Attributes,
                "/t/a/?",
                vec![(What::Attributes, false), (What::Attributes, true)],
            ),
        ];
        for (kind, path, expected) in cases {
            assert_eq!(world.told(kind, path), expected, "{kind:?} {path}");
        }
        assert_eq!(world.take(Kind::Written, "/t/c/f").0, []);
        assert_eq!(world.take(Kind::Written, "/u/f").0, []);
    }

    #[test]
    fn a_renamed_directory_ends_with_all_below_it() {
        let mut world = World::new(Manner::Each);
        let b = world.registry.find(b"/t/b").unwrap();
        // Registered under its new path already: the crate will drop that as well.
        world.registry.insert(b"/t/b", (1, 1)).unwrap();
        let (mut told, outcome) = world.take(Kind::From, "/t/a");
        let first = told.remove(0);
        assert_eq!(first, ("/t".into(), What::MovedFrom, true, "a".into()));
        told.sort_by(|x, y| x.0.cmp(&y.0));
        let gone = |dir: &str| (dir.to_owned(), What::WatchGone, true, String::new());
        assert_eq!(told, [gone("/t/a"), gone("/t/a/x"), gone("/t/b")]);
        assert_eq!(outcome.dropped.len(), 3);
        assert!(!outcome.top);
        assert_eq!(world.registry.find(b"/t/a/x"), None);
        assert_ne!(world.registry.find(b"/t/b"), Some(b));
    }

    #[test]
    fn a_removed_directory_ends_and_one_that_was_not_empty_is_unsure() {
        let mut world = World::new(Manner::Each);
        let (told, outcome) = world.take(Kind::Removed(Some(true)), "/t/b");
        assert_eq!(told[0], ("/t".into(), What::Deleted, true, "b".into()));
        assert_eq!(told[1].1, What::WatchGone);
        assert_eq!(outcome.dropped, [b"/t/b"[..].into()]);
        let (told, outcome) = world.take(Kind::Removed(None), "/t/a");
        assert_eq!(told[0], ("/t".into(), What::MovedFrom, true, "a".into()));
        assert_eq!(outcome.dropped.len(), 2);
    }

    #[test]
    fn the_top_is_a_case_of_its_own() {
        let mut world = World::new(Manner::Each);
        let (told, outcome) = world.take(Kind::Attributes, "/t");
        assert_eq!(told, [("/t".into(), What::Attributes, true, String::new())]);
        assert!(!outcome.top);
        for kind in [Kind::From, Kind::Removed(Some(true)), Kind::Renamed] {
            let (told, outcome) = world.take(kind, "/t");
            assert_eq!(told, []);
            assert!(outcome.top && outcome.dropped.is_empty());
        }
        // The top registered under another path in itself would be a mount.
        world.registry.insert(b"/t/b", (1, 0)).unwrap();
        assert!(world.take(Kind::From, "/t/b").1.top);
    }

    #[test]
    fn merged_events_are_believed_as_little_as_possible() {
        let mut world = World::new(Manner::Merged);
        assert_eq!(
            world.told(Kind::Created(Some(false)), "/t/f"),
            [(What::Written, false)]
        );
        assert_eq!(
            world.told(Kind::Created(None), "/t/f"),
            [(What::Written, false), (What::MovedTo, true)]
        );
        assert_eq!(
            world.told(Kind::Renamed, "/t/f"),
            [
                (What::MovedFrom, false),
                (What::MovedFrom, true),
                (What::MovedTo, true)
            ]
        );
        let (told, _) = world.take(Kind::Written, "/t/a/new/deep/f");
        assert_eq!(
            told,
            [("/t/a".into(), What::MovedTo, true, "new".to_owned())]
        );
        assert_eq!(world.take(Kind::Written, "/t/.git/objects/f").0, []);
        assert_eq!(world.take(Kind::Written, "/u/new/f").0, []);
    }
}
