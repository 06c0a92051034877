//! Where things are: worktree, git directory, and the watcher's socket, lock and log.
//!
//! All three lie in `<git directory>/treewatch`, under a name made of the worktree's
//! identity ([`crate::wire::Identity::name`]). Where that cannot be, they lie in
//! `/tmp/treewatch-<user id>`:
//!
//! - if the git directory is not ours or cannot be written to;
//! - if it is on a file system other than that of `/`: a socket and a lock keep a file
//!   system from being unmounted.
//!
//! The second place is found from the user id alone, so that cron, ssh and `env -i` find
//! the same watcher. Both directories are 0700, ours, and not symbolic links, or they
//! are not used.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, stat};
use nix::unistd::{fchdir, geteuid};

use crate::sys;
use crate::wire::Identity;

/// The directory of ours in a git directory.
const DIRECTORY: &str = "treewatch";

/// A worktree as the hook knows it, from its top.
pub struct Whereabouts {
    /// Which directory the top is.
    pub identity: Identity,
    /// Who owns it.
    pub owner: u32,
    /// The git directory, as given or found; perhaps relative to the top.
    pub git_dir: PathBuf,
}

/// Why a directory is no worktree we can serve.
#[derive(Debug)]
pub enum NoWorktree {
    /// Neither a worktree's top nor anything with a git directory.
    Outside,
    /// A bare repository.
    Bare,
    /// Something there could not be read.
    Unreadable(io::Error),
}

impl Whereabouts {
    /// The worktree whose top is the working directory, with git's word on the git
    /// directory (`GIT_DIR`) if there is one. Reads nothing but the identity: whether
    /// there is a git directory at all shows when its socket is looked for.
    pub fn here() -> Result<Self, NoWorktree> {
        let found = stat(".").map_err(|error| NoWorktree::Unreadable(error.into()))?;
        let git_dir = match std::env::var_os("GIT_DIR") {
            Some(dir) if !dir.is_empty() => PathBuf::from(dir),
            _ => PathBuf::from(".git"),
        };
        Ok(Self {
            identity: Identity {
                dev: found.st_dev as u64,
                ino: found.st_ino as u64,
                mntns: sys::mount_namespace(),
            },
            owner: found.st_uid,
            git_dir,
        })
    }

    /// No worktree in particular: for the requests that every watcher of this user takes,
    /// whatever it watches.
    pub fn any() -> Self {
        Self {
            identity: Identity {
                dev: 0,
                ino: 0,
                mntns: 0,
            },
            owner: geteuid().as_raw(),
            git_dir: PathBuf::new(),
        }
    }

    /// Makes sure that there is a git directory and that it is no bare repository's. A
    /// `.git` file is followed to the directory it names (git: setup.c,
    /// `read_gitfile_gently`). To be called before anything is started.
    pub fn resolve(&mut self) -> Result<(), NoWorktree> {
        if self.git_dir.is_file() {
            let text = std::fs::read(&self.git_dir).map_err(NoWorktree::Unreadable)?;
            let path = text
                .strip_prefix(b"gitdir: ")
                .ok_or(NoWorktree::Outside)?
                .trim_ascii_end();
            self.git_dir = PathBuf::from(OsStr::from_bytes(path));
        }
        if is_git_directory(&self.git_dir) {
            // `git --git-dir=DIR` from inside a bare repository, or a hook run there by hand.
            let bare = stat(&self.git_dir).is_ok_and(|found| {
                found.st_dev as u64 == self.identity.dev && found.st_ino as u64 == self.identity.ino
            });
            return if bare { Err(NoWorktree::Bare) } else { Ok(()) };
        }
        Err(if is_git_directory(Path::new(".")) {
            NoWorktree::Bare
        } else {
            NoWorktree::Outside
        })
    }

    /// Where a socket may be, in the order in which to try.
    pub fn sockets(&self) -> impl Iterator<Item = PathBuf> {
        let name = self.file("sock");
        [
            self.git_dir.join(DIRECTORY).join(&name),
            users_directory().join(&name),
        ]
        .into_iter()
    }

    /// The same, less those in directories where others could have put anything. Whoever
    /// connects to, opens or removes what lies there goes by these.
    pub fn private_sockets(&self) -> impl Iterator<Item = PathBuf> {
        self.sockets()
            .filter(|socket| socket.parent().is_some_and(is_private))
    }

    /// The name of one of the watcher's files, in whichever directory.
    pub fn file(&self, kind: &str) -> OsString {
        let mut name = self.identity.name().to_vec();
        name.push(b'.');
        name.extend_from_slice(kind.as_bytes());
        OsString::from_vec(name)
    }

    /// The directory for the watcher's files, made if need be: the first of the two that
    /// can be used.
    pub fn state_directory(&self) -> io::Result<PathBuf> {
        if self.git_dir_can_hold_files() {
            let dir = self.git_dir.join(DIRECTORY);
            if make_private(&dir).is_ok() {
                return Ok(dir);
            }
        }
        let dir = users_directory();
        make_private(&dir).map(|()| dir)
    }

    fn git_dir_can_hold_files(&self) -> bool {
        let ours = stat(&self.git_dir).is_ok_and(|found| found.st_uid == geteuid().as_raw());
        ours && match (sys::mount_id(&self.git_dir), sys::mount_id(Path::new("/"))) {
            (Some(here), Some(root)) => here == root,
            _ => true,
        }
    }
}

/// The directory of the user's own: from the user id, not from the environment.
pub fn users_directory() -> PathBuf {
    PathBuf::from(format!("/tmp/treewatch-{}", geteuid()))
}

/// The git directory that a linked worktree's shares with the others, where the
/// configuration is; `None` where that is `git_dir` itself (gitrepository-layout(5),
/// `commondir`; git: setup.c, `get_common_dir_noenv`).
pub fn common_dir(git_dir: &Path) -> Option<PathBuf> {
    let text = std::fs::read(git_dir.join("commondir")).ok()?;
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let end = text.iter().rposition(|byte| !ends(byte))? + 1;
    git_dir
        .join(OsStr::from_bytes(&text[..end]))
        .canonicalize()
        .ok()
}

/// What makes a directory a git directory (git: setup.c, `is_git_directory`, less the
/// content of HEAD).
fn is_git_directory(dir: &Path) -> bool {
    let common = dir.join("commondir").exists();
    dir.join("HEAD").symlink_metadata().is_ok()
        && (common || (dir.join("objects").is_dir() && dir.join("refs").is_dir()))
}

/// Makes a directory that only we can enter, or makes sure that it is one.
fn make_private(dir: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    if !is_private(dir) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "not a directory of ours with mode 0700",
        ));
    }
    // In the git directory it may be ours and still not be writable (a read-only mount).
    nix::unistd::access(
        dir,
        nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK,
    )
    .map_err(io::Error::from)
}

/// Whether it is a directory, no symbolic link to one, of ours and for us alone.
pub fn is_private(dir: &Path) -> bool {
    nix::sys::stat::lstat(dir).is_ok_and(|found| {
        let kind = found.st_mode & nix::libc::S_IFMT;
        kind == nix::libc::S_IFDIR
            && found.st_uid == geteuid().as_raw()
            && found.st_mode & 0o077 == 0
    })
}

/// Calls `f` with `dir` as the working directory, and comes back.
pub fn in_directory<T>(dir: &Path, f: impl FnOnce() -> T) -> Result<T, Errno> {
    let back: OwnedFd = open(
        ".",
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    nix::unistd::chdir(dir)?;
    let result = f();
    fchdir(&back)?;
    Ok(result)
}
