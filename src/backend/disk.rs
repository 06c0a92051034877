//! Looking at the disk below the top of a worktree, for the backends that have one.
//!
//! While nothing is looked at, no descriptor and no working directory of this process
//! lies in the worktree: its file system can be unmounted at any time. For a look, the
//! process changes its working directory to the top (after making sure by device and
//! inode that it is still the same directory) and works with relative paths.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat, stat};
use nix::unistd::{AccessFlags, access, chdir};

use super::{EnterError, Inode, OnDisk, Time};

/// The top of a worktree, by path and by identity.
pub struct Disk {
    top: PathBuf,
    device: u64,
    inode: u64,
    entered: bool,
    trusts_link_counts: bool,
    /// The directory that was listed last, and its path: in a walk, what is in it is looked
    /// at next.
    listed: Option<(Vec<u8>, Dir)>,
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
            entered: false,
            trusts_link_counts: trusts_link_counts(top),
            listed: None,
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

    fn look(&self, path: &[u8]) -> Option<FileStat> {
        fstatat(AT_FDCWD, relative(path), AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    /// The same by the directory that was listed last, if it is in that: the kernel need not
    /// look up every directory above once more.
    fn look_in_listed(&self, path: &[u8]) -> Option<FileStat> {
        let (above, dir) = self.listed.as_ref()?;
        let name = path.strip_prefix(&above[..])?.strip_prefix(b"/")?;
        if name.contains(&b'/') {
            return None;
        }
        let name = Path::new(OsStr::from_bytes(name));
        fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    fn is_top(&self, found: &FileStat) -> bool {
        found.st_dev as u64 == self.device && found.st_ino as u64 == self.inode
    }
}

impl OnDisk for Disk {
    fn enter(&mut self) -> Result<(), EnterError> {
        if self.entered {
            return Ok(());
        }
        match chdir(&self.top) {
            Ok(()) => {}
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ESTALE) => {
                return Err(EnterError::Elsewhere);
            }
            Err(error) => return Err(EnterError::Other(error.into())),
        }
        self.entered = true;
        match stat(".") {
            Ok(found) if self.is_top(&found) => Ok(()),
            Ok(_) => {
                self.leave();
                Err(EnterError::Elsewhere)
            }
            Err(error) => {
                self.leave();
                Err(EnterError::Other(error.into()))
            }
        }
    }

    fn leave(&mut self) {
        self.listed = None;
        if self.entered {
            self.entered = false;
            // "/" can always be entered by a process that was started.
            let _ = chdir("/");
        }
    }

    fn list(&mut self, path: &[u8], sink: &mut dyn FnMut(&[u8], bool)) -> io::Result<bool> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        self.listed = None;
        let mut dir = Dir::open(relative(path), flags, Mode::empty())?;
        let surely_open = fstat(&dir).is_ok_and(|found| is_open(&found));
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
        self.listed = Some((path.to_owned(), dir));
        Ok(surely_open || self.searchable(path))
    }

    fn leaf(&mut self, path: &[u8]) -> bool {
        self.trusts_link_counts
            && self
                .look_in_listed(path)
                .or_else(|| self.look(path))
                .is_some_and(|found| is_dir(&found) && found.st_nlink == 2 && is_open(&found))
    }

    fn inode(&mut self, path: &[u8]) -> Option<Inode> {
        let found = self.look(path)?;
        Some(Inode {
            is_dir: is_dir(&found),
            links: found.st_nlink as u64,
            changed: Time::from(found.st_ctime) * 1_000_000_000 + Time::from(found.st_ctime_nsec),
        })
    }

    fn searchable(&mut self, path: &[u8]) -> bool {
        access(relative(path), AccessFlags::R_OK | AccessFlags::X_OK).is_ok()
    }
}

/// Whether this process may surely list the directory and look up names in it. An access
/// control list can close it to others than its owner, but only together with the bits
/// of the group (acl(5)).
fn is_open(found: &FileStat) -> bool {
    let open = |bits: u32| found.st_mode as u32 & bits == bits;
    open(0o555) || open(0o500) && found.st_uid == nix::unistd::geteuid().as_raw()
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
