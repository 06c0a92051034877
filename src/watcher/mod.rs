//! The watcher: the process behind the hook, one for each worktree.
//!
//! From the outside in: this file makes a process a watcher; [`serve`] is its event loop,
//! with [`clients`], [`files`], [`mounts`], [`log`] and [`report`] as its hands;
//! [`front`] speaks for git's hook; [`tracker`] keeps the truth about one worktree, of
//! [`state`] (what is believed), [`settle`] (how it is made true), [`tree`], [`links`] and
//! [`journal`].

pub mod census;
pub mod clients;
pub mod files;
pub mod follow;
pub mod front;
pub mod give_way;
pub mod index;
pub mod journal;
pub mod limits;
pub mod links;
pub mod log;
pub mod mounts;
pub mod names;
pub mod recovery;
mod refused;
pub mod remote;
pub mod report;
pub mod serve;
pub mod settle;
pub mod state;
#[cfg(test)]
mod tests;
pub mod tracker;
pub mod tree;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{dup2_stdin, dup2_stdout, setsid};

use crate::backend::Backend;
use crate::backend::disk::Disk;
use crate::backend::notify::Notify;
#[cfg(target_os = "linux")]
use crate::config::BackendChoice;
use crate::config::Config;
use crate::repo::{self, Whereabouts};
use crate::sys;
use crate::wire::Identity;

use clients::{Client, Clients};
use files::Files;
use give_way::GiveWay;
use serve::{Parts, Server};
use tracker::Tracker;

/// The first argument of a process that is to become a watcher.
pub const COMMAND: &str = "serve";

/// Becomes a watcher as [`crate::start`] starts it: descriptor 0 is the first client, 1
/// the lock. Arguments: top, git directory, directory of our files, identity.
pub fn main(arguments: &[OsString]) -> i32 {
    sys::close_from(3);
    // What comes from here on must not end with the terminal or the job of the starter.
    let give_way = match setsid() {
        Ok(_) => GiveWay::Ready,
        Err(_) => GiveWay::Never,
    };
    sys::set_name(c"treewatch");
    let [top, git_dir, dir, identity] = arguments else {
        return 2;
    };
    let Some(identity) = identity.to_str().and_then(parse_identity) else {
        return 2;
    };
    let Ok((first, lock)) = take_descriptors() else {
        return 1;
    };
    let place = Whereabouts {
        identity,
        owner: nix::unistd::geteuid().as_raw(),
        git_dir: PathBuf::from(git_dir),
    };
    let files = Files::new(&place, Path::new(dir), File::from(lock), false);
    let first = Client::new(UnixStream::from(first)).ok();
    match begin(place, Path::new(top), files, first, give_way) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

/// Runs a watcher until it ends. `files` holds the lock.
pub fn begin(
    place: Whereabouts,
    top: &Path,
    mut files: Files,
    first: Option<Client>,
    give_way: GiveWay,
) -> std::io::Result<()> {
    umask(Mode::from_bits_truncate(0o077));
    sys::raise_descriptor_limit();
    let signals = end_signals()?;
    let listener = match files.bind() {
        Ok(listener) => listener,
        Err(error) => {
            files.log.begin(format_args!(
                "cannot make the socket {}: {error}",
                files.socket_path().display()
            ));
            return Err(error);
        }
    };
    let config = Config::read(&place.git_dir);
    let disk = Disk::new(top)?;
    let backend: Box<dyn Backend> = match config.backend {
        #[cfg(target_os = "linux")]
        BackendChoice::Inotify => Box::new(crate::backend::inotify::Inotify::new(disk)),
        _ => Box::new(Notify::new(disk, files.dir(), files.name())),
    };
    files.sweep_left_over();
    files.log.begin(format_args!(
        "started for {} (process {})",
        top.display(),
        std::process::id()
    ));
    let mut tracker = Tracker::new(backend, config.journal);
    tracker.guard(guards(&place.git_dir, &files));
    let mut clients = Clients::new(place.identity);
    if let Some(first) = first {
        clients.add(first);
    }
    let echo = files.log.is_shown().then(Default::default);
    let mut server = Server::new(Parts {
        tracker,
        listener,
        clients,
        files,
        config,
        top: top.to_owned(),
        git_dir: place.git_dir,
        signals,
        echo,
        give_way,
    });
    let end = server.run();
    server.end(end);
    Ok(())
}

/// The directories outside the tree whose end is ours as well, and the one that the
/// configuration is in, where that is another.
fn guards(git_dir: &Path, files: &Files) -> Vec<Vec<u8>> {
    let common = repo::common_dir(git_dir);
    [git_dir, files.dir()]
        .into_iter()
        .chain(common.as_deref())
        .map(|dir| dir.as_os_str().as_bytes().to_vec())
        .collect()
}

/// Moves what the starter handed over out of the way of standard input and output, which
/// become /dev/null.
fn take_descriptors() -> nix::Result<(OwnedFd, OwnedFd)> {
    let take =
        |fd: std::os::fd::BorrowedFd<'_>| fcntl(fd, FcntlArg::F_DUPFD_CLOEXEC(3)).map(sys::own);
    use std::os::fd::AsFd;
    let first = take(std::io::stdin().as_fd())?;
    let lock = take(std::io::stdout().as_fd())?;
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok((first, lock))
}

/// A socket that becomes readable when a signal asks us to end.
fn end_signals() -> std::io::Result<UnixStream> {
    use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM};
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    // A client that left is no reason to die.
    let ignored: std::sync::Arc<std::sync::atomic::AtomicBool> = Default::default();
    signal_hook::flag::register(SIGPIPE, ignored.clone())?;
    // A starter may have had it ignored: nobody could wait for git's answer then.
    signal_hook::flag::register(SIGCHLD, ignored)?;
    Ok(reader)
}

fn parse_identity(text: &str) -> Option<Identity> {
    let mut numbers = text
        .split(':')
        .map(|number| u64::from_str_radix(number, 16).ok());
    Some(Identity {
        dev: numbers.next()??,
        ino: numbers.next()??,
        mntns: numbers.next()??,
    })
}
