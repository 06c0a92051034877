//! The queue between the notify crate's thread and ours.
//!
//! The crate calls [`Handler`] on its thread, one event after another, in the order in
//! which it has them from the system. The handler keeps them and wakes the event loop
//! through a socket, once until the queue is emptied. It never calls back, and never
//! waits for us but for the lock.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::raw::{Kind, Raw, take_apart};
use super::registry::split;

/// So many events are kept; with one more, all are lost. About 100 bytes each.
const LIMIT: usize = 65_536;

/// What the name of every cookie file holds, ours and those of other watchers whose
/// files lie in the same directory.
pub const COOKIE: &[u8] = b".cookie-";

const OVERFLOW: &str = "the system's queue of events was full";
const TOO_MANY: &str = "too many events came at once";
const FAILED: &str = "the system's file watching reported an error";

/// How waiting for a cookie ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Every event from before the cookie is in the queue.
    Reached,
    /// Events were lost meanwhile.
    Lost,
    /// Time was up.
    TimedOut,
}

#[derive(Default)]
struct Inner {
    events: Vec<Raw>,
    lost: Option<&'static str>,
    /// Where cookies are made.
    cookies: Vec<u8>,
    /// The cookie that is being waited for.
    awaited: Option<Vec<u8>>,
    /// Directories that are only guarded: of what is in them, only what goes or is
    /// renamed is of interest.
    outside: Vec<Vec<u8>>,
    woken: bool,
    /// The crate's thread has ended, or was never started.
    closed: bool,
}

struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
    waker: UnixStream,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere leaves nothing half done here.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Our end.
pub struct Queue {
    shared: Arc<Shared>,
    wakeup: UnixStream,
}

/// The crate's end.
pub struct Handler {
    shared: Arc<Shared>,
}

/// An empty queue; `cookies` is the directory in which cookies are made.
pub fn pair(cookies: &[u8]) -> std::io::Result<(Queue, Handler)> {
    let (wakeup, waker) = UnixStream::pair()?;
    wakeup.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    let shared = Arc::new(Shared {
        inner: Mutex::new(Inner {
            cookies: cookies.to_owned(),
            ..Inner::default()
        }),
        changed: Condvar::new(),
        waker,
    });
    let handler = Handler {
        shared: shared.clone(),
    };
    Ok((Queue { shared, wakeup }, handler))
}

impl Queue {
    /// A descriptor that becomes readable when something is in the queue.
    pub fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Empties the queue: the events in order, or why some were lost.
    pub fn take(&self) -> Result<Vec<Raw>, &'static str> {
        let mut inner = self.shared.lock();
        if std::mem::take(&mut inner.woken) {
            // One byte for each waking, and no more than one waking at a time.
            let _ = (&self.wakeup).read(&mut [0; 16]);
        }
        let events = std::mem::take(&mut inner.events);
        match inner.lost.take() {
            Some(why) => Err(why),
            None => Ok(events),
        }
    }

    /// Cookies are made in another directory from now on.
    pub fn set_cookies(&self, dir: &[u8]) {
        self.shared.lock().cookies = dir.to_owned();
    }

    /// Says which cookie is going to be made.
    pub fn expect(&self, cookie: Vec<u8>) {
        self.shared.lock().awaited = Some(cookie);
    }

    /// Waits until the expected cookie's event was seen, no longer than `limit`.
    pub fn wait(&self, limit: Duration) -> Waited {
        let inner = self.shared.lock();
        let waiting =
            |inner: &mut Inner| inner.awaited.is_some() && inner.lost.is_none() && !inner.closed;
        let (mut inner, _) = self
            .shared
            .changed
            .wait_timeout_while(inner, limit, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        if inner.lost.is_some() {
            Waited::Lost
        } else if inner.awaited.take().is_none() {
            Waited::Reached
        } else {
            Waited::TimedOut
        }
    }

    /// Of what happens in this directory, only what goes or is renamed is of interest.
    pub fn only_guard(&self, dir: &[u8]) {
        let mut inner = self.shared.lock();
        if !inner.outside.iter().any(|other| other == dir) {
            inner.outside.push(dir.to_owned());
        }
    }

    /// Everything that happens in this directory is of interest.
    pub fn watch_whole(&self, dir: &[u8]) {
        self.shared.lock().outside.retain(|other| other != dir);
    }

    /// Whether the crate's thread is gone: its functions would panic.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// Waits until the crate's thread has ended and has given back what it held.
    pub fn wait_closed(&self, limit: Duration) {
        let inner = self.shared.lock();
        let _ = self
            .shared
            .changed
            .wait_timeout_while(inner, limit, |inner| !inner.closed);
    }
}

impl Inner {
    fn lose(&mut self, why: &'static str) {
        self.events = Vec::new();
        self.lost = Some(why);
    }

    /// Takes one event in; whether it is of interest.
    fn take_in(&mut self, raw: Raw) -> bool {
        if let Some((dir, name)) = split(&raw.path) {
            if dir == self.cookies && name.windows(COOKIE.len()).any(|part| part == COOKIE) {
                // Other watchers' cookies must not wake us: our own would wake them.
                let made = !matches!(raw.kind, Kind::Removed(_));
                if made && self.awaited.as_ref() == Some(&raw.path) {
                    self.awaited = None;
                }
                return false;
            }
            let is_outside = |path: &[u8]| self.outside.iter().any(|other| other == path);
            if !raw.kind.can_end_something() && (is_outside(dir) || is_outside(&raw.path)) {
                return false;
            }
        }
        if self.lost.is_some() {
            return true;
        }
        if self.events.last() == Some(&raw) {
            // A file that is being written.
            return true;
        }
        if self.events.len() >= LIMIT {
            self.lose(TOO_MANY);
            return true;
        }
        self.events.push(raw);
        true
    }
}

impl ::notify::EventHandler for Handler {
    fn handle_event(&mut self, event: ::notify::Result<::notify::Event>) {
        let mut inner = self.shared.lock();
        let awaited = inner.awaited.is_some();
        let mut news = false;
        match event {
            Ok(event) => {
                if !take_apart(event, &mut |raw| news |= inner.take_in(raw)) {
                    inner.lose(OVERFLOW);
                    news = true;
                }
            }
            Err(_) => {
                inner.lose(FAILED);
                news = true;
            }
        }
        if news && !inner.woken {
            inner.woken = true;
            // If this fails the socket is full, and readable.
            let _ = (&self.shared.waker).write(&[1]);
        }
        if awaited && (inner.awaited.is_none() || inner.lost.is_some()) {
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::notify::event::{CreateKind, DataChange, Event, EventKind, Flag, ModifyKind, RemoveKind};
    use ::notify::{Error, EventHandler};
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    fn made(path: &str) -> ::notify::Result<Event> {
        Ok(Event::new(EventKind::Create(CreateKind::File)).add_path(path.into()))
    }

    fn written(path: &str) -> ::notify::Result<Event> {
        let kind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        Ok(Event::new(kind).add_path(path.into()))
    }

    fn is_readable(queue: &Queue) -> bool {
        let mut fds = [PollFd::new(queue.wakeup(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).unwrap() > 0
    }

    #[test]
    fn the_loop_is_awake_while_something_is_in_the_queue() {
        let (queue, mut handler) = pair(b"/s").unwrap();
        assert!(!is_readable(&queue));
        handler.handle_event(made("/t/a"));
        handler.handle_event(made("/t/b"));
        assert!(is_readable(&queue));
        assert_eq!(queue.take().unwrap().len(), 2);
        assert!(!is_readable(&queue));
        assert_eq!(queue.take().unwrap().len(), 0);
        handler.handle_event(written("/t/a"));
        assert!(is_readable(&queue));
    }

    #[test]
    fn cookies_wake_nobody_and_stay_out_of_the_queue() {
        let (queue, mut handler) = pair(b"/s").unwrap();
        handler.handle_event(made("/s/0123.cookie-1"));
        handler.handle_event(written("/s/4567.cookie-8"));
        assert!(!is_readable(&queue));
        handler.handle_event(made("/t/0123.cookie-1"));
        assert_eq!(queue.take().unwrap().len(), 1);
    }

    #[test]
    fn the_awaited_cookie_is_the_fence_and_no_other() {
        let (queue, mut handler) = pair(b"/s").unwrap();
        queue.expect(b"/s/a.cookie-2".to_vec());
        handler.handle_event(made("/s/a.cookie-1"));
        handler.handle_event(Ok(
            Event::new(EventKind::Remove(RemoveKind::File)).add_path("/s/a.cookie-2".into())
        ));
        assert_eq!(queue.wait(Duration::ZERO), Waited::TimedOut);
        queue.expect(b"/s/a.cookie-3".to_vec());
        handler.handle_event(made("/t/x"));
        handler.handle_event(made("/s/a.cookie-3"));
        assert_eq!(queue.wait(Duration::ZERO), Waited::Reached);
        assert_eq!(queue.take().unwrap().len(), 1);
    }

    #[test]
    fn a_loss_ends_the_waiting_and_is_told_once() {
        let (queue, mut handler) = pair(b"/s").unwrap();
        queue.expect(b"/s/a.cookie-2".to_vec());
        handler.handle_event(made("/t/x"));
        handler.handle_event(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert_eq!(queue.wait(Duration::from_secs(60)), Waited::Lost);
        assert!(is_readable(&queue));
        assert!(queue.take().is_err());
        assert!(queue.take().unwrap().is_empty());
        handler.handle_event(Err(Error::generic("x")));
        assert!(queue.take().is_err());
    }

    #[test]
    fn the_queue_is_bounded() {
        let (queue, mut handler) = pair(b"/s").unwrap();
        for i in 0..LIMIT {
            handler.handle_event(made(&format!("/t/{i}")));
        }
        handler.handle_event(made(&format!("/t/{}", LIMIT - 1)));
        assert_eq!(queue.shared.lock().events.len(), LIMIT);
        handler.handle_event(made("/t/one more"));
        handler.handle_event(made("/t/and another"));
        assert_eq!(queue.take(), Err(TOO_MANY));
    }

    #[test]
    fn of_a_guarded_directory_only_what_goes_counts() {
        let (queue, mut handler) = pair(b"/s").unwrap();
        queue.only_guard(b"/g");
        handler.handle_event(written("/g/index"));
        handler.handle_event(made("/g/index.lock"));
        handler.handle_event(written("/g"));
        assert!(!is_readable(&queue));
        let removed = Event::new(EventKind::Remove(RemoveKind::File));
        handler.handle_event(Ok(removed.add_path("/g/x.sock".into())));
        handler.handle_event(written("/g/deeper/x"));
        assert_eq!(queue.take().unwrap().len(), 2);
        queue.watch_whole(b"/g");
        handler.handle_event(written("/g/index"));
        assert_eq!(queue.take().unwrap().len(), 1);
    }

    #[test]
    fn the_end_of_the_thread_ends_the_waiting() {
        let (queue, handler) = pair(b"/s").unwrap();
        queue.expect(b"/s/a.cookie-2".to_vec());
        assert!(!queue.is_closed());
        drop(handler);
        assert_eq!(queue.wait(Duration::from_secs(60)), Waited::TimedOut);
        queue.wait_closed(Duration::from_secs(60));
        assert!(queue.is_closed());
    }
}
