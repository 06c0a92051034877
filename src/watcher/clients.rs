//! Connections: bounded in number, in size and in time, and none waits for another.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::unistd::geteuid;

use super::follow::FOLLOWERS_MAX;
use crate::sys;
use crate::wire::{Answer, BODY_MAX, HeaderError, Identity, Kind, REQUEST_HEADER, Request, Status};

/// So many connections at once; for one more, the one that has been silent longest goes.
const CLIENTS_MAX: usize = 1000;

/// So many are taken from the queue in one go.
const ACCEPTS: usize = 64;

/// A request must be there, and some of an answer must be taken, within this time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of answers that may wait to be taken, over all connections.
pub const PENDING_MAX: usize = 64 << 20;

/// Where a connection is.
enum Step {
    Reading,
    /// The request is whole; an answer is due.
    Asking(Kind),
    Writing,
    /// An answer without end; see [`super::follow`]. Something of it may wait to be taken.
    Following,
    Done,
}

/// One connection.
pub struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    step: Step,
    /// For a follower, the token of the last frame.
    followed: Vec<u8>,
    /// A follower has taken that frame, and has not been told since what is new.
    waits: bool,
    /// When it was made, when its request was whole, or when something of an answer was last
    /// taken.
    active: Instant,
}

impl Client {
    /// A connection that was just made.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            step: Step::Reading,
            followed: Vec::new(),
            waits: false,
            active: Instant::now(),
        })
    }

    /// What it wants, once that is known and until it is answered.
    pub fn request(&self) -> Option<Kind> {
        match self.step {
            Step::Asking(kind) => Some(kind),
            _ => None,
        }
    }

    /// The request's body.
    pub fn body(&self) -> &[u8] {
        self.input.get(REQUEST_HEADER..).unwrap_or(&[])
    }

    /// When the request came.
    pub fn asked_at(&self) -> Instant {
        self.active
    }

    /// The process at the other end.
    pub fn pid(&self) -> Option<i32> {
        sys::peer_pid(self.stream.as_fd())
            .ok()
            .filter(|&pid| pid > 0)
    }

    /// Gives the answer, and sends as much of it as can be sent at once.
    pub fn answer(&mut self, status: Status, body: &[u8]) {
        let head = Answer {
            status,
            length: body.len() as u64,
        }
        .encode();
        self.output = Vec::with_capacity(head.len() + body.len());
        self.output.extend_from_slice(&head);
        self.output.extend_from_slice(body);
        if !matches!(self.step, Step::Following) {
            self.step = Step::Writing;
        }
        self.write();
    }

    /// Makes it a follower, from the token of its request on.
    pub fn follow(&mut self) {
        self.followed = self.body().to_vec();
        self.step = Step::Following;
    }

    /// The token of a follower's last frame, if it has taken all of that.
    pub fn followed_token(&mut self) -> Option<&[u8]> {
        let taken = self.sent == self.output.len();
        self.waits = false;
        (matches!(self.step, Step::Following) && taken).then_some(&*self.followed)
    }

    /// There was no room for its next frame: it is to be tried again in the next round.
    pub fn put_off(&mut self) {
        self.waits = true;
    }

    /// Sends a follower its next frame.
    pub fn follow_up(&mut self, frame: &[u8]) {
        let token = frame.split(|&byte| byte == 0).next().unwrap_or_default();
        self.followed = token.to_vec();
        self.sent = 0;
        self.answer(Status::Ok, frame);
        self.waits = false;
    }

    fn read(&mut self, identity: &Identity) {
        let mut buffer = [0; REQUEST_HEADER + BODY_MAX];
        loop {
            let room = REQUEST_HEADER + BODY_MAX - self.input.len();
            match self.stream.read(&mut buffer[..room.max(1)]) {
                Ok(0) => self.step = Step::Done,
                Ok(_) if room == 0 => self.refuse(Status::Bad, "the request is too long"),
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    self.parse(identity);
                    if matches!(self.step, Step::Reading) {
                        // One that comes a byte at a time has no more time than others.
                        continue;
                    }
                    self.active = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => self.step = Step::Done,
            }
            return;
        }
    }

    fn parse(&mut self, identity: &Identity) {
        let Some(head) = self.input.first_chunk::<REQUEST_HEADER>() else {
            return;
        };
        let request = match Request::decode(head) {
            Ok(request) => request,
            Err(HeaderError::Protocol(_, Some(Kind::Stop))) if self.is_ours() => {
                self.step = Step::Asking(Kind::Stop);
                return;
            }
            Err(HeaderError::Protocol(..)) => {
                // The header of the answer says which protocol we speak.
                return self.refuse(Status::Protocol, "");
            }
            Err(HeaderError::Magic | HeaderError::Field) => {
                return self.refuse(Status::Bad, "this is no request of treewatch's protocol");
            }
        };
        if !self.is_ours() {
            return self.refuse(Status::NotYours, "this watcher belongs to another user");
        }
        // The state says itself whose it is, and to end is the same for all.
        let any = matches!(request.kind, Kind::Stop | Kind::Status);
        if request.identity != *identity && !any {
            return self.refuse(
                Status::NotYours,
                "this watcher watches another worktree, or sees it from another mount namespace",
            );
        }
        if self.input.len() >= REQUEST_HEADER + usize::from(request.length) {
            self.input
                .truncate(REQUEST_HEADER + usize::from(request.length));
            self.step = Step::Asking(request.kind);
        }
    }

    fn is_ours(&self) -> bool {
        sys::peer_uid(self.stream.as_fd()).is_ok_and(|uid| uid == geteuid().as_raw())
    }

    fn refuse(&mut self, status: Status, why: &str) {
        self.answer(status, why.as_bytes());
    }

    fn write(&mut self) {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => break,
                Ok(count) => {
                    self.sent += count;
                    self.active = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if matches!(self.step, Step::Following) && self.sent == self.output.len() {
            self.output = Vec::new();
            self.sent = 0;
            self.waits = true;
        } else {
            self.step = Step::Done;
        }
    }

    /// The descriptor, and what to poll it for.
    pub fn interest(&self) -> (std::os::fd::BorrowedFd<'_>, PollFlags) {
        let flags = match self.step {
            Step::Reading => PollFlags::POLLIN,
            Step::Writing => PollFlags::POLLOUT,
            Step::Following if self.sent < self.output.len() => PollFlags::POLLOUT,
            // A follower has nothing more to say, but it may leave.
            Step::Following => PollFlags::POLLIN,
            Step::Asking(_) | Step::Done => PollFlags::empty(),
        };
        (self.stream.as_fd(), flags)
    }

    /// When it has been silent for too long.
    fn expires(&self) -> Option<Instant> {
        matches!(self.step, Step::Reading | Step::Writing).then(|| self.active + TIMEOUT)
    }
}

/// All connections of a watcher.
pub struct Clients {
    identity: Identity,
    /// A descriptor to give up when there are no more.
    spare: Option<File>,
    list: Vec<Client>,
}

impl Clients {
    /// None yet. Requests for another identity are refused.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            spare: File::open("/dev/null").ok(),
            list: Vec::new(),
        }
    }

    /// Adds one and reads what it has to say.
    pub fn add(&mut self, mut client: Client) {
        if self.list.len() >= CLIENTS_MAX {
            self.make_room();
        }
        client.read(&self.identity);
        self.list.push(client);
    }

    /// Lets go of the one that has done nothing for longest; of one that waits for us only if
    /// there is no other. `false` if there is none at all.
    fn make_room(&mut self) -> bool {
        let waits = |client: &Client| matches!(client.step, Step::Asking(_) | Step::Following);
        let oldest = self
            .list
            .iter()
            .enumerate()
            .min_by_key(|(_, client)| (waits(client), client.active))
            .map(|(index, _)| index);
        oldest.is_some_and(|index| {
            self.list.swap_remove(index);
            true
        })
    }

    /// Takes new connections from the queue.
    pub fn accept(&mut self, listener: &UnixListener) {
        for _ in 0..ACCEPTS {
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Ok(client) = Client::new(stream) {
                        self.add(client);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors: make room, or the queue would keep us awake.
                    if matches!(
                        error.raw_os_error(),
                        Some(nix::libc::EMFILE | nix::libc::ENFILE)
                    ) {
                        if self.make_room() {
                            continue;
                        }
                        self.turn_away(listener);
                    }
                    return;
                }
            }
        }
    }

    /// Not even one connection can be kept: takes one from the queue, and closes it.
    fn turn_away(&mut self, listener: &UnixListener) {
        self.spare = None;
        drop(listener.accept());
        self.spare = File::open("/dev/null").ok();
    }

    /// Goes on with connection `index`, which can be read or written.
    pub fn proceed(&mut self, index: usize) {
        let Some(client) = self.list.get_mut(index) else {
            return;
        };
        match client.step {
            Step::Reading => client.read(&self.identity),
            Step::Writing => client.write(),
            Step::Following if client.sent < client.output.len() => client.write(),
            // Polled for nothing, and woken all the same: the other end is gone.
            Step::Asking(_) | Step::Following => client.step = Step::Done,
            Step::Done => {}
        }
    }

    /// Lets go of those that are done or silent for too long.
    pub fn sweep(&mut self) {
        if self.list.is_empty() {
            return;
        }
        let now = Instant::now();
        self.list.retain(|client| {
            !matches!(client.step, Step::Done) && client.expires().is_none_or(|at| at > now)
        });
    }

    /// When [`Clients::sweep`] has to be called at the latest.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.list.iter().filter_map(Client::expires).min()
    }

    /// Whether another answer of `length` bytes may be kept waiting.
    pub fn has_room_for(&self, length: usize) -> bool {
        let pending: usize = self
            .list
            .iter()
            .map(|client| client.output.len() - client.sent)
            .sum();
        pending + length <= PENDING_MAX
    }

    /// Every connection, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.list.iter()
    }

    /// The connection with this index.
    pub fn get_mut(&mut self, index: usize) -> &mut Client {
        &mut self.list[index]
    }

    /// Makes a client a follower, if there are not too many.
    pub fn begin_following(&mut self, index: usize) {
        let full = self.following().len() >= FOLLOWERS_MAX;
        let client = self.get_mut(index);
        if full {
            client.answer(Status::Bad, b"too many are following already");
        } else {
            client.follow();
        }
    }

    /// Whether a follower is to be told what came while it was slow.
    pub fn any_waits(&self) -> bool {
        self.list.iter().any(|client| client.waits)
    }

    /// The indices of the followers.
    pub fn following(&self) -> Vec<usize> {
        let following = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, client)| matches!(client.step, Step::Following));
        following.map(|(index, _)| index).collect()
    }

    /// The indices of those that wait for an answer.
    pub fn asking(&self) -> Vec<usize> {
        let waiting = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, client)| client.request().is_some());
        waiting.map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_made_by_who_waits_for_nothing() {
        let identity = Identity {
            dev: 1,
            ino: 2,
            mntns: 3,
        };
        let mut clients = Clients::new(identity);
        assert!(!clients.make_room());
        let mut others = Vec::new();
        for kind in [Some(Kind::Query), None, Some(Kind::Query), None] {
            let (mut other, ours) = UnixStream::pair().unwrap();
            if let Some(kind) = kind {
                let request = Request {
                    kind,
                    identity,
                    length: 0,
                };
                other.write_all(&request.encode()).unwrap();
            }
            clients.add(Client::new(ours).unwrap());
            others.push(other);
        }
        let asking = |clients: &Clients| (clients.iter().count(), clients.asking().len());
        assert_eq!(asking(&clients), (4, 2));
        for left in [(3, 2), (2, 2), (1, 1), (0, 0)] {
            assert!(clients.make_room());
            assert_eq!(asking(&clients), left);
        }
    }

    #[test]
    fn a_request_that_trickles_in_has_no_more_time() {
        let identity = Identity {
            dev: 1,
            ino: 2,
            mntns: 3,
        };
        let request = Request {
            kind: Kind::Status,
            identity,
            length: 0,
        }
        .encode();
        let (mut other, ours) = UnixStream::pair().unwrap();
        let mut client = Client::new(ours).unwrap();
        let before = client.expires();
        for byte in request {
            assert!(before.is_some() && client.expires() == before);
            other.write_all(&[byte]).unwrap();
            client.read(&identity);
        }
        assert_eq!(client.request(), Some(Kind::Status));
    }
}
