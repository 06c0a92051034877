//! Speaking to a watcher: find its socket, connect, ask, read the answer.
//!
//! This is the hot path: a handful of system calls, and no look at the disk but the one
//! that finds out which directory this is. Starting a watcher is [`crate::start`].
//!
//! The socket is looked for in the git directory first, then in the user's own
//! directory below /tmp (see [`crate::repo`]). It is never waited for without a limit:
//! it does not block, not even for connecting (a stopped watcher's queue may be full).

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, MsgFlags, SockType, UnixAddr, connect, recv, send, socket};

use crate::repo::Whereabouts;
use crate::sys::{self, SOCKET_FLAGS};
use crate::wire::{
    ANSWER_HEADER, Answer, BODY_MAX, HeaderError, Kind, PROTOCOL, REQUEST_HEADER, Request, Status,
};

/// How long a watcher may be silent before it counts as wedged.
pub const DEADLINE: Duration = Duration::from_secs(1);

/// So much of an answer must come within each deadline, unless less is left of it: what
/// comes a byte at a time comes from no watcher, and could keep git waiting for hours.
const PROGRESS: usize = 4096;

/// No answer is longer: the journal holds at most so many bytes of paths that an answer
/// beyond this is nonsense.
const ANSWER_MAX: u64 = 1 << 30;

/// So long a watcher may be too busy to take connections (its queue holds 4096,
/// /proc/sys/net/core/somaxconn).
const BUSY: Duration = Duration::from_millis(100);

/// Why no answer came.
#[derive(Debug)]
pub enum Failure {
    /// No watcher is there: none was started, or it has ended.
    Nobody,
    /// A watcher is there and says nothing, or takes no more connections.
    Silent,
    /// The other end speaks another protocol: this one.
    Protocol(u8),
    /// The watcher refused: what it said.
    Refused(Status, Vec<u8>),
    /// The other end runs as this user id, which is not ours.
    Stranger(u32),
    /// Sockets do not work here.
    Broken(io::Error),
}

/// In words, as the end of a sentence.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("no watcher is running"),
            Self::Silent => f.write_str("the watcher does not answer"),
            Self::Protocol(theirs) => {
                write!(
                    f,
                    "the watcher speaks protocol {theirs}, this program {PROTOCOL}"
                )
            }
            Self::Refused(status, why) => {
                let why = String::from_utf8_lossy(why);
                write!(f, "the watcher refuses ({status:?}): {why}")
            }
            Self::Stranger(uid) => write!(f, "the watcher belongs to user {uid}"),
            Self::Broken(error) => write!(f, "cannot speak to the watcher: {error}"),
        }
    }
}

/// Connects to the watcher of a worktree.
pub fn reach(place: &Whereabouts) -> Result<OwnedFd, Failure> {
    let mut last = Failure::Nobody;
    // Whoever can write to the other directories could have planted anything, be it only a
    // symbolic link to a socket that says nothing.
    for path in place.private_sockets() {
        match reach_at(&path) {
            Ok(socket) => return Ok(socket),
            Err(Failure::Nobody) => {}
            Err(failure) => last = failure,
        }
    }
    Err(last)
}

/// Connects to the watcher whose socket is at `path`.
pub fn reach_at(path: &Path) -> Result<OwnedFd, Failure> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SOCKET_FLAGS, None)
        .map_err(|error| Failure::Broken(error.into()))?;
    let socket = above_standard(socket)?;
    sys::set_nonblocking(socket.as_fd());
    let once = || match UnixAddr::new(path) {
        Ok(address) => connect(socket.as_raw_fd(), &address),
        Err(_) => connect_by_parts(&socket, path),
    };
    let mut connected = once();
    if connected == Err(Errno::EAGAIN) {
        let until = Instant::now() + BUSY;
        while connected == Err(Errno::EAGAIN) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
            connected = once();
        }
    }
    match connected {
        Ok(()) => {}
        Err(Errno::EAGAIN) => return Err(Failure::Silent),
        Err(
            Errno::ENOENT
            | Errno::ENOTDIR
            | Errno::ECONNREFUSED
            | Errno::EACCES
            | Errno::ENOTSOCK
            | Errno::EPROTOTYPE
            | Errno::ELOOP
            | Errno::ENAMETOOLONG,
        ) => return Err(Failure::Nobody),
        Err(error) => return Err(Failure::Broken(error.into())),
    }
    let peer = sys::peer_uid(socket.as_fd()).map_err(Failure::Broken)?;
    if peer != nix::unistd::geteuid().as_raw() {
        return Err(Failure::Stranger(peer));
    }
    Ok(socket)
}

/// A path too long for a socket address (108 bytes, unix(7)) is reached from its own
/// directory.
fn connect_by_parts(socket: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::ENAMETOOLONG);
    };
    let address = UnixAddr::new(name)?;
    crate::repo::in_directory(dir, || connect(socket.as_raw_fd(), &address))?
}

/// Keeps descriptors 0 to 2 free of ours: a caller may have closed them, and what is
/// printed must not go into the socket.
fn above_standard(socket: OwnedFd) -> Result<OwnedFd, Failure> {
    if socket.as_raw_fd() > 2 {
        return Ok(socket);
    }
    let raw = fcntl(&socket, FcntlArg::F_DUPFD_CLOEXEC(3))
        .map_err(|error| Failure::Broken(error.into()))?;
    Ok(sys::own(raw))
}

/// Sends one request.
pub fn ask(socket: &OwnedFd, place: &Whereabouts, kind: Kind, body: &[u8]) -> Result<(), Failure> {
    // What is longer than any token of ours is no token of ours: none is sent.
    let body = if body.len() > BODY_MAX { &[] } else { body };
    let request = Request {
        kind,
        identity: place.identity,
        length: body.len() as u16,
    };
    let mut message = [0; REQUEST_HEADER + BODY_MAX];
    message[..REQUEST_HEADER].copy_from_slice(&request.encode());
    message[REQUEST_HEADER..REQUEST_HEADER + body.len()].copy_from_slice(body);
    let message = &message[..REQUEST_HEADER + body.len()];
    // An empty socket buffer holds far more than this.
    match send(socket.as_raw_fd(), message, sys::SEND_FLAGS) {
        Ok(sent) if sent == message.len() => Ok(()),
        Ok(_) | Err(Errno::EAGAIN) => Err(Failure::Silent),
        Err(Errno::EPIPE | Errno::ECONNRESET | Errno::ENOTCONN) => Err(Failure::Nobody),
        Err(error) => Err(Failure::Broken(error.into())),
    }
}

/// Reads the answer. Its head must come within `deadline`, and from then on
/// [`PROGRESS`] bytes in each: a big answer takes as long as it takes.
pub fn answer(socket: &OwnedFd, deadline: Duration) -> Result<Vec<u8>, Failure> {
    let mut buffer = [0; 4096];
    let mut have = 0;
    let mut until = Instant::now() + deadline;
    while have < ANSWER_HEADER {
        have += some(socket, &mut buffer[have..], until)?;
    }
    let mut head = [0; ANSWER_HEADER];
    head.copy_from_slice(&buffer[..ANSWER_HEADER]);
    let head = Answer::decode(&head).map_err(|error| match error {
        HeaderError::Protocol(theirs, _) => Failure::Protocol(theirs),
        HeaderError::Magic | HeaderError::Field => Failure::Silent,
    })?;
    let mut body = buffer[ANSWER_HEADER..have].to_vec();
    if head.length > ANSWER_MAX {
        return Err(Failure::Silent);
    }
    // The length is only believed as far as bytes come.
    let length = head.length as usize;
    let mut chunk = Vec::new();
    let mut fresh = PROGRESS;
    while body.len() < length {
        if chunk.is_empty() {
            chunk.resize(256 << 10, 0);
        }
        if fresh >= PROGRESS {
            fresh = 0;
            until = Instant::now() + deadline;
        }
        let count = some(socket, &mut chunk, until)?;
        fresh += count;
        body.extend_from_slice(&chunk[..count]);
    }
    body.truncate(length);
    match head.status {
        Status::Ok => Ok(body),
        Status::Protocol => Err(Failure::Protocol(0)),
        status => Err(Failure::Refused(status, body)),
    }
}

/// At least one byte, or a failure.
fn some(socket: &OwnedFd, buffer: &mut [u8], until: Instant) -> Result<usize, Failure> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(
            &mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)],
            timeout,
        ) {
            Ok(0) => return Err(Failure::Silent),
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(error) => return Err(Failure::Broken(error.into())),
        }
        match recv(socket.as_raw_fd(), buffer, MsgFlags::empty()) {
            Ok(0) | Err(Errno::ECONNRESET) => return Err(Failure::Nobody),
            Ok(count) => return Ok(count),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => return Err(Failure::Broken(error.into())),
        }
    }
}
