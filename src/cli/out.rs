//! Standard output for people and programs: whole or not at all, in colour on a terminal.

use std::io::{self, Write};

use anstream::AutoStream;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};

/// Takes the places of standard input, output and error if the caller left them closed,
/// so that no file of ours gets one of their numbers.
pub fn fill_standard_descriptors() {
    while let Ok(null) = open("/dev/null", OFlag::O_RDWR, Mode::empty()) {
        if null.as_raw_fd() > 2 {
            return;
        }
        let _ = null.into_raw_fd();
    }
}

/// Prints text that may hold colours; they are left out where they would not be seen or
/// are not wanted (no terminal, `NO_COLOR`, `TERM=dumb`).
pub fn print(text: &str) -> io::Result<()> {
    let mut out = AutoStream::auto(io::stdout());
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Prints bytes as they are.
pub fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints a value as indented JSON.
pub fn print_json(value: &serde_json::Value) -> io::Result<()> {
    print_bytes(format!("{value:#}\n").as_bytes())
}

/// What became of printing, where the exit code is an answer as well: it counts also for who
/// reads no more (`treewatch doctor | grep -q`). Returns whether somebody still reads.
pub fn or_nobody_reads(printed: io::Result<()>) -> io::Result<bool> {
    match printed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether nobody reads standard output any more.
pub fn is_closed() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let _ = poll(&mut fds, PollTimeout::ZERO);
    fds[0].revents().is_some_and(says_closed)
}

/// What poll says of a standard output that nobody reads any more: a pipe whose other end
/// was closed (POLLERR, poll(2)), or a terminal that has gone.
pub fn says_closed(found: PollFlags) -> bool {
    found.intersects(PollFlags::POLLERR | PollFlags::POLLHUP)
}
