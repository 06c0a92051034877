//! Making the belief true again: looking at every place that is in doubt.
//!
//! What a place holds is asked of the backend by watching it: the same directory gives
//! the same watch, wherever it has gone meanwhile (inotify_add_watch(2) goes by inode).
//! That one answer tells a directory that came back from one that was replaced, and finds
//! a renamed directory with all its watches in place.
//!
//! A look can itself be overtaken: a directory above may have moved between the last
//! read of the queue and the look, so that the path led somewhere else. Its rename is in
//! the queue then. It puts the directory in doubt, and a directory that is found after a
//! rename has everything below it looked at again. So what is wrong for a moment is
//! mended before anybody is told.

use std::time::Instant;

use crate::backend::{Backend, Inode, WatchError};

use super::state::{Doubt, Listing, NOTHING, Place};
use super::tracker::Tracker;
use super::tree::{NodeId, TOP};

/// So many looks are taken between two looks at the clock.
const LOOKS: u32 = 16;

/// A directory found in so many places in one go is not being renamed: it is mounted twice.
const FINDS_MAX: u32 = 64;

/// How far a round of looking came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// At everything.
    All,
    /// Time was up.
    Some,
    /// The system's limit of watches is used up.
    Limit,
}

impl<B: Backend> Tracker<B> {
    /// Looks at places in doubt, directories to list and files written, until all is
    /// done or time is up. The top must have been entered.
    pub(super) fn look(&mut self, until: Instant) -> Looked {
        let mut looks = 0;
        if !self.state.doubts.is_empty() {
            self.state.links.look_again();
        }
        loop {
            let more = if let Some((place, doubt)) = self.next_doubt() {
                self.examine(place.0, &place.1, doubt, false)
            } else if let Some(listing) = self.state.listings.pop() {
                let others = self.state.listings.len();
                let listed = self.list(&listing);
                self.state.share_out(listing.share, others);
                listed
            } else {
                break;
            };
            if more.is_err() {
                return Looked::Limit;
            }
            if self.state.lost.is_some() {
                return Looked::Some;
            }
            looks += 1;
            if looks % LOOKS == 0 && Instant::now() >= until {
                return Looked::Some;
            }
        }
        self.check_links();
        Looked::All
    }

    /// The next place whose path can be trusted: no directory above it is in doubt.
    fn next_doubt(&mut self) -> Option<(Place, Doubt)> {
        let mut put_off = 0;
        while put_off < self.state.doubts.len() {
            let (place, doubt) = self.state.doubts.pop_front()?;
            let state = &mut self.state;
            if !state.tree.is_alive(place.0) {
                continue;
            }
            let (mut at, mut ready) = (place.0, true);
            while let Some(above) = state.tree.parent(at) {
                ready &= !state.doubted.contains(&at);
                at = above;
            }
            if at != TOP {
                state.parked.push((place, doubt));
            } else if ready {
                return Some((place, doubt));
            } else {
                state.doubts.insert(place, doubt);
                put_off += 1;
            }
        }
        None
    }

    /// Finds out what directory is at a place. `deep`: and looks at all below it again.
    /// An error means that the limit of watches is used up.
    fn examine(
        &mut self,
        parent: NodeId,
        name: &[u8],
        doubt: Doubt,
        deep: bool,
    ) -> Result<(), WatchError> {
        if name.is_empty() {
            self.examine_access(TOP);
            return Ok(());
        }
        let mut path = Vec::new();
        if !self.state.tree.path(parent, &mut path) {
            return Ok(());
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        self.examine_at(&path, parent, name, doubt, deep)
    }

    /// The same, where the path of the place is known.
    fn examine_at(
        &mut self,
        path: &[u8],
        parent: NodeId,
        name: &[u8],
        doubt: Doubt,
        deep: bool,
    ) -> Result<(), WatchError> {
        if parent != TOP && self.state.tree.name(parent) == b".git" {
            // Nothing below a git directory is watched; this was another directory when
            // the doubt came up.
            return Ok(());
        }
        let current = self.state.tree.child(parent, name);
        if let Some(node) = current {
            self.state.doubted.remove(&node);
        }
        let id = match self.backend.watch(path) {
            Ok(id) => id,
            Err(WatchError::NotADirectory) => {
                if let Some(node) = current {
                    self.state.detach(node, doubt.moved);
                }
                return Ok(());
            }
            Err(WatchError::LimitReached) => return Err(WatchError::LimitReached),
            Err(WatchError::NoAccess) => {
                self.cannot_see(parent, name, current, doubt);
                return Ok(());
            }
            Err(WatchError::Other(_)) => {
                // git may well see what we cannot (we are out of memory, say).
                self.state.lost = Some("a directory cannot be watched");
                return Ok(());
            }
        };
        match (self.state.tree.by_watch(id), current) {
            (Some(found), Some(node)) if found == node => {
                if doubt.attributes {
                    self.examine_access(node);
                }
                if doubt.moved || deep {
                    self.state.listings.push(Listing::deep(node));
                }
            }
            (Some(found), _) => {
                if found == TOP || self.state.tree.is_below(found, parent) {
                    self.state.lost = Some("a directory appeared inside itself");
                    return Ok(());
                }
                if let Some(node) = current {
                    self.state.detach(node, doubt.moved);
                }
                self.found(found, parent, name);
            }
            (None, Some(node))
                if self.state.blind.contains(&node) && self.state.tree.watch(node).is_none() =>
            {
                self.state.tree.set_watch(node, id);
                self.state.listings.push(Listing::deep(node));
            }
            (None, current) => {
                if let Some(node) = current {
                    self.state.detach(node, doubt.moved);
                }
                let node = self.state.add(parent, name);
                self.state.tree.set_watch(node, id);
                // While nothing is recorded, only subdirectories are of interest.
                if self.state.recording || !self.backend.disk().leaf(path) {
                    self.state.listings.push(Listing {
                        node,
                        deep: false,
                        fresh: true,
                        share: 0.0,
                    });
                }
            }
        }
        Ok(())
    }

    /// A known directory turned up at a place where it was not.
    fn found(&mut self, node: NodeId, parent: NodeId, name: &[u8]) {
        let finds = self.finds.entry(node).or_insert(0);
        *finds += 1;
        if *finds > FINDS_MAX {
            self.state.lost = Some("a directory is found in two places, as if mounted twice");
            return;
        }
        if let Some(old_parent) = self.state.tree.parent(node) {
            // Its rename may not have been read yet. If it still is in its old place as
            // well, the look at that place finds it there, and so on: see above.
            let old_name: Box<[u8]> = self.state.tree.name(node).into();
            self.state.doubted.remove(&node);
            self.state.detach(node, true);
            let moved = Doubt {
                moved: true,
                attributes: false,
            };
            self.state.doubt(old_parent, &old_name, moved);
        }
        if name == b".git" {
            // To git, all that was in it is gone, and nobody knows what files that was.
            if self.state.recording && self.state.tree.name(node) != b".git" {
                self.state.journal.record_everything();
            }
            // Nothing below a git directory is watched.
            let below: Vec<NodeId> = self.state.tree.children(node).collect();
            for child in below {
                let backend = &mut self.backend;
                self.state
                    .tree
                    .remove(child, &mut |watch| backend.unwatch(watch));
            }
        }
        self.state.attach(node, parent, name);
    }

    /// A directory that is there but cannot be watched is a blind spot.
    fn cannot_see(&mut self, parent: NodeId, name: &[u8], current: Option<NodeId>, doubt: Doubt) {
        let node = match current {
            Some(node) if !doubt.moved => node,
            _ => {
                if let Some(node) = current {
                    self.state.detach(node, true);
                }
                self.state.add(parent, name)
            }
        };
        self.note_access(node, false);
    }

    /// Permissions of a watched directory may have changed: its watch goes on, but names
    /// in it may no longer be found, or be found again.
    fn examine_access(&mut self, node: NodeId) {
        let mut path = Vec::new();
        if !self.state.tree.path(node, &mut path) {
            return;
        }
        if !self.backend.disk().searchable(&path) {
            self.note_access(node, false);
            return;
        }
        if self.state.blind.contains(&node) {
            self.state.listings.push(Listing::deep(node));
        }
        // It may have been closed for a moment that was noticed only further down.
        let state = &mut self.state;
        let below = |&id: &NodeId| id != node && state.tree.is_below(node, id);
        let below: Vec<NodeId> = state.blind.iter().copied().filter(below).collect();
        for node in below {
            let Some(parent) = state.tree.parent(node) else {
                continue;
            };
            let name: Box<[u8]> = state.tree.name(node).into();
            let attributes = Doubt {
                moved: false,
                attributes: true,
            };
            state.doubt(parent, &name, attributes);
        }
    }

    /// Notes whether a directory can be listed and names in it be looked up. If that is
    /// new, git may have seen, or may now see, what nobody can name.
    fn note_access(&mut self, node: NodeId, open: bool) {
        let blind = &mut self.state.blind;
        let is_new = if open {
            blind.remove(&node)
        } else {
            blind.insert(node)
        };
        if is_new && self.state.recording {
            self.state.journal.record_everything();
            if !open {
                // git may have listed what is below while that could be reached.
                for id in self.state.tree.below(node) {
                    if self.state.tree.name(id) != b".git" {
                        self.state.record(id, NOTHING);
                    }
                }
            }
        }
    }

    /// Lists a directory: records what is in it and watches the directories in it.
    fn list(&mut self, listing: &Listing) -> Result<(), WatchError> {
        let node = listing.node;
        let mut path = Vec::new();
        if !self.state.tree.is_alive(node) || !self.state.tree.path(node, &mut path) {
            // Gone, or missing: if it is found, all of it is listed again.
            return Ok(());
        }
        if node != TOP && self.state.tree.name(node) == b".git" {
            let open = self.backend.disk().searchable(&path);
            self.note_access(node, open);
            return Ok(());
        }
        let mut names = std::mem::take(&mut self.names);
        names.clear();
        let listed = self
            .backend
            .disk()
            .list(&path, &mut |name, is_dir| names.push(name, is_dir));
        let open = match listed {
            Ok(open) => open,
            Err(error) => {
                use std::io::ErrorKind::{
                    InvalidFilename, NotADirectory, NotFound, PermissionDenied,
                };
                match error.kind() {
                    // Not for us, or a path longer than any may be: not for git either.
                    PermissionDenied | InvalidFilename => false,
                    // It is gone, and the event that says so is in the queue.
                    NotFound | NotADirectory => {
                        self.names = names;
                        return Ok(());
                    }
                    // git may well see what we cannot (we have no descriptor left, say).
                    _ => {
                        self.state.lost = Some("a directory cannot be listed");
                        self.names = names;
                        return Ok(());
                    }
                }
            }
        };
        self.note_access(node, open);
        if !path.is_empty() {
            path.push(b'/');
        }
        let length = path.len();
        let mut unlisted: Vec<NodeId> = Vec::new();
        if listing.deep && open {
            unlisted.extend(self.state.tree.children(node));
        }
        // A directory that is new: nothing need be looked up in the tree.
        let empty = self.state.tree.children(node).next().is_none();
        let mut result = Ok(());
        if names.iter().all(|(name, _)| name == b".git") {
            self.state.record(node, NOTHING);
        }
        for (name, is_dir) in names.iter() {
            let is_git = name == b".git";
            if is_git && node == TOP {
                continue;
            }
            if is_git {
                self.state.nested.insert(node);
            }
            if !is_git {
                self.state.record(node, name);
            }
            if !is_dir && listing.fresh && self.state.recording {
                // As if it had been told.
                self.state.links.created(node, name);
                self.state.links.closed(node, name);
            }
            let child = if empty {
                None
            } else {
                self.state.tree.child(node, name)
            };
            if listing.deep {
                unlisted.retain(|&id| Some(id) != child);
            }
            if !is_dir {
                if child.is_some() {
                    self.state.doubt(node, name, Doubt::default());
                }
            } else if child.is_none() || listing.deep {
                path.truncate(length);
                path.extend_from_slice(name);
                let deep = listing.deep && child.is_some();
                result = self.examine_at(&path, node, name, Doubt::default(), deep);
                if result.is_err() {
                    break;
                }
            }
        }
        self.names = names;
        // What was put here by a look that was overtaken, or could not be looked at then.
        for child in unlisted {
            let name: Box<[u8]> = self.state.tree.name(child).into();
            if self.state.tree.child(node, &name) == Some(child) {
                self.state.doubt(node, &name, Doubt::default());
            }
        }
        result
    }

    fn check_links(&mut self) {
        if self.state.links.is_empty() {
            return;
        }
        let (tree, backend) = (&self.state.tree, &mut self.backend);
        // The path of a directory, if it has one, with its slash.
        let (mut path, mut length, mut of) = (Vec::new(), None, None);
        let unsure = self.state.links.check(&mut |dir, name| {
            if of != Some(dir) {
                of = Some(dir);
                path.clear();
                let is_there = tree.is_alive(dir) && tree.path(dir, &mut path);
                if !path.is_empty() {
                    path.push(b'/');
                }
                length = is_there.then_some(path.len());
            }
            path.truncate(length?);
            path.extend_from_slice(name);
            let found = backend.disk().inode(&path)?;
            if !found.is_dir {
                return Some(found);
            }
            // A directory after all: not every backend knows when it tells.
            tree.child(dir, name).map(|_| Inode { links: 1, ..found })
        });
        if unsure {
            self.state.journal.record_everything();
        }
    }

    /// Nothing is in doubt and the whole queue was read: what is still missing is gone.
    pub(super) fn let_go(&mut self) {
        let backend = &mut self.backend;
        let state = &mut self.state;
        for missing in std::mem::take(&mut state.missing) {
            if !state.tree.is_alive(missing.node) || state.tree.parent(missing.node).is_some() {
                continue;
            }
            // A directory that was removed has told of all that was in it, and its watch
            // is gone. What still has a watch left the tree, by itself or in another that
            // may be removed by now, or went with all in it at once (a btrfs subvolume):
            // nobody knows what files were in it.
            let mut left = missing.moved;
            state.tree.remove(missing.node, &mut |watch| {
                left = true;
                backend.unwatch(watch);
            });
            if left && state.recording {
                state.journal.record_everything();
            }
        }
        state.forget_aliases();
        state.parked.clear();
        state.doubted.clear();
        let blind = state.blind.len();
        state.blind.retain(|&node| state.tree.is_alive(node));
        if state.blind.len() != blind && state.recording {
            // Nobody could look at what was in it, but git may know files there.
            state.journal.record_everything();
        }
        state.nested.retain(|&node| state.tree.is_alive(node));
        state.refused.retain(|&node| state.tree.is_alive(node));
        self.finds.clear();
        if state.links.settle(|node| state.tree.is_alive(node)) {
            state.journal.record_everything();
        }
        if state.links.is_empty() {
            state.tree.sweep();
        }
    }
}
