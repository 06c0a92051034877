//! The tree of directories: parent, name, watch. Pure, and nothing in it per file.
//!
//! A node stands for one directory, not for a path: a rename moves one node, and all
//! below it comes along. Watch descriptors follow inodes in just the same way
//! (inotify(7)), so a node keeps its watch wherever it goes.
//!
//! A node is *attached* when its parents lead to the top. A detached node keeps what is
//! below it until it is attached again or removed.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use smallvec::SmallVec;

use crate::backend::WatchId;

/// A directory. Ids of removed nodes are not given out again before [`Tree::sweep`].
pub type NodeId = u32;

/// The top of the worktree. Always there, always attached, never moved.
pub const TOP: NodeId = 0;

const NONE: NodeId = NodeId::MAX;

/// No watch: kernel watch descriptors begin at 1 (inotify_add_watch(2)).
const UNWATCHED: WatchId = 0;

struct Node {
    name: SmallVec<[u8; 16]>,
    parent: NodeId,
    first_child: NodeId,
    next: NodeId,
    previous: NodeId,
    watch: WatchId,
    alive: bool,
}

impl Node {
    /// A directory that is in no place yet, and unwatched.
    fn new(name: &[u8]) -> Self {
        Self {
            name: SmallVec::from_slice(name),
            parent: NONE,
            first_child: NONE,
            next: NONE,
            previous: NONE,
            watch: UNWATCHED,
            alive: true,
        }
    }
}

/// See the module's text. About 60 bytes a directory.
pub struct Tree {
    nodes: Vec<Node>,
    /// Attached nodes by (parent, name).
    entries: HashTable<NodeId>,
    watches: HashMap<WatchId, NodeId>,
    hasher: DefaultHashBuilder,
    removed: Vec<NodeId>,
    free: Vec<NodeId>,
}

impl Tree {
    /// A tree of the top alone, unwatched.
    pub fn new() -> Self {
        let top = Node::new(b"");
        Self {
            nodes: vec![top],
            entries: HashTable::new(),
            watches: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
            removed: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Number of directories, detached ones included.
    pub fn len(&self) -> usize {
        self.nodes.len() - self.removed.len() - self.free.len()
    }

    /// Number of directories that have a watch.
    pub fn watched(&self) -> usize {
        self.watches.len()
    }

    /// Whether the id still stands for a directory.
    pub fn is_alive(&self, id: NodeId) -> bool {
        self.node(id).alive
    }

    /// The directory `name` in `parent`.
    pub fn child(&self, parent: NodeId, name: &[u8]) -> Option<NodeId> {
        if self.node(parent).first_child == NONE {
            return None;
        }
        let hash = self.hash(parent, name);
        self.entries
            .find(hash, |&id| {
                let node = &self.nodes[id as usize];
                node.parent == parent && node.name.as_slice() == name
            })
            .copied()
    }

    /// The directory above; `None` for the top and for a detached node.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        let parent = self.node(id).parent;
        (parent != NONE).then_some(parent)
    }

    /// The last component of the path; empty for the top.
    pub fn name(&self, id: NodeId) -> &[u8] {
        &self.node(id).name
    }

    /// Adds a new directory. There must be none of that name.
    pub fn add(&mut self, parent: NodeId, name: &[u8]) -> NodeId {
        let node = Node::new(name);
        let id = if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = node;
            id
        } else {
            if self.nodes.len() == self.nodes.capacity() {
                // Doubling would leave up to half of a big tree's memory unused.
                self.nodes.reserve_exact(self.nodes.len() / 8 + 64);
            }
            self.nodes.push(node);
            (self.nodes.len() - 1) as NodeId
        };
        self.link(id, parent);
        id
    }

    /// Takes a directory, with all below it, out of its place.
    pub fn detach(&mut self, id: NodeId) {
        let parent = self.node(id).parent;
        if parent == NONE {
            return;
        }
        let hash = self.hash(parent, &self.nodes[id as usize].name);
        if let Ok(entry) = self.entries.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        let (previous, next) = (self.node(id).previous, self.node(id).next);
        if previous == NONE {
            self.nodes[parent as usize].first_child = next;
        } else {
            self.nodes[previous as usize].next = next;
        }
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
        let node = &mut self.nodes[id as usize];
        node.parent = NONE;
        node.previous = NONE;
        node.next = NONE;
    }

    /// Puts a detached directory, with all below it, into a place where there is none,
    /// and which is not below itself.
    pub fn attach(&mut self, id: NodeId, parent: NodeId, name: &[u8]) {
        self.nodes[id as usize].name = SmallVec::from_slice(name);
        self.link(id, parent);
    }

    /// Removes a directory and all below it; `watch` is called with each watch that was
    /// still there.
    pub fn remove(&mut self, id: NodeId, watch: &mut dyn FnMut(WatchId)) {
        if id == TOP || !self.is_alive(id) {
            return;
        }
        self.detach(id);
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            let mut child = self.node(id).first_child;
            while child != NONE {
                let next = self.node(child).next;
                let hash = self.hash(id, &self.nodes[child as usize].name);
                if let Ok(entry) = self.entries.find_entry(hash, |&other| other == child) {
                    entry.remove();
                }
                stack.push(child);
                child = next;
            }
            let node = &mut self.nodes[id as usize];
            if node.watch != UNWATCHED {
                self.watches.remove(&node.watch);
                watch(node.watch);
            }
            *node = Node {
                alive: false,
                ..Node::new(b"")
            };
            self.removed.push(id);
        }
    }

    /// Lets ids of removed directories be used again: to be called when nobody holds one.
    pub fn sweep(&mut self) {
        self.free.append(&mut self.removed);
    }

    /// The watch of a directory.
    pub fn watch(&self, id: NodeId) -> Option<WatchId> {
        let watch = self.node(id).watch;
        (watch != UNWATCHED).then_some(watch)
    }

    /// The directory that has this watch.
    pub fn by_watch(&self, watch: WatchId) -> Option<NodeId> {
        self.watches.get(&watch).copied()
    }

    /// Gives a directory a watch; returns the one it had before, if another.
    pub fn set_watch(&mut self, id: NodeId, watch: WatchId) -> Option<WatchId> {
        let old = std::mem::replace(&mut self.nodes[id as usize].watch, watch);
        self.watches.insert(watch, id);
        if old == UNWATCHED || old == watch {
            return None;
        }
        self.watches.remove(&old);
        Some(old)
    }

    /// Notes that the watch of a directory is gone.
    pub fn clear_watch(&mut self, id: NodeId) {
        let old = std::mem::replace(&mut self.nodes[id as usize].watch, UNWATCHED);
        self.watches.remove(&old);
    }

    /// Appends the path of a directory to `path`. `false`, with `path` as it was, if the
    /// directory is not attached.
    pub fn path(&self, id: NodeId, path: &mut Vec<u8>) -> bool {
        self.path_below(TOP, id, path)
    }

    /// Appends the path that leads from `above` to `id`. `false`, with `path` as it was,
    /// if none does.
    pub fn path_below(&self, above: NodeId, id: NodeId, path: &mut Vec<u8>) -> bool {
        let mut chain: SmallVec<[NodeId; 32]> = SmallVec::new();
        let mut at = id;
        while at != above {
            chain.push(at);
            at = self.node(at).parent;
            if at == NONE {
                return false;
            }
        }
        for (i, id) in chain.iter().rev().enumerate() {
            if i > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&self.node(*id).name);
        }
        true
    }

    /// Visits every attached directory with its path and its name, a directory before
    /// those in it; `false` leaves those in it out. The path must be left as it was.
    pub fn walk(&self, visit: &mut dyn FnMut(&mut Vec<u8>, &[u8]) -> bool) {
        let mut path = Vec::new();
        // A directory, and the length of the path of the one above it.
        let mut stack = vec![(TOP, 0)];
        while let Some((id, above)) = stack.pop() {
            path.truncate(above);
            if above > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&self.node(id).name);
            let length = path.len();
            if visit(&mut path, &self.node(id).name) {
                stack.extend(self.children(id).map(|child| (child, length)));
            }
        }
    }

    /// Whether `id` is `above` or below it.
    pub fn is_below(&self, above: NodeId, id: NodeId) -> bool {
        let mut at = id;
        loop {
            if at == above {
                return true;
            }
            at = self.node(at).parent;
            if at == NONE {
                return false;
            }
        }
    }

    /// Every directory below `id`, not `id` itself.
    pub fn below(&self, id: NodeId) -> Vec<NodeId> {
        let mut all: Vec<NodeId> = self.children(id).collect();
        let mut next = 0;
        while let Some(&id) = all.get(next) {
            all.extend(self.children(id));
            next += 1;
        }
        all
    }

    /// The directories directly in `id`.
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let first = self.node(id).first_child;
        std::iter::successors((first != NONE).then_some(first), |&at| {
            let next = self.node(at).next;
            (next != NONE).then_some(next)
        })
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    fn hash(&self, parent: NodeId, name: &[u8]) -> u64 {
        self.hasher.hash_one((parent, name))
    }

    fn link(&mut self, id: NodeId, parent: NodeId) {
        let next = std::mem::replace(&mut self.nodes[parent as usize].first_child, id);
        if next != NONE {
            self.nodes[next as usize].previous = id;
        }
        let node = &mut self.nodes[id as usize];
        node.parent = parent;
        node.previous = NONE;
        node.next = next;
        let hash = self
            .hasher
            .hash_one((parent, self.nodes[id as usize].name.as_slice()));
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.entries.insert_unique(hash, id, |&other| {
            let node = &nodes[other as usize];
            hasher.hash_one((node.parent, node.name.as_slice()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(tree: &Tree, id: NodeId) -> Option<String> {
        let mut path = Vec::new();
        tree.path(id, &mut path)
            .then(|| String::from_utf8(path).unwrap())
    }

    #[test]
    fn all_below_a_directory_comes_along_when_it_moves() {
        let mut tree = Tree::new();
        let a = tree.add(TOP, b"a");
        let sub = tree.add(a, b"sub");
        let deep = tree.add(sub, b"deep");
        tree.set_watch(deep, 7);
        tree.detach(a);
        assert_eq!(path(&tree, deep), None);
        tree.attach(a, TOP, b"b");
        assert_eq!(path(&tree, deep).as_deref(), Some("b/sub/deep"));
        assert_eq!(tree.by_watch(7), Some(deep));
        assert_eq!(tree.child(TOP, b"a"), None);
        assert_eq!(tree.child(TOP, b"b"), Some(a));
    }

    #[test]
    fn removing_gives_back_every_watch_below() {
        let mut tree = Tree::new();
        let a = tree.add(TOP, b"a");
        let b = tree.add(a, b"b");
        let c = tree.add(TOP, b"c");
        tree.set_watch(a, 1);
        tree.set_watch(b, 2);
        tree.set_watch(c, 3);
        let mut gone = Vec::new();
        tree.remove(a, &mut |watch| gone.push(watch));
        gone.sort_unstable();
        assert_eq!(gone, [1, 2]);
        assert_eq!(tree.len(), 2);
        assert!(!tree.is_alive(b));
        assert_eq!(tree.by_watch(2), None);
        assert_eq!(tree.children(TOP).collect::<Vec<_>>(), [c]);
    }

    #[test]
    fn ids_come_back_only_after_a_sweep() {
        let mut tree = Tree::new();
        let a = tree.add(TOP, b"a");
        tree.remove(a, &mut |_| {});
        assert_ne!(tree.add(TOP, b"b"), a);
        tree.sweep();
        assert_eq!(tree.add(TOP, b"c"), a);
    }

    #[test]
    fn a_new_watch_takes_the_place_of_the_old_one() {
        let mut tree = Tree::new();
        let a = tree.add(TOP, b"a");
        assert_eq!(tree.set_watch(a, 5), None);
        assert_eq!(tree.set_watch(a, 5), None);
        assert_eq!(tree.set_watch(a, 6), Some(5));
        assert_eq!(tree.by_watch(5), None);
        tree.clear_watch(a);
        assert_eq!(tree.watch(a), None);
        assert_eq!(tree.watched(), 0);
    }

    #[test]
    fn a_walk_visits_every_directory_once() {
        let mut tree = Tree::new();
        let a = tree.add(TOP, b"a");
        let b = tree.add(a, b"b");
        tree.add(b, b"deep");
        tree.add(a, b"c");
        let closed = tree.add(TOP, b"closed");
        tree.add(closed, b"hidden");
        let mut seen = Vec::new();
        tree.walk(&mut |path, name| {
            seen.push(String::from_utf8(path.clone()).unwrap());
            name != b"closed"
        });
        seen.sort();
        assert_eq!(seen, ["", "a", "a/b", "a/b/deep", "a/c", "closed"]);
    }

    #[test]
    fn siblings_can_leave_in_any_order() {
        let mut tree = Tree::new();
        let ids: Vec<_> = [b"a", b"b", b"c", b"d"]
            .iter()
            .map(|n| tree.add(TOP, *n))
            .collect();
        for gone in [1, 3, 0] {
            tree.detach(ids[gone]);
        }
        assert_eq!(tree.children(TOP).collect::<Vec<_>>(), [ids[2]]);
        tree.attach(ids[0], ids[2], b"x");
        assert_eq!(path(&tree, ids[0]).as_deref(), Some("c/x"));
        assert!(tree.is_below(ids[2], ids[0]));
        assert!(!tree.is_below(ids[0], ids[2]));
    }
}
