//! Which directories were registered with the notify crate: path, identity, id. Pure.
//!
//! The crate knows its watches by path, and on Linux two of its paths can stand for one
//! kernel watch: a directory that was renamed and registered under its new path before
//! the crate has read of the rename. When it then reads of it, it takes the old path's
//! watch away, and with it the new path's, without a word. So whatever ends one
//! registration here ends those of the same directory under other paths too.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::backend::WatchId;

/// A directory, whatever its name: device and inode (`st_dev`, `st_ino`).
pub type Identity = (u64, u64);

/// One registered directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its absolute path.
    pub path: Rc<[u8]>,
    /// Its id, which no other registration has had.
    pub id: WatchId,
    /// Which directory it was.
    pub identity: Identity,
}

/// See the module's text.
#[derive(Default)]
pub struct Registry {
    by_path: BTreeMap<Rc<[u8]>, (WatchId, Identity)>,
    by_id: HashMap<WatchId, Rc<[u8]>>,
    by_identity: HashMap<Identity, SmallVec<[WatchId; 1]>>,
    last_id: WatchId,
}

impl Registry {
    /// The registration of a path.
    pub fn find(&self, path: &[u8]) -> Option<(WatchId, Identity)> {
        self.by_path.get(path).copied()
    }

    /// The path of a registration.
    pub fn get(&self, id: WatchId) -> Option<Rc<[u8]>> {
        self.by_id.get(&id).cloned()
    }

    /// Other paths under which this directory is registered.
    pub fn other_paths(&self, identity: Identity, path: &[u8]) -> Vec<Rc<[u8]>> {
        let ids = self.by_identity.get(&identity);
        ids.into_iter()
            .flatten()
            .filter_map(|id| self.by_id.get(id))
            .filter(|other| ***other != *path)
            .cloned()
            .collect()
    }

    /// Notes a registration, in place of the path's former one. `None` when the ids are
    /// used up.
    pub fn insert(&mut self, path: &[u8], identity: Identity) -> Option<WatchId> {
        if let Some((old, _)) = self.find(path) {
            self.remove(old);
        }
        let id = self.last_id.checked_add(1)?;
        self.last_id = id;
        let path: Rc<[u8]> = path.into();
        self.by_path.insert(path.clone(), (id, identity));
        self.by_id.insert(id, path);
        self.by_identity.entry(identity).or_default().push(id);
        Some(id)
    }

    /// Forgets one registration.
    pub fn remove(&mut self, id: WatchId) -> Option<Registration> {
        let path = self.by_id.remove(&id)?;
        let (_, identity) = self.by_path.remove(&path)?;
        if let Some(ids) = self.by_identity.get_mut(&identity) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_identity.remove(&identity);
            }
        }
        Some(Registration { path, id, identity })
    }

    /// Whether anything below `path` is registered.
    pub fn has_below(&self, path: &[u8]) -> bool {
        self.below(path).next().is_some()
    }

    /// Forgets `path`, everything below it, and every other registration of any of these
    /// directories; returns them.
    pub fn remove_all(&mut self, path: &[u8]) -> Vec<Registration> {
        let mut ids: Vec<WatchId> = self.find(path).map(|(id, _)| id).into_iter().collect();
        ids.extend(self.below(path));
        let mut gone = Vec::new();
        while let Some(id) = ids.pop() {
            if let Some(registration) = self.remove(id) {
                if let Some(others) = self.by_identity.get(&registration.identity) {
                    ids.extend_from_slice(others);
                }
                gone.push(registration);
            }
        }
        gone
    }

    /// The deepest registered directory above `path`, and the part of `path` below it.
    pub fn deepest_above<'a>(&self, path: &'a [u8]) -> Option<(WatchId, &'a [u8])> {
        let mut at = path;
        loop {
            let (dir, _) = split(at)?;
            if let Some((id, _)) = self.find(dir) {
                let below = &path[dir.len()..];
                return Some((id, below.strip_prefix(b"/").unwrap_or(below)));
            }
            at = dir;
        }
    }

    fn below(&self, path: &[u8]) -> impl Iterator<Item = WatchId> + '_ {
        let mut prefix = path.to_vec();
        if prefix.last() != Some(&b'/') {
            prefix.push(b'/');
        }
        let start: Bound<&[u8]> = Bound::Excluded(&prefix);
        self.by_path
            .range::<[u8], _>((start, Bound::Unbounded))
            .take_while({
                let prefix = prefix.clone();
                move |(path, _)| path.starts_with(&prefix)
            })
            .map(|(_, (id, _))| *id)
            .collect::<Vec<_>>()
            .into_iter()
    }
}

/// An absolute path's directory and the name in it; `None` for `/`.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    let name = &path[slash + 1..];
    let dir = if slash == 0 { b"/" } else { &path[..slash] };
    (!name.is_empty()).then_some((dir, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(gone: Vec<Registration>) -> Vec<String> {
        let mut paths: Vec<_> = gone
            .into_iter()
            .map(|r| String::from_utf8(r.path.to_vec()).unwrap())
            .collect();
        paths.sort();
        paths
    }

    #[test]
    fn what_is_below_goes_along_and_what_only_looks_like_it_stays() {
        let mut registry = Registry::default();
        for (inode, path) in ["/t/a", "/t/a/x", "/t/a/x/y", "/t/a-b", "/t/a.c", "/t/b"]
            .iter()
            .enumerate()
        {
            registry.insert(path.as_bytes(), (1, inode as u64)).unwrap();
        }
        assert!(registry.has_below(b"/t/a/x"));
        assert!(!registry.has_below(b"/t/a/x/y"));
        assert_eq!(
            paths(registry.remove_all(b"/t/a")),
            ["/t/a", "/t/a/x", "/t/a/x/y"]
        );
        assert!(registry.find(b"/t/a-b").is_some());
        assert!(registry.find(b"/t/a/x").is_none());
        assert!(registry.remove_all(b"/t/a").is_empty());
    }

    #[test]
    fn a_directory_under_a_second_path_goes_along_with_the_first() {
        let mut registry = Registry::default();
        registry.insert(b"/t/a", (1, 7)).unwrap();
        registry.insert(b"/t/a/x", (1, 8)).unwrap();
        let b = registry.insert(b"/t/b", (1, 7)).unwrap();
        registry.insert(b"/t/b/x", (1, 8)).unwrap();
        registry.insert(b"/t/b/new", (1, 9)).unwrap();
        assert_eq!(registry.other_paths((1, 7), b"/t/b"), [b"/t/a"[..].into()]);
        assert_eq!(
            paths(registry.remove_all(b"/t/a")),
            ["/t/a", "/t/a/x", "/t/b", "/t/b/x"]
        );
        assert!(registry.find(b"/t/b/new").is_some());
        assert!(registry.remove(b).is_none());
        assert!(registry.other_paths((1, 7), b"").is_empty());
    }

    #[test]
    fn ids_are_never_given_twice() {
        let mut registry = Registry::default();
        let first = registry.insert(b"/t", (1, 1)).unwrap();
        let second = registry.insert(b"/t", (1, 2)).unwrap();
        assert_ne!(first, second);
        assert!(registry.remove(first).is_none());
        registry.remove(second).unwrap();
        assert_ne!(registry.insert(b"/t", (1, 2)), Some(second));
        registry.last_id = WatchId::MAX;
        assert_eq!(registry.insert(b"/u", (1, 3)), None);
    }

    #[test]
    fn the_deepest_directory_above_is_found() {
        let mut registry = Registry::default();
        let top = registry.insert(b"/t", (1, 1)).unwrap();
        let a = registry.insert(b"/t/a", (1, 2)).unwrap();
        assert_eq!(registry.deepest_above(b"/t/a/b/c"), Some((a, &b"b/c"[..])));
        assert_eq!(registry.deepest_above(b"/t/x"), Some((top, &b"x"[..])));
        assert_eq!(registry.deepest_above(b"/u/x"), None);
        let root = registry.insert(b"/", (1, 3)).unwrap();
        assert_eq!(registry.deepest_above(b"/u/x"), Some((root, &b"u/x"[..])));
        assert!(registry.has_below(b"/"));
    }
}
