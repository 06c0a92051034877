//! What the watcher believes about the tree, and what it still has to look at. Pure.
//!
//! Events are taken in here. They are never believed about *where* a directory is: a
//! rename, a removal or a creation of a directory only marks its place (parent and name)
//! as one to look at, and [`super::settle`] then finds out what is there now. So no
//! order of events, no half of a pair and no name that was made anew can mislead it.
//!
//! Until a place was looked at, the tree is as it was, and events below a directory that
//! moved are recorded under its old path: that is the path git knows. After it was
//! looked at, its old paths stay on as *aliases* until a whole queue was read that can
//! hold events from before the look.

use hashbrown::HashSet;
use hashlink::LinkedHashMap;

use super::journal::Journal;
use super::links::Links;
use super::refused::is_refused;
use super::tree::{NodeId, TOP, Tree};
use crate::backend::{Event, WatchId, What};

/// More renamed directories than this at once are recorded as "everything": following
/// every event under each of them would cost more than git's own scan.
const ALIASES_MAX: usize = 256;

/// Named in place of the entries of a directory that has none. It came here since the
/// last answer, or was another then, and what it held in between may have come and gone
/// before it was watched, but not before git listed it. git lists a directory anew only
/// if something directly in it is named (git: dir.c, invalidate_one_component), whether
/// that is there or not.
pub const NOTHING: &[u8] = b".treewatch";

/// A place to look at: a directory and a name in it.
pub type Place = (NodeId, Box<[u8]>);

/// What is known of a place to look at.
#[derive(Clone, Copy, Default)]
pub struct Doubt {
    /// A directory was renamed to or from it: what was looked up below it before may
    /// have been something else.
    pub moved: bool,
    /// Its permissions may have changed.
    pub attributes: bool,
}

/// A directory whose entries are to be listed.
pub struct Listing {
    /// Which.
    pub node: NodeId,
    /// Also every directory below it, known or not.
    pub deep: bool,
    /// It was not watched before: what happened in it until now was not told.
    pub fresh: bool,
    /// The part of the walk that it is, with all below it; see [`State::walked`].
    pub share: f64,
}

impl Listing {
    /// Of a known directory and all below it.
    pub fn deep(node: NodeId) -> Self {
        Self {
            node,
            deep: true,
            fresh: false,
            share: 0.0,
        }
    }
}

/// A directory that is not where it was, and was not found elsewhere yet.
pub struct Missing {
    /// Which.
    pub node: NodeId,
    /// Whether it may have left the tree with everything in it.
    pub moved: bool,
}

/// A path under which events of a directory, and of all below it, are recorded too.
struct Alias {
    node: NodeId,
    path: Vec<u8>,
}

/// See the module's text.
pub struct State {
    /// The directories.
    pub tree: Tree,
    /// What changed.
    pub journal: Journal,
    /// Whether changes are recorded: not during a crawl, since there is no token yet
    /// that could ask for them.
    pub recording: bool,
    /// Places to look at, in the order in which they came up.
    pub doubts: LinkedHashMap<Place, Doubt>,
    /// Places below a directory that is missing: looked at when it is found.
    pub parked: Vec<(Place, Doubt)>,
    /// Directories that stand at a place to look at.
    pub doubted: HashSet<NodeId>,
    /// Directories to list; the last one first.
    pub listings: Vec<Listing>,
    /// Events taken in.
    pub taken: u64,
    /// How much of a walk is done, from 0 to 1: a guess, by which the directories in one
    /// directory are all equally much.
    pub walked: f64,
    /// Directories to find again.
    pub missing: Vec<Missing>,
    /// Directories that cannot be read: named in every answer.
    pub blind: HashSet<NodeId>,
    /// Directories that hold a repository of their own, as far as they were listed.
    pub nested: HashSet<NodeId>,
    /// Directories that came under a name git takes no word about.
    pub refused: HashSet<NodeId>,
    /// Files to look at.
    pub links: Links,
    /// Watches outside the tree.
    pub guards: Vec<WatchId>,
    /// Something happened to the top, the git directory or our own files: whoever runs
    /// the watcher should see whether they are still there.
    pub suspicious: bool,
    /// The belief cannot be mended; why.
    pub lost: Option<&'static str>,
    aliases: Vec<Alias>,
    path: Vec<u8>,
    /// The last entry recorded since [`State::begin_reading`], and what happened to it:
    /// making a file takes three events, which need one record.
    last: (WatchId, Vec<u8>, What),
}

impl State {
    /// Knows nothing but that there is a top.
    pub fn new(journal: Journal) -> Self {
        Self {
            tree: Tree::new(),
            journal,
            recording: false,
            doubts: LinkedHashMap::new(),
            parked: Vec::new(),
            doubted: HashSet::new(),
            listings: Vec::new(),
            taken: 0,
            walked: 0.0,
            missing: Vec::new(),
            blind: HashSet::new(),
            nested: HashSet::new(),
            refused: HashSet::new(),
            links: Links::default(),
            guards: Vec::new(),
            suspicious: false,
            lost: None,
            aliases: Vec::new(),
            path: Vec::new(),
            last: (0, Vec::new(), What::WatchGone),
        }
    }

    /// The queue is about to be read. Until that is done, no path changes and no place
    /// in the journal is handed out.
    pub fn begin_reading(&mut self) {
        self.last.0 = 0;
    }

    /// Whether there is nothing to look at.
    pub fn is_quiet(&self) -> bool {
        self.doubts.is_empty() && self.listings.is_empty() && self.links.is_empty()
    }

    /// Whether there is nothing to look at but files that were written since the last look.
    pub fn only_files_are_due(&self) -> bool {
        self.doubts.is_empty() && self.listings.is_empty() && self.links.can_wait()
    }

    /// Whether something is kept only until a whole queue was read.
    pub fn is_unsettled(&self) -> bool {
        !self.missing.is_empty() || !self.aliases.is_empty() || self.lost.is_some()
    }

    /// A directory that was `share` of the walk has been listed. What is to be listed
    /// in it comes after so many others in `listings`.
    pub fn share_out(&mut self, share: f64, others: usize) {
        let inside = self.listings.get_mut(others..).unwrap_or_default();
        if inside.is_empty() {
            self.walked += share;
        }
        let each = share / inside.len() as f64;
        for listing in inside {
            listing.share = each;
        }
    }

    /// Takes one event in.
    pub fn take(&mut self, event: Event<'_>) {
        self.taken += 1;
        if self.guards.contains(&event.watch) {
            self.guarded(event);
        }
        let Some(node) = self.tree.by_watch(event.watch) else {
            // A watch that was dropped already: normal after rm -r.
            return;
        };
        match event.what {
            What::WatchGone => {
                self.tree.clear_watch(node);
                if node == TOP {
                    self.suspicious = true;
                } else if let Some(parent) = self.tree.parent(node) {
                    let name: Box<[u8]> = self.tree.name(node).into();
                    self.doubt(parent, &name, Doubt::default());
                }
            }
            What::SelfDeleted | What::SelfMoved => self.suspicious |= node == TOP,
            What::Unmounted if node == TOP => self.suspicious = true,
            What::Unmounted => self.lost = Some("a file system in the worktree was unmounted"),
            What::Attributes if event.name.is_empty() => {
                // Any other directory's parent says the same, with its name.
                if node == TOP {
                    self.doubt(
                        TOP,
                        b"",
                        Doubt {
                            attributes: true,
                            ..Doubt::default()
                        },
                    );
                }
            }
            _ if event.name.is_empty() => {}
            _ => self.entry(node, event),
        }
    }

    fn guarded(&mut self, event: Event<'_>) {
        self.suspicious |= match event.what {
            What::SelfDeleted | What::SelfMoved | What::Unmounted | What::WatchGone => true,
            // git's own lock files come and go all day; what matters is our socket, our
            // directory, and the configuration.
            What::Deleted | What::MovedFrom => {
                event.name.ends_with(b".sock") || event.name == b"treewatch"
            }
            What::MovedTo => event.name.starts_with(b"config"),
            _ => false,
        };
    }

    /// An event about the entry `event.name` of the directory `node`.
    fn entry(&mut self, node: NodeId, event: Event<'_>) {
        let appears_or_goes = matches!(
            event.what,
            What::Created | What::Deleted | What::MovedFrom | What::MovedTo
        );
        if node != TOP && self.tree.name(node) == b".git" {
            // Whether git takes a directory for a repository of its own depends on these
            // (git: setup.c, is_git_directory), and a submodule's state on the others.
            let decisive = [&b"HEAD"[..], b"objects", b"refs"].contains(&event.name);
            if let Some(nested) = self.tree.parent(node) {
                self.nested_changed(nested, decisive && appears_or_goes);
            }
            return;
        } else if event.name == b".git" {
            if node == TOP {
                self.suspicious |= appears_or_goes;
                return;
            }
            self.nested.insert(node);
            self.nested_changed(node, true);
            self.last.0 = 0;
        } else if self.last.0 != event.watch || self.last.1 != event.name {
            self.record(node, event.name);
            self.last.0 = event.watch;
            self.last.1.clear();
            self.last.1.extend_from_slice(event.name);
        } else if matches!(event.what, What::Written | What::Closed)
            && (self.last.2 == What::Written || self.last.2 == event.what)
        {
            // A write, and the end of writing: nothing new.
            return;
        }
        self.last.2 = event.what;
        if appears_or_goes && (event.is_dir || self.tree.child(node, event.name).is_some()) {
            let moved = matches!(event.what, What::MovedFrom | What::MovedTo);
            self.doubt(
                node,
                event.name,
                Doubt {
                    moved,
                    attributes: false,
                },
            );
        } else if event.is_dir && event.what == What::Attributes {
            self.doubt(
                node,
                event.name,
                Doubt {
                    moved: false,
                    attributes: true,
                },
            );
        }
        if !event.is_dir && self.recording {
            match event.what {
                What::Created => self.links.created(node, event.name),
                What::Written => self.links.written(node, event.name),
                What::Closed => self.links.closed(node, event.name),
                What::Attributes => self.links.touched(node, event.name),
                What::Deleted => self.links.deleted(node, event.name),
                What::MovedFrom => self.links.moved_from(node, event.name, event.cookie),
                What::MovedTo => self.links.moved_to(node, event.name, event.cookie),
                _ => {}
            }
        }
    }

    /// A repository inside the worktree changed: to git that is a change of the entry
    /// that holds it, and with `entries` also of how everything in it is to be shown
    /// (git: dir.c, treat_directory). A path below `.git` cannot say so: git drops it.
    fn nested_changed(&mut self, nested: NodeId, entries: bool) {
        let Some(parent) = self.tree.parent(nested) else {
            return;
        };
        let name: Box<[u8]> = self.tree.name(nested).into();
        self.record(parent, &name);
        let listed = |l: &Listing| l.node == nested;
        if entries && self.recording && !self.listings.iter().rev().take(8).any(listed) {
            self.listings.push(Listing {
                node: nested,
                deep: false,
                fresh: false,
                share: 0.0,
            });
        }
    }

    /// Records a change of the entry `name` of the directory `node`, under every path
    /// that git may know it by. An empty name means the directory itself.
    pub fn record(&mut self, node: NodeId, name: &[u8]) {
        if !self.recording {
            return;
        }
        if is_refused(name) {
            self.record(node, NOTHING);
        }
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        if self.tree.path(node, &mut path) {
            join(&mut path, name);
            self.journal.record(&path);
        }
        for alias in &self.aliases {
            path.clear();
            path.extend_from_slice(&alias.path);
            let length = path.len();
            path.push(b'/');
            if self.tree.path_below(alias.node, node, &mut path) {
                if path.len() == length + 1 {
                    path.truncate(length);
                }
                join(&mut path, name);
                self.journal.record(&path);
            }
        }
        self.path = path;
        self.record_nested(node);
    }

    /// Records every repository that `node` lies in: whether git looks into one at all
    /// hangs on what it tracks in there (git: dir.c, treat_directory), and git before 2.37
    /// passes over a submodule that is not named itself.
    fn record_nested(&mut self, node: NodeId) {
        if self.nested.is_empty() {
            return;
        }
        let mut at = node;
        while let Some(above) = self.tree.parent(at) {
            if self.nested.contains(&at) {
                self.path.clear();
                if self.tree.path(at, &mut self.path) {
                    self.journal.record(&self.path);
                }
            }
            at = above;
        }
    }

    /// Marks a place as one to look at.
    pub fn doubt(&mut self, parent: NodeId, name: &[u8], doubt: Doubt) {
        if let Some(node) = self.tree.child(parent, name) {
            self.doubted.insert(node);
        }
        let entry = self
            .doubts
            .entry((parent, name.into()))
            .or_insert_with(Doubt::default);
        entry.moved |= doubt.moved;
        entry.attributes |= doubt.attributes;
    }

    /// Adds a new directory.
    pub fn add(&mut self, parent: NodeId, name: &[u8]) -> NodeId {
        let node = self.tree.add(parent, name);
        self.note_name(node);
        node
    }

    fn note_name(&mut self, node: NodeId) {
        if is_refused(self.tree.name(node)) {
            self.refused.insert(node);
        }
    }

    /// Whether there are directories in the tree in which nothing can be named to git.
    pub fn has_refused(&self) -> bool {
        let mut refused = self.refused.iter();
        refused.any(|&node| self.tree.is_alive(node) && is_refused(self.tree.name(node)))
    }

    /// Takes a directory out of its place: it is missing until it is found elsewhere. Its
    /// present paths stay on as aliases.
    pub fn detach(&mut self, node: NodeId, moved: bool) {
        // git never knew a path below `.git`.
        if self.recording && self.tree.name(node) != b".git" {
            let mut known = Vec::new();
            let mut path = Vec::new();
            if self.tree.path(node, &mut path) {
                known.push(path);
            }
            for alias in &self.aliases {
                let mut path = alias.path.clone();
                path.push(b'/');
                let length = path.len();
                if self.tree.path_below(alias.node, node, &mut path) && alias.node != node {
                    debug_assert!(path.len() > length);
                    known.push(path);
                }
            }
            for path in known {
                self.journal.record(&path);
                if !self
                    .aliases
                    .iter()
                    .any(|a| a.node == node && a.path == path)
                {
                    self.aliases.push(Alias { node, path });
                }
            }
            if self.aliases.len() > ALIASES_MAX {
                self.journal.record_everything();
                self.aliases.clear();
            }
        }
        if self.recording && self.blind.iter().any(|&id| self.tree.is_below(node, id)) {
            // git may know files there, by a path that is named from now on by nothing.
            self.journal.record_everything();
        }
        self.tree.detach(node);
        self.missing.push(Missing { node, moved });
    }

    /// Puts a missing directory where it was found.
    pub fn attach(&mut self, node: NodeId, parent: NodeId, name: &[u8]) {
        self.missing.retain(|missing| missing.node != node);
        // What happened in a git directory since it is no longer one was passed over.
        let fresh = self.tree.name(node) == b".git";
        self.tree.attach(node, parent, name);
        self.note_name(node);
        for (place, doubt) in std::mem::take(&mut self.parked) {
            self.doubt(place.0, &place.1, doubt);
        }
        self.listings.push(Listing {
            fresh,
            ..Listing::deep(node)
        });
    }

    /// A whole queue was read after the last look: old paths are of no more use, unless
    /// the queue asks for another look. A directory that is missing has yet to be listed
    /// under them (the queue may have been read between the two halves of its rename), and
    /// so has one that was renamed once more before it was listed.
    pub fn forget_aliases(&mut self) {
        if self.missing.is_empty() && self.doubts.is_empty() && self.listings.is_empty() {
            self.aliases.clear();
        }
    }
}

fn join(path: &mut Vec<u8>, name: &[u8]) {
    if name.is_empty() {
        return;
    }
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
