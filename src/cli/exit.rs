//! Exit codes of the people's commands. The hook's are git's business: 0, or 1 where there
//! is no worktree.

/// What was asked for was done, or is so.
pub const OK: u8 = 0;
/// The answer is no: `status` finds a watcher that cannot watch, `doctor` something that
/// is not well, `verify` a difference.
pub const NO: u8 = 1;
/// The command line was not understood.
pub const USAGE: u8 = 2;
/// No watcher is running (`status`, `log`; `watch` when it ends); the same number as for
/// other services (LSB, "program is not running").
pub const NOT_RUNNING: u8 = 3;
/// There is no worktree here, or none that can be watched.
pub const NO_WORKTREE: u8 = 4;
/// It could not be done.
pub const FAILED: u8 = 5;
/// A watcher is running already (`run`).
pub const RUNNING: u8 = 6;

/// The same for people, at the end of the long help.
pub const HELP: &str = "\
Exit codes:
  0  done, or all is well
  1  the answer is no: a watcher that cannot watch (status), something not well (doctor),
     a difference (verify)
  2  the command line was not understood
  3  no watcher is running (status, log; watch when it ends)
  4  there is no worktree here, or none that can be watched
  5  it could not be done; stderr says why
  6  a watcher is running already (run)

As a hook (treewatch 2 TOKEN): 0 with an answer, 1 where there is no worktree.";
