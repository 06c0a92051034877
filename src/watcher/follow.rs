//! Those who are told of changes as they happen: `treewatch watch`, and the terminal of
//! `treewatch run`.
//!
//! A follower is a client whose answer never ends: a frame of what a query would have
//! answered, each time something has changed since the last frame. Nothing is kept for
//! it but that frame's token and the frame itself until it is taken, so that one who reads
//! slowly gets fewer and bigger frames, and costs the others nothing.

use super::clients::{Clients, PENDING_MAX};
use super::front;
use super::tracker::{Pumped, Tracker};
use crate::backend::Backend;

/// So many followers at once.
pub const FOLLOWERS_MAX: usize = 16;

/// Bytes of a frame; what is longer becomes "everything".
const FRAME_MAX: usize = 4 << 20;

/// The terminal of a watcher in the foreground.
#[derive(Default)]
pub struct Echo {
    token: Vec<u8>,
}

impl Echo {
    /// Shows what has changed since the last time.
    fn show<B: Backend>(&mut self, tracker: &mut Tracker<B>, pumped: Pumped) {
        use std::io::Write;
        let Some(frame) = next(tracker, pumped, &self.token) else {
            return;
        };
        let mut parts = frame.split(|&byte| byte == 0);
        let begins = self.token.is_empty();
        self.token = parts.next().unwrap_or_default().to_vec();
        if begins {
            return;
        }
        let mut text = String::new();
        for path in parts.filter(|path| !path.is_empty()) {
            text.push_str("changed ");
            // A name must not steer the terminal.
            text.push_str(&String::from_utf8_lossy(path).replace(char::is_control, "?"));
            text.push('\n');
        }
        // A terminal that has gone is told by a signal.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// Sends every follower what is new for it, as far as it takes it.
pub fn tell<B: Backend>(
    clients: &mut Clients,
    echo: Option<&mut Echo>,
    tracker: &mut Tracker<B>,
    pumped: Pumped,
) {
    if let Some(echo) = echo {
        echo.show(tracker, pumped);
    }
    for index in clients.following() {
        let Some(token) = clients.get_mut(index).followed_token() else {
            continue;
        };
        let Some(mut frame) = next(tracker, pumped, token) else {
            continue;
        };
        if frame.len() > FRAME_MAX {
            frame.truncate(frame.iter().position(|&byte| byte == 0).unwrap_or(0));
            frame.extend_from_slice(b"\0/\0");
        }
        // Half the room is for those who ask. With none left now, there will be some when
        // others have taken theirs.
        if clients.has_room_for(frame.len() + PENDING_MAX / 2) {
            clients.get_mut(index).follow_up(&frame);
        } else {
            clients.get_mut(index).put_off();
        }
    }
}

/// The frame that follows after `token`; `None` if there is nothing to say.
fn next<B: Backend>(tracker: &mut Tracker<B>, pumped: Pumped, token: &[u8]) -> Option<Vec<u8>> {
    let frame = match pumped {
        // People want the paths, whatever git makes of their case.
        Pumped::Settled => {
            let asker = front::Asker {
                ignore_case: false,
                untracked_cache: &mut || false,
            };
            front::answer(tracker, token, asker).bytes
        }
        Pumped::Degraded => front::unknown("not watching").bytes,
        Pumped::Idle | Pumped::Busy | Pumped::NoTop => return None,
    };
    let same = frame.starts_with(token) && frame.get(token.len()) == Some(&0);
    (!same).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::scripted::{Scripted, world::World};
    use crate::watcher::clients::Client;
    use crate::watcher::journal::Limits;
    use crate::wire::{Identity, Kind, Request, Status};
    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    #[test]
    fn a_follower_without_room_is_told_as_soon_as_there_is_some() {
        let identity = Identity {
            dev: 1,
            ino: 2,
            mntns: 3,
        };
        let world = Rc::new(RefCell::new(World::new(1)));
        let mut tracker = Tracker::new(Scripted::new(world), Limits::default());
        let mut clients = Clients::new(identity);
        let mut others = [Kind::Follow, Kind::Query].map(|kind| {
            let (mut other, ours) = UnixStream::pair().unwrap();
            let request = Request {
                kind,
                identity,
                length: 0,
            };
            other.write_all(&request.encode()).unwrap();
            clients.add(Client::new(ours).unwrap());
            other
        });
        clients.begin_following(0);
        // More than half the room, and not taken.
        let answer = vec![0; PENDING_MAX * 3 / 4];
        clients.get_mut(1).answer(Status::Ok, &answer);
        tell(&mut clients, None, &mut tracker, Pumped::Degraded);
        assert!(clients.any_waits());
        // The other one leaves: there is room.
        let [follower, other] = &mut others;
        other.shutdown(std::net::Shutdown::Both).unwrap();
        clients.proceed(1);
        clients.sweep();
        tell(&mut clients, None, &mut tracker, Pumped::Degraded);
        assert!(!clients.any_waits());
        let mut frame = [0; 64];
        assert!(follower.read(&mut frame).unwrap() > 0);
    }
}
