//! The people's commands: one file for each, and here what they are called.
//!
//! Help, man pages and completions all come from the definitions in this file. Nothing
//! in here is ever on the hook's path.

mod answer;
mod bench;
mod doctor;
mod doctor_git;
mod enable;
mod exit;
mod generate;
mod git_view;
mod hook_value;
mod index_file;
mod kernel;
mod list;
mod log;
mod out;
mod problem;
mod process;
mod progress;
mod query;
mod restart;
mod run;
mod settings;
mod show;
mod start;
mod state;
mod status;
mod stop;
mod verify;
mod watch;
mod watcher;
mod worktree;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use problem::{Outcome, Problem};

/// Tells git what changed in a worktree, so that git need not look
///
/// treewatch takes the place of git's core.fsmonitor hook. A watcher, one for each worktree,
/// is started by git's first command there and follows every change; git status, diff, add
/// and the like then look at what changed, and at nothing else.
///
/// Turn it on in a repository: treewatch enable. Is it working? treewatch doctor.
#[derive(Parser)]
#[command(
    name = "treewatch",
    version,
    disable_help_flag = true,
    arg_required_else_help = true,
    after_help = "More on a command: treewatch help COMMAND",
    after_long_help = exit::HELP,
)]
struct Arguments {
    /// Print short help
    #[arg(short, long, global = true, action = ArgAction::HelpShort, display_order = 900)]
    help: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args)]
struct Place {
    /// A directory in the worktree [default: the current one]
    dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Turn treewatch on, in one repository or in all of yours
    ///
    /// Sets core.fsmonitor to the path of this program, and core.untrackedCache if it is not
    /// set and git finds that it works here (which takes some seconds). What was there before is
    /// kept beside, and `treewatch disable` puts it back.
    ///
    /// Refuses where treewatch cannot help: bare repositories, remote file systems, worktrees
    /// of other people, and where core.fsmonitor is in use already. With --global none of
    /// that matters: there git just gets no help.
    Enable {
        #[command(flatten)]
        arguments: enable::Arguments,
        /// Leave core.untrackedCache alone
        #[arg(long)]
        no_untracked_cache: bool,
    },
    /// Turn it off again: git's settings as they were before
    ///
    /// In a repository for which treewatch is enabled globally, sets core.fsmonitor to false.
    /// Stops the watcher of the worktree.
    Disable(enable::Arguments),
    /// Show whether the worktree is watched, and if not, why not
    ///
    /// Exit code 0: watching, or walking the tree for the first time. 1: a watcher is there that cannot
    /// watch; the reason and what to do are shown. 3: no watcher is running.
    ///
    /// With --json: one object with at least state ("watching", "crawling", "degraded",
    /// "not-running"), reason, pid, root, backend, instance, sequence, directories, watches,
    /// journal_paths, resyncs, queries, exact_answers, full_answers, rss_bytes, uptime_s,
    /// socket, log, protocol and version; null for what is not known.
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Look for everything that could be wrong, and say what to do
    ///
    /// git's version and settings, the index, the watcher, the kernel's limits, the file system,
    /// permissions, a competing monitor. Exit code 0 only if all is well, 1 if something is wrong.
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Compare git's view with the monitor to its view without
    ///
    /// Runs git status both ways, from the same index, and names every path that differs. Exit
    /// code 1 if any does. While files change, looks again until they hold still.
    Verify(verify::Arguments),
    /// Time git in this repository, without the monitor and with it
    ///
    /// Runs git status and a few other commands by turns on copies of the index, and says
    /// whether it is worth it here. Changes nothing.
    Bench(bench::Arguments),
    /// Print changes as they happen
    ///
    /// A path a line, relative to the top, in quotes with escapes where it would not fit on a
    /// line. A line that is just "/" means that anything may have changed. Ends with Ctrl-C, or when
    /// nobody reads any more; with exit code 3 when the watcher ends.
    Watch {
        /// End each path with NUL instead, and quote nothing
        #[arg(short = '0', long)]
        null: bool,
        /// Print a JSON object a line for each batch of changes, as query --json does
        #[arg(long, conflicts_with = "null")]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Print what the watcher has written down
    ///
    /// When it was started and why it ended, how long walking the tree took, and each time it had to
    /// walk it again, why. The log is kept after the watcher has ended, except where it lies in /tmp.
    Log {
        /// Go on printing what is added, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        place: Place,
    },
    /// List every watcher of this user
    ///
    /// Found by their processes, so that a watcher that does not answer is listed too.
    List {
        /// Print JSON: a list of objects as of status --json
        #[arg(long)]
        json: bool,
    },
    /// Start the watcher; returns when it can be reached
    ///
    /// Not needed: git's first command starts it as well.
    Start {
        #[command(flatten)]
        place: Place,
    },
    /// Stop the watcher, however wedged; returns when it is gone
    ///
    /// It is asked first, then made to. Never touches a process of somebody else's. Nothing to
    /// stop is no error.
    Stop {
        /// Stop every watcher of this user
        #[arg(long, conflicts_with = "dir")]
        all: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Stop the watcher and start a new one
    ///
    /// As stop does, however wedged the old one is. git's next command looks at everything once.
    Restart {
        #[command(flatten)]
        place: Place,
    },
    /// Run the watcher in the foreground, events on stderr, until Ctrl-C
    ///
    /// Exit code 6 if one is running already.
    Run {
        #[command(flatten)]
        place: Place,
    },
    /// Print what the hook would answer
    ///
    /// Starts a watcher where there is none, as the hook does.
    Query(query::Arguments),
    /// Write man pages and shell completions
    #[command(hide = true)]
    Generate {
        /// Where to
        dir: PathBuf,
    },
}

/// Carries out a person's command; returns the exit code.
pub fn main() -> i32 {
    crate::sys::ignore_broken_pipes();
    out::fill_standard_descriptors();
    if let Some(problem) = misused_hook() {
        return problem.tell().into();
    }
    let mut definitions = Arguments::command();
    if called_by_git() {
        definitions = definitions
            .bin_name("git treewatch")
            .display_name("git treewatch");
    }
    let parsed = definitions
        .try_get_matches()
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            let code = if error.use_stderr() {
                exit::USAGE
            } else {
                exit::OK
            };
            return code.into();
        }
    };
    let code = carry_out(&arguments.command).unwrap_or_else(|problem| problem.tell());
    code.into()
}

/// A number as the first word is a version of git's hook protocol, which is not spoken
/// here, or has no token after it.
fn misused_hook() -> Option<Problem> {
    let version = std::env::args_os().nth(1)?.to_str()?.parse::<u32>().ok()?;
    let why = if std::env::args_os().len() > 3 {
        "there is more than a token after the version".to_owned()
    } else if (1..=2).contains(&version) {
        "the token is missing".to_owned()
    } else {
        format!("version {version} of the hook protocol is not spoken here")
    };
    Some(
        Problem::new(format_args!("cannot answer as a hook: {why}"))
            .advice("git calls it as: treewatch 2 TOKEN")
            .code(exit::USAGE),
    )
}

/// Whether this is `git treewatch`, for which git runs `git-treewatch`.
fn called_by_git() -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name().map(OsStr::as_bytes) == Some(b"git-treewatch")
}

fn carry_out(command: &Command) -> Outcome {
    match command {
        Command::Enable {
            arguments,
            no_untracked_cache,
        } => enable::enable(arguments, !no_untracked_cache),
        Command::Disable(arguments) => enable::disable(arguments),
        Command::Status { json, place } => status::run(place.dir.as_deref(), *json),
        Command::Doctor { json, place } => doctor::run(place.dir.as_deref(), *json),
        Command::Verify(arguments) => verify::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
        Command::Watch { null, json, place } => {
            let form = match (null, json) {
                (true, _) => watch::Form::Nul,
                (_, true) => watch::Form::Json,
                _ => watch::Form::Lines,
            };
            watch::run(place.dir.as_deref(), form)
        }
        Command::Log { follow, place } => log::run(place.dir.as_deref(), *follow),
        Command::List { json } => list::run(*json),
        Command::Start { place } => start::run(place.dir.as_deref()),
        Command::Stop { all: true, .. } => stop::run_all(),
        Command::Stop { place, .. } => stop::run(place.dir.as_deref()),
        Command::Restart { place } => restart::run(place.dir.as_deref()),
        Command::Run { place } => run::run(place.dir.as_deref()),
        Command::Query(arguments) => query::run(arguments),
        Command::Generate { dir } => generate::run(dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
