//! Frames between client and watcher, over one Unix stream socket. Pure: no I/O.
//!
//! One connection carries one request and one answer. All numbers are little-endian.
//!
//! ```text
//! request   "TW" protocol:u8 kind:u8 length:u16 zero:u16 dev:u64 ino:u64 mntns:u64   32 bytes
//!           then `length` bytes: the token (Query), or JSON (other kinds), or nothing
//! answer    "TW" protocol:u8 status:u8 zero:u32 length:u64                           16 bytes
//!           then `length` bytes: for Query just what the hook prints
//! ```
//!
//! The first four bytes of both, and the meaning of [`Kind::Stop`], hold for every
//! protocol there will ever be: two versions can always tell each other apart, and a
//! newer one can always ask an older one to make room.

/// The protocol this program speaks. Not the program's version: two versions with the
/// same protocol work together.
pub const PROTOCOL: u8 = 1;

/// Bytes of a request before its body.
pub const REQUEST_HEADER: usize = 32;

/// Bytes of an answer before its body.
pub const ANSWER_HEADER: usize = 16;

/// The longest body a request may have. A token of ours is below 100 bytes.
pub const BODY_MAX: usize = 512;

const MAGIC: [u8; 2] = *b"TW";

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The changes since a token, as the hook prints them.
    Query = 1,
    /// The state of the watcher, as JSON.
    Status = 2,
    /// End. Answered once the socket is no longer found under its name.
    Stop = 3,
    /// Like `Query`, but the answer never ends: a frame for each batch of changes.
    Follow = 4,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Query,
            2 => Self::Status,
            3 => Self::Stop,
            4 => Self::Follow,
            _ => return None,
        })
    }
}

/// How a request was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The body is the answer.
    Ok = 0,
    /// The watcher speaks the protocol in the header, not the client's.
    Protocol = 1,
    /// This watcher is not for this client: another user, worktree or mount namespace.
    /// The body says which.
    NotYours = 2,
    /// The request could not be understood. The body says why.
    Bad = 3,
}

impl Status {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Ok,
            1 => Self::Protocol,
            2 => Self::NotYours,
            3 => Self::Bad,
            _ => return None,
        })
    }
}

/// Which directory a client means, whatever its name: what two processes must agree on
/// before one can believe what the other says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Device of the top of the worktree (`st_dev`).
    pub dev: u64,
    /// Inode of the top of the worktree (`st_ino`).
    pub ino: u64,
    /// Inode of the mount namespace; 0 where it cannot be told. A process in another
    /// namespace may see other directories below the same top.
    pub mntns: u64,
}

impl Identity {
    /// The name under which socket, lock and log of this worktree's watcher are found:
    /// 16 hexadecimal digits.
    pub fn name(&self) -> [u8; 16] {
        // FNV-1a over the three numbers. A collision does no harm: the watcher compares
        // the numbers themselves and refuses.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for number in [self.dev, self.ino, self.mntns] {
            for byte in number.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        let mut name = [0; 16];
        for (i, digit) in name.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(hash >> (60 - 4 * i)) as usize & 15];
        }
        name
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is wanted.
    pub kind: Kind,
    /// Whose watcher the client thinks it is speaking to.
    pub identity: Identity,
    /// Bytes of the body that follows.
    pub length: u16,
}

/// Why the head of a request or an answer was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// It does not begin as all of ours do: not a treewatch at the other end.
    Magic,
    /// The other end speaks this protocol. Carries what the kind byte said, since
    /// `Stop` is understood in every protocol.
    Protocol(u8, Option<Kind>),
    /// The body is longer than allowed, or a field has a value it cannot have.
    Field,
}

impl Request {
    /// The bytes that go over the socket before the body.
    pub fn encode(&self) -> [u8; REQUEST_HEADER] {
        let mut out = [0; REQUEST_HEADER];
        out[..2].copy_from_slice(&MAGIC);
        out[2] = PROTOCOL;
        out[3] = self.kind as u8;
        out[4..6].copy_from_slice(&self.length.to_le_bytes());
        out[8..16].copy_from_slice(&self.identity.dev.to_le_bytes());
        out[16..24].copy_from_slice(&self.identity.ino.to_le_bytes());
        out[24..32].copy_from_slice(&self.identity.mntns.to_le_bytes());
        out
    }

    /// Reads the head of a request.
    pub fn decode(bytes: &[u8; REQUEST_HEADER]) -> Result<Self, HeaderError> {
        if bytes[..2] != MAGIC {
            return Err(HeaderError::Magic);
        }
        let kind = Kind::from_byte(bytes[3]);
        if bytes[2] != PROTOCOL {
            return Err(HeaderError::Protocol(bytes[2], kind));
        }
        let length = u16::from_le_bytes([bytes[4], bytes[5]]);
        let Some(kind) = kind else {
            return Err(HeaderError::Field);
        };
        if usize::from(length) > BODY_MAX {
            return Err(HeaderError::Field);
        }
        Ok(Self {
            kind,
            identity: Identity {
                dev: number(bytes, 8),
                ino: number(bytes, 16),
                mntns: number(bytes, 24),
            },
            length,
        })
    }
}

/// The head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// How the request was taken.
    pub status: Status,
    /// Bytes of the body that follows.
    pub length: u64,
}

impl Answer {
    /// The bytes that go over the socket before the body.
    pub fn encode(&self) -> [u8; ANSWER_HEADER] {
        let mut out = [0; ANSWER_HEADER];
        out[..2].copy_from_slice(&MAGIC);
        out[2] = PROTOCOL;
        out[3] = self.status as u8;
        out[8..16].copy_from_slice(&self.length.to_le_bytes());
        out
    }

    /// Reads the head of an answer.
    pub fn decode(bytes: &[u8; ANSWER_HEADER]) -> Result<Self, HeaderError> {
        if bytes[..2] != MAGIC {
            return Err(HeaderError::Magic);
        }
        if bytes[2] != PROTOCOL {
            return Err(HeaderError::Protocol(bytes[2], None));
        }
        let Some(status) = Status::from_byte(bytes[3]) else {
            return Err(HeaderError::Field);
        };
        Ok(Self {
            status,
            length: number(bytes, 8),
        })
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHO: Identity = Identity {
        dev: 1,
        ino: 2,
        mntns: 3,
    };

    #[test]
    fn a_request_survives_the_wire() {
        let request = Request {
            kind: Kind::Query,
            identity: WHO,
            length: 40,
        };
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn an_answer_survives_the_wire() {
        let answer = Answer {
            status: Status::NotYours,
            length: 1 << 40,
        };
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn another_protocol_is_told_apart_and_stop_is_still_understood() {
        let mut bytes = Request {
            kind: Kind::Stop,
            identity: WHO,
            length: 0,
        }
        .encode();
        bytes[2] = 99;
        assert_eq!(
            Request::decode(&bytes),
            Err(HeaderError::Protocol(99, Some(Kind::Stop)))
        );
    }

    #[test]
    fn a_body_over_the_cap_is_refused_before_anything_is_allocated() {
        let request = Request {
            kind: Kind::Query,
            identity: WHO,
            length: BODY_MAX as u16 + 1,
        };
        assert_eq!(Request::decode(&request.encode()), Err(HeaderError::Field));
    }

    #[test]
    fn names_differ_with_each_part_of_the_identity() {
        let other = |f: fn(&mut Identity)| {
            let mut who = WHO;
            f(&mut who);
            who.name()
        };
        assert_ne!(WHO.name(), other(|w| w.dev = 9));
        assert_ne!(WHO.name(), other(|w| w.ino = 9));
        assert_ne!(WHO.name(), other(|w| w.mntns = 9));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_without_panic(bytes in prop::array::uniform32(any::<u8>())) {
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert!(usize::from(request.length) <= BODY_MAX);
            }
        }

        #[test]
        fn any_answer_is_taken_without_panic(bytes in prop::array::uniform16(any::<u8>())) {
            let _ = Answer::decode(&bytes);
        }
    }
}
