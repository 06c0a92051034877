//! A backend without a kernel, for tests: a file system in memory, and chances to change
//! it between any two calls of the tracker, in the middle of a call, and in the middle of
//! a rename.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use super::{
    Backend, Drained, EnterError, Event, Inode, OnDisk, StartError, Time, WatchError, WatchId, What,
};

mod calls;
pub mod ops;
pub mod world;

use ops::Op;
use world::{Ino, OPEN, TOP, World};

/// A call of the tracker, for [`Scripted::before`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// [`Backend::watch`].
    Watch,
    /// [`OnDisk::list`].
    List,
    /// [`OnDisk::inode`].
    Links,
    /// [`OnDisk::searchable`].
    Searchable,
    /// [`Backend::drain`].
    Drain,
    /// Between two components of a path, and in the middle of a call.
    Within,
}

/// See the module's text.
pub struct Scripted {
    world: Rc<RefCell<World>>,
    /// How many steps the world takes at each chance; none when used up.
    pub schedule: VecDeque<u8>,
    /// Operations to be done in full right before a call with this path, one entry a call.
    pub before: VecDeque<(Look, &'static str, Vec<Op>)>,
    /// Number of calls so far.
    pub calls: u64,
}

impl Scripted {
    /// A backend for the top of `world`.
    pub fn new(world: Rc<RefCell<World>>) -> Self {
        Self {
            world,
            schedule: VecDeque::new(),
            before: VecDeque::new(),
            calls: 0,
        }
    }

    fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// A chance for the world to go on.
    fn chance(&mut self, look: Look, path: &[u8]) {
        self.calls += 1;
        if look != Look::Within {
            let path = path.escape_ascii();
            self.world().note(|_| format!("{look:?} {path}"));
        }
        if let Some((_, _, ops)) = self
            .before
            .pop_front_if(|(when, at, _)| *when == look && at.as_bytes() == path)
        {
            for op in ops {
                self.world().run(&op);
            }
        }
        for _ in 0..self.schedule.pop_front().unwrap_or(0) {
            if !self.world().step() {
                break;
            }
        }
    }

    /// Follows a path as the kernel does, one component after the other.
    fn walk(&mut self, path: &[u8]) -> Result<Ino, io::ErrorKind> {
        let mut at = TOP;
        for part in path.split(|&byte| byte == b'/').filter(|p| !p.is_empty()) {
            if at != TOP {
                self.chance(Look::Within, b"");
            }
            let world = self.world();
            if !world.inodes[at].is_dir() {
                return Err(io::ErrorKind::NotADirectory);
            }
            if !world.inodes[at].mode.search {
                return Err(io::ErrorKind::PermissionDenied);
            }
            let name = std::str::from_utf8(part).expect("names are ASCII");
            let found = world.lookup(at, name);
            drop(world);
            at = found.ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    fn walk_to_dir(&mut self, path: &[u8]) -> Result<Ino, io::ErrorKind> {
        let ino = self.walk(path)?;
        let world = self.world();
        if !world.inodes[ino].is_dir() {
            Err(io::ErrorKind::NotADirectory)
        } else if !world.inodes[ino].mode.read {
            Err(io::ErrorKind::PermissionDenied)
        } else {
            Ok(ino)
        }
    }
}

impl Backend for Scripted {
    fn restart(&mut self) -> Result<(), StartError> {
        self.shut();
        Ok(())
    }

    fn shut(&mut self) {
        let mut world = self.world();
        world.queue.clear();
        world.overflowed = false;
        world.next_watch = 1;
        for inode in &mut world.inodes {
            inode.watch = None;
        }
    }

    fn wakeup(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn drain(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> Drained {
        self.chance(Look::Drain, b"");
        let mut lost = false;
        loop {
            let next = self.world().queue.pop_front();
            let Some(event) = next else {
                break;
            };
            self.world().note(|_| format!("    read {event:?}"));
            sink(Event {
                watch: event.watch,
                what: event.what,
                is_dir: event.is_dir,
                name: event.name.as_bytes(),
                cookie: event.cookie,
            });
            lost |= std::mem::take(&mut self.world().overflowed);
            self.chance(Look::Within, b"");
        }
        if lost {
            Drained::Lost
        } else {
            Drained::Complete
        }
    }

    fn disk(&mut self) -> &mut dyn OnDisk {
        self
    }

    fn watch(&mut self, path: &[u8]) -> Result<WatchId, WatchError> {
        self.chance(Look::Watch, path);
        let ino = match self.walk_to_dir(path) {
            Ok(ino) => ino,
            Err(io::ErrorKind::PermissionDenied) => return Err(WatchError::NoAccess),
            Err(_) => return Err(WatchError::NotADirectory),
        };
        self.chance(Look::Within, b"");
        let mut world = self.world();
        world.note(|w| format!("    found {ino}, watch {:?}", w.inodes[ino].watch));
        if let Some(watch) = world.inodes[ino].watch {
            return Ok(watch);
        }
        let watches = world.inodes.iter().filter(|i| i.watch.is_some()).count();
        if watches >= world.watch_limit {
            return Err(WatchError::LimitReached);
        }
        let watch = world.next_watch;
        world.next_watch += 1;
        if world.inodes[ino].links == 0 {
            // Removed between the lookup and the watch: it goes as soon as it has come.
            world.queue_event(watch, What::WatchGone, false, "", 0);
        } else {
            world.inodes[ino].watch = Some(watch);
        }
        Ok(watch)
    }

    fn guard(&mut self, _path: &[u8]) -> Result<WatchId, WatchError> {
        Err(WatchError::NotADirectory)
    }

    fn unwatch(&mut self, id: WatchId) {
        let mut world = self.world();
        let watched = world.inodes.iter_mut().find(|i| i.watch == Some(id));
        if let Some(inode) = watched {
            inode.watch = None;
            world.queue_event(id, What::WatchGone, false, "", 0);
        }
    }

    fn relocate(&mut self, _top: &[u8]) -> bool {
        !self.world().hidden
    }

    fn name(&self) -> &'static str {
        "scripted"
    }
}

impl OnDisk for Scripted {
    fn enter(&mut self) -> Result<(), EnterError> {
        self.chance(Look::Within, b"");
        if self.world().hidden {
            Err(EnterError::Elsewhere)
        } else {
            Ok(())
        }
    }

    fn leave(&mut self) {}

    fn list(&mut self, path: &[u8], sink: &mut dyn FnMut(&[u8], bool)) -> io::Result<bool> {
        self.chance(Look::List, path);
        let ino = self.walk_to_dir(path)?;
        let read = |world: &World| -> Vec<_> {
            let kind = |link: usize| world.inodes[world.links[link].ino].is_dir();
            world.names(ino).map(|(n, link)| (n, kind(link))).collect()
        };
        let first = read(&self.world());
        self.chance(Look::Within, b"");
        let last = read(&self.world());
        let mut world = self.world();
        if world.inodes[ino].links == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        // What was there all the time is told; what came or went may be.
        for (name, is_dir) in &first {
            if last.contains(&(*name, *is_dir)) || world.chance(2) == 0 {
                sink(name.as_bytes(), *is_dir);
            }
        }
        for (name, is_dir) in &last {
            if !first.contains(&(*name, *is_dir)) && world.chance(2) == 0 {
                sink(name.as_bytes(), *is_dir);
            }
        }
        world.note(|_| format!("    listed {ino}: {first:?} {last:?}"));
        drop(world);
        Ok(self.searchable(path))
    }

    fn leaf(&mut self, path: &[u8]) -> bool {
        self.chance(Look::Within, b"");
        let Ok(ino) = self.walk(path) else {
            return false;
        };
        let world = self.world();
        world.inodes[ino].is_dir()
            && world.inodes[ino].mode == OPEN
            && world
                .names(ino)
                .all(|(_, link)| !world.inodes[world.links[link].ino].is_dir())
    }

    fn inode(&mut self, path: &[u8]) -> Option<Inode> {
        self.chance(Look::Links, path);
        let ino = self.walk(path).ok()?;
        let world = self.world();
        Some(Inode {
            is_dir: world.inodes[ino].is_dir(),
            links: world.inodes[ino].links.into(),
            // There is no clock.
            changed: Time::MAX,
        })
    }

    fn searchable(&mut self, path: &[u8]) -> bool {
        self.chance(Look::Searchable, path);
        let Ok(ino) = self.walk(path) else {
            return false;
        };
        let mode = self.world().inodes[ino].mode;
        mode.read && mode.search
    }
}
