//! Looking at the disk below the top of a worktree, for the backends that have one.
//!
//! While nothing is looked at, no descriptor and no working directory of this process
//! lies in the worktree: its file system can be unmounted at any time. For a look, the
//! process changes its working directory to the top (after making sure by device and
//! inode that it is still the same directory), opens it, and works from there.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, stat};
use nix::unistd::{AccessFlags, chdir, faccessat, fchdir};

use super::{EnterError, Inode, OnDisk, Time};

/// The top of a worktree, by path and by identity.
pub struct Disk {
    top: PathBuf,
    device: u64,
    inode: u64,
    /// Who this process is.
    user: u32,
    trusts_link_counts: bool,
    entered: Option<Entered>,
}

/// What is held between [`OnDisk::enter`] and [`OnDisk::leave`].
struct Entered {
    top: OwnedFd,
    /// A directory in which more will be looked at, so that the kernel need not look up
    /// every directory above it each time: the one that was listed last, or the one where
    /// the last files were.
    near: Option<Near>,
    working: Working,
    /// The directory of the file that was looked at last.
    last: Vec<u8>,
}

struct Near {
    path: Vec<u8>,
    dir: Box<dyn AsFd>,
}

/// What the working directory is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Working {
    Top,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    Near,
}

/// A relative path as system calls take it: the top itself is `.`.
pub fn relative(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(if path.is_empty() { b"." } else { path }))
}

impl Disk {
    /// The directory that `top`, an absolute path, leads to now.
    pub fn new(top: &Path) -> io::Result<Self> {
        let found = stat(top)?;
        Ok(Self {
            top: top.to_owned(),
            device: found.st_dev as u64,
            inode: found.st_ino as u64,
            user: nix::unistd::geteuid().as_raw(),
            trusts_link_counts: trusts_link_counts(top),
            entered: None,
        })
    }

    /// Where the top was found last.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// See [`super::Backend::relocate`].
    pub fn relocate(&mut self, top: &[u8]) -> bool {
        let top = Path::new(OsStr::from_bytes(top));
        if !top.is_absolute() || !stat(top).is_ok_and(|found| self.is_top(&found)) {
            return false;
        }
        self.top = top.to_owned();
        true
    }

    /// Whether the top's path leads to the top, as far as anybody can tell.
    pub fn is_in_place(&self) -> bool {
        stat(&self.top).is_ok_and(|found| self.is_top(&found))
    }

    /// Whether a path lies on the file system of the top.
    pub fn is_on_the_device_of(&self, path: &Path) -> bool {
        stat(path).is_ok_and(|found| found.st_dev as u64 == self.device)
    }

    /// Moves the working directory so that the path returned leads to the same as `path`
    /// from the top: for system calls that take no descriptor of a directory.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    pub fn lead_to<'a>(&mut self, path: &'a [u8]) -> nix::Result<&'a Path> {
        let entered = self.entered.as_mut().ok_or(Errno::EBADF)?;
        if let Some((near, name)) = entered.in_near(path)
            && (entered.working == Working::Near || fchdir(near).is_ok())
        {
            entered.working = Working::Near;
            return Ok(name);
        }
        entered.work_in_top()?;
        Ok(relative(path))
    }

    fn look(&self, path: &[u8]) -> Option<FileStat> {
        let entered = self.entered.as_ref()?;
        match entered.in_near(path) {
            Some((near, name)) => fstatat(near, name, AtFlags::AT_SYMLINK_NOFOLLOW),
            None => fstatat(&entered.top, relative(path), AtFlags::AT_SYMLINK_NOFOLLOW),
        }
        .ok()
    }

    /// Whether this process may surely list the directory and look up names in it. Only of
    /// its owner do the bits of the mode tell: an access control list can close it to anybody
    /// else, whatever they say (acl(5)).
    fn is_open(&self, found: &FileStat) -> bool {
        found.st_mode as u32 & 0o500 == 0o500 && found.st_uid == self.user
    }

    fn is_top(&self, found: &FileStat) -> bool {
        found.st_dev as u64 == self.device && found.st_ino as u64 == self.inode
    }
}

impl Entered {
    /// A path as seen from `near`, if it is one of an entry in there.
    fn in_near<'a>(&self, path: &'a [u8]) -> Option<(&dyn AsFd, &'a Path)> {
        let near = self.near.as_ref()?;
        let (above, name) = split(path)?;
        (above == near.path).then(|| (&*near.dir, Path::new(OsStr::from_bytes(name))))
    }

    fn work_in_top(&mut self) -> nix::Result<()> {
        if self.working != Working::Top {
            fchdir(&self.top)?;
            self.working = Working::Top;
        }
        Ok(())
    }

    /// Puts another directory into the place of `near`.
    fn go_near(&mut self, path: &[u8], dir: Box<dyn AsFd>) -> nix::Result<()> {
        // Whoever asks for the old one by its name is not to be led to the new one.
        self.work_in_top()?;
        self.near = Some(Near {
            path: path.to_owned(),
            dir,
        });
        Ok(())
    }

    /// A file in the directory `above` is going to be looked at. From the second one in a row
    /// on, that directory is `near`: to open it for one would cost more than it saves.
    fn approach(&mut self, above: &[u8]) {
        if self.near.as_ref().is_some_and(|near| near.path == above) {
            return;
        }
        if self.last != above {
            self.last.clear();
            self.last.extend_from_slice(above);
            return;
        }
        if let Ok(dir) = openat(&self.top, relative(above), handle(), Mode::empty()) {
            // Where it fails, the way from the top is as good.
            let _ = self.go_near(above, Box::new(dir));
        }
    }
}

/// The directory and the name in it; `None` for an entry of the top.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    Some((&path[..slash], &path[slash + 1..]))
}

/// How a directory is opened that is only to be a place to look from.
fn handle() -> OFlag {
    #[cfg(target_os = "linux")]
    let way = OFlag::O_PATH;
    #[cfg(not(target_os = "linux"))]
    let way = OFlag::O_RDONLY;
    way | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW
}

impl OnDisk for Disk {
    fn enter(&mut self) -> Result<(), EnterError> {
        if self.entered.is_some() {
            return Ok(());
        }
        match chdir(&self.top) {
            Ok(()) => {}
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE) => {
                return Err(EnterError::Elsewhere);
            }
            Err(error) => return Err(EnterError::Other(error.into())),
        }
        let opened = open(".", handle(), Mode::empty())
            .and_then(|top| fstat(&top).map(|found| (self.is_top(&found), top)));
        match opened {
            Ok((true, top)) => {
                self.entered = Some(Entered {
                    top,
                    near: None,
                    working: Working::Top,
                    last: Vec::new(),
                });
                Ok(())
            }
            Ok((false, _)) => {
                go_home();
                Err(EnterError::Elsewhere)
            }
            Err(error) => {
                go_home();
                Err(EnterError::Other(error.into()))
            }
        }
    }

    fn leave(&mut self) {
        if self.entered.take().is_some() {
            go_home();
        }
    }

    fn list(&mut self, path: &[u8], sink: &mut dyn FnMut(&[u8], bool)) -> io::Result<bool> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let entered = self.entered.as_ref().ok_or(Errno::EBADF)?;
        let mut dir = Dir::openat(&entered.top, relative(path), flags, Mode::empty())?;
        let surely_open = fstat(&dir).is_ok_and(|found| self.is_open(&found));
        let mut unknown = Vec::new();
        for entry in dir.iter() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            match entry.file_type() {
                Some(kind) => sink(name, kind == Type::Directory),
                None => unknown.push(name.to_owned()),
            }
        }
        for name in unknown {
            let mut full = path.to_owned();
            if !full.is_empty() {
                full.push(b'/');
            }
            full.extend_from_slice(&name);
            let is_dir = self.look(&full).is_some_and(|found| is_dir(&found));
            sink(&name, is_dir);
        }
        let open = surely_open || self.searchable(path);
        if let Some(entered) = &mut self.entered {
            entered.go_near(path, Box::new(dir))?;
        }
        Ok(open)
    }

    fn leaf(&mut self, path: &[u8]) -> bool {
        self.trusts_link_counts
            && self
                .look(path)
                .is_some_and(|found| is_dir(&found) && found.st_nlink == 2 && self.is_open(&found))
    }

    fn inode(&mut self, path: &[u8]) -> Option<Inode> {
        if let (Some(entered), Some((above, _))) = (&mut self.entered, split(path)) {
            entered.approach(above);
        }
        let found = self.look(path)?;
        Some(Inode {
            is_dir: is_dir(&found),
            links: found.st_nlink as u64,
            changed: Time::from(found.st_ctime) * 1_000_000_000 + Time::from(found.st_ctime_nsec),
        })
    }

    fn searchable(&mut self, path: &[u8]) -> bool {
        let wanted = AccessFlags::R_OK | AccessFlags::X_OK;
        self.entered.as_ref().is_some_and(|entered| {
            faccessat(&entered.top, relative(path), wanted, AtFlags::empty()).is_ok()
        })
    }
}

/// Leaves the worktree.
fn go_home() {
    // "/" can always be entered by a process that was started.
    let _ = chdir("/");
}

fn is_dir(found: &FileStat) -> bool {
    found.st_mode & nix::libc::S_IFMT == nix::libc::S_IFDIR
}

/// Whether the file system counts a directory's subdirectories in its link count. ext2 to
/// ext4, xfs and tmpfs do (a full ext4 directory says 1, which is no 2); btrfs and
/// overlayfs always say 1. Others are not trusted.
#[cfg(target_os = "linux")]
fn trusts_link_counts(top: &Path) -> bool {
    use nix::sys::statfs::{EXT4_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC, statfs};
    statfs(top).is_ok_and(|fs| {
        [EXT4_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC].contains(&fs.filesystem_type())
    })
}

#[cfg(not(target_os = "linux"))]
fn trusts_link_counts(_top: &Path) -> bool {
    false
}
