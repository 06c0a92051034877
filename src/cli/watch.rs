//! `treewatch watch`: changes as they happen.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};

use crate::client;
use crate::wire::{ANSWER_HEADER, Answer as Head, Kind, Status};

use super::answer::{Answer, quoted};
use super::problem::{Outcome, Problem};
use super::worktree::Worktree;
use super::{exit, out, start, watcher};

/// How changes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A path a line, quoted where it would not fit on one; "/" for everything.
    Lines,
    /// A path, then NUL.
    Nul,
    /// A JSON object a line for each batch, as `query --json` prints it.
    Json,
}

/// `treewatch watch [-0 | --json] [DIR]`.
pub fn run(dir: Option<&Path>, form: Form) -> Outcome {
    let mut worktree = Worktree::enter(dir)?;
    worktree.must_be_ours("cannot watch")?;
    start::start(&mut worktree)?;
    let cannot = |why: String| {
        Problem::new(format_args!(
            "cannot watch {}: {why}",
            worktree.top.display()
        ))
    };
    let socket = client::reach(&worktree.place)
        .and_then(|socket| {
            client::ask(&socket, &worktree.place, Kind::Follow, b"").map(|()| socket)
        })
        .map_err(|failure| cannot(watcher::words(&failure)))?;
    let mut frames = Frames::default();
    let interrupted = interrupted().map_err(|error| cannot(error.to_string()))?;
    // The first frame says from where on it is told.
    let mut begun = false;
    loop {
        if wait(&socket, &interrupted) {
            return Ok(exit::OK);
        }
        if !frames.receive(&socket) {
            return Err(cannot("the watcher has ended".to_owned())
                .advice("Why: treewatch log")
                .code(exit::NOT_RUNNING));
        }
        while let Some(frame) = frames.next().map_err(cannot)? {
            let answer = Answer::parse(&frame)
                .ok_or_else(|| cannot("what the watcher says has not the right form".to_owned()))?;
            if begun {
                print(&answer, form)?;
            }
            begun = true;
        }
    }
}

/// Becomes readable with Ctrl-C.
fn interrupted() -> std::io::Result<UnixStream> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Waits for the watcher to say something; `true`: it is time to end.
fn wait(socket: &OwnedFd, interrupted: &UnixStream) -> bool {
    let stdout = std::io::stdout();
    let mut fds = [
        PollFd::new(socket.as_fd(), PollFlags::POLLIN),
        PollFd::new(stdout.as_fd(), PollFlags::empty()),
        PollFd::new(interrupted.as_fd(), PollFlags::POLLIN),
    ];
    let _ = poll(&mut fds, PollTimeout::NONE);
    let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|flags| !flags.is_empty());
    fds[1].revents().is_some_and(out::says_closed) || ready(&fds[2])
}

fn print(answer: &Answer<'_>, form: Form) -> Result<(), Problem> {
    let mut text = Vec::new();
    if form == Form::Json {
        writeln!(text, "{}", answer.json())?;
    } else {
        let everything = [&b"/"[..]];
        for path in answer.paths.as_deref().unwrap_or(&everything) {
            match form {
                Form::Nul => text.extend_from_slice(path),
                _ => text.extend_from_slice(&quoted(path)),
            }
            text.push(if form == Form::Nul { 0 } else { b'\n' });
        }
    }
    Ok(out::print_bytes(&text)?)
}

/// Takes frames apart as their bytes come.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Reads what is there. `false`: there will be no more.
    fn receive(&mut self, socket: &OwnedFd) -> bool {
        let mut buffer = [0; 65_536];
        match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(0) => false,
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                true
            }
            Err(error) => matches!(error, Errno::EAGAIN | Errno::EINTR),
        }
    }

    /// The next whole frame; an error in words if the watcher says no.
    fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let Some(head) = self.bytes.first_chunk::<ANSWER_HEADER>() else {
            return Ok(None);
        };
        let head = Head::decode(head).map_err(|_| "it speaks another protocol".to_owned())?;
        let end = usize::try_from(head.length)
            .ok()
            .and_then(|length| length.checked_add(ANSWER_HEADER))
            .ok_or("what the watcher says has not the right form")?;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let frame = self.bytes[ANSWER_HEADER..end].to_vec();
        self.bytes.drain(..end);
        if head.status == Status::Ok {
            Ok(Some(frame))
        } else {
            Err(format!(
                "the watcher refuses: {}",
                String::from_utf8_lossy(&frame)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(status: Status, body: &[u8]) -> Vec<u8> {
        let head = Head {
            status,
            length: body.len() as u64,
        };
        [&head.encode()[..], body].concat()
    }

    #[test]
    fn frames_come_whole_however_their_bytes_come() {
        let mut frames = Frames::default();
        let sent = [frame(Status::Ok, b"one\0"), frame(Status::Ok, b"two\0a\0")].concat();
        let mut got = Vec::new();
        for byte in sent {
            frames.bytes.push(byte);
            got.extend(frames.next().unwrap());
        }
        assert_eq!(got, [b"one\0".to_vec(), b"two\0a\0".to_vec()]);
        assert!(frames.bytes.is_empty());
    }

    #[test]
    fn a_refusal_is_passed_on() {
        let mut frames = Frames {
            bytes: frame(Status::Bad, b"too many"),
        };
        assert!(frames.next().unwrap_err().contains("too many"));
        frames.bytes = vec![b'x'; ANSWER_HEADER];
        assert!(frames.next().is_err());
    }
}
