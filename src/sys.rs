//! The only file that may say `unsafe`: the program's entry, system calls for which no
//! safe wrapper exists, and what differs between Linux and the others.
#![allow(unsafe_code)]

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use nix::sys::socket::{MsgFlags, SockFlag};

/// Flags of a new socket: closed on exec; where it can be said so early, not blocking.
#[cfg(target_os = "linux")]
pub const SOCKET_FLAGS: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);
/// Flags of a new socket.
#[cfg(not(target_os = "linux"))]
pub const SOCKET_FLAGS: SockFlag = SockFlag::empty();

/// Flags of a send: no signal if the other end is gone.
#[cfg(target_os = "linux")]
pub const SEND_FLAGS: MsgFlags = MsgFlags::MSG_NOSIGNAL;
/// Flags of a send.
#[cfg(not(target_os = "linux"))]
pub const SEND_FLAGS: MsgFlags = MsgFlags::empty();

/// The program's entry. Taking it from the C library's start code, instead of Rust's,
/// saves the hook a dozen system calls (signal handlers, an alternate stack, a poll of
/// the standard descriptors); what Rust's would have done for the other parts is done
/// where they begin.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn main(_argc: i32, _argv: *const *const u8) -> i32 {
    // The arguments are read by std::env, which the C library's start code has given
    // them to before (glibc and macOS both do).
    crate::run()
}

/// Takes a descriptor that a system call of ours has just made.
pub fn own(raw: RawFd) -> OwnedFd {
    // SAFETY: callers pass what fcntl(F_DUPFD_CLOEXEC) or the like returned to them and
    // nobody else knows of.
    unsafe { OwnedFd::from_raw_fd(raw) }
}

/// Makes a socket not block, where [`SOCKET_FLAGS`] could not.
#[cfg(target_os = "linux")]
pub fn set_nonblocking(_socket: BorrowedFd<'_>) {}
/// Makes a socket not block, and closed on exec.
#[cfg(not(target_os = "linux"))]
pub fn set_nonblocking(socket: BorrowedFd<'_>) {
    use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
    let _ = fcntl(socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
    let _ = fcntl(socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC));
}

/// The user id at the other end of a Unix socket (unix(7), `SO_PEERCRED`).
#[cfg(target_os = "linux")]
pub fn peer_uid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    Ok(getsockopt(&socket, PeerCredentials)?.uid())
}
/// The user id at the other end of a Unix socket.
#[cfg(not(target_os = "linux"))]
pub fn peer_uid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    use nix::sys::socket::{getsockopt, sockopt::LocalPeerCred};
    Ok(getsockopt(&socket, LocalPeerCred)?.uid())
}

/// The process id of whoever listens, or connected, at the other end of a Unix socket.
#[cfg(target_os = "linux")]
pub fn peer_pid(socket: BorrowedFd<'_>) -> io::Result<i32> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    Ok(getsockopt(&socket, PeerCredentials)?.pid())
}
/// The process id at the other end of a Unix socket.
#[cfg(not(target_os = "linux"))]
pub fn peer_pid(socket: BorrowedFd<'_>) -> io::Result<i32> {
    use nix::sys::socket::{getsockopt, sockopt::LocalPeerPid};
    Ok(getsockopt(&socket, LocalPeerPid)?)
}

/// The inode of this process's mount namespace (namespaces(7)); 0 if it cannot be told.
pub fn mount_namespace() -> u64 {
    if cfg!(target_os = "linux") {
        nix::sys::stat::stat("/proc/self/ns/mnt").map_or(0, |found| found.st_ino as u64)
    } else {
        0
    }
}

/// The id of the mount that a path is on (statx(2), `STATX_MNT_ID`, Linux 5.8); `None` if
/// it cannot be told.
#[cfg(target_os = "linux")]
pub fn mount_id(path: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut found = std::mem::MaybeUninit::<nix::libc::statx>::zeroed();
    // SAFETY: the path ends with NUL, and the kernel writes no more than one statx.
    let result = unsafe {
        nix::libc::statx(
            nix::libc::AT_FDCWD,
            path.as_ptr(),
            0,
            nix::libc::STATX_MNT_ID,
            found.as_mut_ptr(),
        )
    };
    // SAFETY: all zeroes is a statx, whatever of it the kernel has filled in.
    let found = unsafe { found.assume_init() };
    (result == 0 && found.stx_mask & nix::libc::STATX_MNT_ID != 0).then_some(found.stx_mnt_id)
}
/// The id of the mount that a path is on: not known here.
#[cfg(not(target_os = "linux"))]
pub fn mount_id(_path: &Path) -> Option<u64> {
    None
}

/// Closes every descriptor from `first` on: what a starter left open is not ours to hold.
/// To be called before this process has opened any.
pub fn close_from(first: u32) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: takes three integers. No descriptor in the range has an owner in this
        // process yet, as the caller promises.
        let result =
            unsafe { nix::libc::syscall(nix::libc::SYS_close_range, first, u32::MAX, 0u32) };
        if result == 0 {
            return;
        }
    }
    let limit = nix::unistd::sysconf(nix::unistd::SysconfVar::OPEN_MAX);
    let limit = limit.ok().flatten().unwrap_or(1024).min(65_536) as RawFd;
    for raw in first as RawFd..limit {
        let _ = nix::unistd::close(raw);
    }
}

/// Lets this process have as many descriptors as it may (getrlimit(2), `RLIMIT_NOFILE`).
pub fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // No more than we have use for: some programs walk all they may have.
        let wanted = hard.min(4096);
        if soft < wanted {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
        }
    }
}

/// Names this process for ps and top (prctl(2), `PR_SET_NAME`): a program started through
/// /proc/self/exe would be called "exe".
pub fn set_name(name: &std::ffi::CStr) {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(name);
    #[cfg(not(target_os = "linux"))]
    let _ = name;
}

/// Stops an inotify watch (inotify_rm_watch(2)). A watch that is gone already is no
/// error. nix has a wrapper, but takes a type that cannot be made from a number, and the
/// tree keeps numbers.
#[cfg(target_os = "linux")]
pub fn inotify_rm_watch(kernel: BorrowedFd<'_>, watch: i32) {
    // SAFETY: takes two integers and touches no memory of ours; the descriptor is open,
    // since it is borrowed.
    unsafe {
        nix::libc::inotify_rm_watch(kernel.as_raw_fd(), watch);
    }
}

/// Lets a write to a pipe that nobody reads fail instead of killing the process. Rust's
/// own start code, which this program goes without, would have done so.
pub fn ignore_broken_pipes() {
    // SAFETY: no handler of ours is installed or replaced, only the kernel's default.
    let _ = unsafe {
        nix::sys::signal::signal(
            nix::sys::signal::Signal::SIGPIPE,
            nix::sys::signal::SigHandler::SigIgn,
        )
    };
}

/// A process that is signalled and waited for as itself: on Linux by a descriptor of it
/// (pidfd_open(2), Linux 5.3), so that its number may be given to another meanwhile.
pub struct Process {
    pid: i32,
    #[cfg(target_os = "linux")]
    descriptor: OwnedFd,
}

#[cfg(target_os = "linux")]
impl Process {
    /// The process that has this number now. ESRCH if there is none.
    pub fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: takes two integers, and returns a new descriptor (closed on exec) that
        // nobody else knows of.
        let raw = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid, 0u32) };
        let raw = RawFd::try_from(raw).unwrap_or(-1);
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            pid,
            descriptor: own(raw),
        })
    }

    /// Sends it a signal. ESRCH if it has ended.
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> io::Result<()> {
        // SAFETY: the descriptor is open; the null pointer stands for the siginfo that
        // kill(2) would send (pidfd_send_signal(2)).
        let result = unsafe {
            nix::libc::syscall(
                nix::libc::SYS_pidfd_send_signal,
                self.descriptor.as_raw_fd(),
                signal as i32,
                std::ptr::null::<nix::libc::siginfo_t>(),
                0u32,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Whether it ends within `limit`.
    pub fn ends_within(&self, limit: std::time::Duration) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let until = std::time::Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Err(nix::errno::Errno::EINTR) => {}
                result => return result.is_ok_and(|ready| ready > 0),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Process {
    /// The process that has this number now. ESRCH if there is none.
    pub fn open(pid: i32) -> io::Result<Self> {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None)?;
        Ok(Self { pid })
    }

    /// Sends it a signal. ESRCH if it has ended.
    pub fn signal(&self, signal: nix::sys::signal::Signal) -> io::Result<()> {
        Ok(nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.pid),
            signal,
        )?)
    }

    /// Whether it ends within `limit`.
    pub fn ends_within(&self, limit: std::time::Duration) -> bool {
        let until = std::time::Instant::now() + limit;
        while nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid), None).is_ok() {
            if std::time::Instant::now() >= until {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        true
    }
}

impl Process {
    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }
}
