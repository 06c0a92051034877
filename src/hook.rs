//! The part that git calls: `treewatch 2 TOKEN`, in the top of a worktree.
//!
//! Whatever goes wrong ends in `/`, "look at everything", and in exit code 0: a scan, as
//! without a monitor, and no word to anybody. Only where there is no worktree at all is
//! the call itself wrong.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use nix::errno::Errno;

use crate::client::{self, Failure};
use crate::repo::{NoWorktree, Whereabouts};
use crate::start::{self, NotStarted};
use crate::token;
use crate::trace::Trace;
use crate::wire::Kind;

/// Answers version 2 of the hook protocol (githooks(5), fsmonitor-watchman).
pub fn version_2(token: &OsStr) -> i32 {
    let trace = Trace::from_environment();
    match answer(token.as_bytes(), &trace) {
        Ok(answer) => {
            let answer = answer.unwrap_or_else(everything);
            let code = print(&answer);
            trace.step(format_args!("printed {}", Shown(&answer)));
            code
        }
        Err(error) => {
            let what = match error {
                NoWorktree::Outside => {
                    "there is no .git here: run it in the top of a worktree".to_owned()
                }
                NoWorktree::Bare => {
                    "this is a bare repository: there is no worktree to watch".to_owned()
                }
                NoWorktree::Unreadable(error) => {
                    format!("the working directory or its .git cannot be read: {error}")
                }
            };
            complain(&what);
            1
        }
    }
}

/// Answers version 1: callers of that age take a failure for "nothing changed".
pub fn version_1() -> i32 {
    print(b"/\0")
}

fn answer(token: &[u8], trace: &Trace) -> Result<Option<Vec<u8>>, NoWorktree> {
    let mut place = Whereabouts::here()?;
    let deadline = deadline();
    trace.step(format_args!(
        "asked for changes since {}",
        String::from_utf8_lossy(token)
    ));
    let asked = client::reach(&place)
        .inspect(|_| trace.step(format_args!("connected to the watcher")))
        .and_then(|socket| client::ask(&socket, &place, Kind::Query, token).map(|()| socket))
        .and_then(|socket| client::answer(&socket, deadline));
    let failure = match asked {
        Ok(answer) => {
            trace.step(format_args!("the watcher has answered"));
            return Ok(Some(answer));
        }
        Err(failure) => failure,
    };
    trace.step(format_args!("no answer: {failure}"));
    match failure {
        Failure::Nobody => {}
        Failure::Silent => {
            start::cut_off(&place);
            trace.step(format_args!("its socket was taken away"));
            return Ok(None);
        }
        Failure::Protocol(theirs) => {
            let replaced = start::replace_older(&place, theirs);
            trace.step(format_args!("asked it to make room: {replaced}"));
            if !replaced {
                return Ok(None);
            }
        }
        Failure::Refused(..) | Failure::Stranger(_) | Failure::Broken(_) => return Ok(None),
    }
    let started = start::start_and_ask(
        &mut place,
        Kind::Query,
        token,
        start::PATIENCE.min(deadline),
    );
    match started {
        Ok(answer) => {
            trace.step(format_args!("a new watcher has answered"));
            Ok(Some(answer))
        }
        Err(NotStarted::NoWorktree(error)) => Err(error),
        Err(why) => {
            trace.step(format_args!("no answer from a new watcher: {why}"));
            Ok(None)
        }
    }
}

/// An answer in few words, for the trace.
struct Shown<'a>(&'a [u8]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.ends_with(b"\0/\0") {
            return write!(f, "\"look at everything\"");
        }
        let paths = self.0.iter().filter(|&&byte| byte == 0).count();
        write!(
            f,
            "{} paths, {} bytes",
            paths.saturating_sub(1),
            self.0.len()
        )
    }
}

/// How long a watcher may be silent: `TREEWATCH_TIMEOUT_MS`, from 10 milliseconds to an
/// hour, or one second.
fn deadline() -> Duration {
    std::env::var_os("TREEWATCH_TIMEOUT_MS")
        .and_then(|text| text.to_str()?.parse::<u64>().ok())
        .map_or(client::DEADLINE, |given| {
            Duration::from_millis(given.clamp(10, 3_600_000))
        })
}

/// Says what is wrong, in one line. A stderr that takes nothing is no reason to panic.
fn complain(what: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("treewatch: {what}\n").as_bytes());
}

fn everything() -> Vec<u8> {
    let mut answer = token::NOBODY.as_bytes().to_vec();
    answer.extend_from_slice(b"\0/\0");
    answer
}

/// Prints the whole answer, in one write where the system takes it in one.
fn print(mut bytes: &[u8]) -> i32 {
    while !bytes.is_empty() {
        match nix::unistd::write(std::io::stdout(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                // A standard output that does not block is waited for.
                use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
                use std::os::fd::AsFd;
                let out = std::io::stdout();
                let _ = poll(
                    &mut [PollFd::new(out.as_fd(), PollFlags::POLLOUT)],
                    PollTimeout::NONE,
                );
            }
            Err(error) => {
                complain(&format!(
                    "cannot write the answer to standard output: {error}"
                ));
                return 1;
            }
        }
    }
    0
}
