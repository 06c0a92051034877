//! The people's commands: one file for each, and here what they are called.
//!
//! Help, man pages and completions all come from the definitions in this file. Nothing
//! in here is ever on the hook's path.

mod answer;
mod exit;
mod out;
mod problem;
mod process;
mod query;
mod run;
mod start;
mod state;
mod status;
mod stop;
mod watcher;
mod worktree;

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand};

use problem::{Outcome, Problem};

/// Tells git what changed, so that it need not look
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
    #[arg(short, long, global = true, action = ArgAction::HelpShort)]
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
    /// Show whether the worktree is watched, and if not, why not
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Start the watcher; returns when it can be reached
    Start {
        #[command(flatten)]
        place: Place,
    },
    /// Stop the watcher, however wedged; returns when it is gone
    Stop {
        #[command(flatten)]
        place: Place,
    },
    /// Run the watcher in the foreground, events on stderr, until Ctrl-C
    Run {
        #[command(flatten)]
        place: Place,
    },
    /// Print what the hook would answer
    Query(query::Arguments),
}

/// Carries out a person's command; returns the exit code.
pub fn main() -> i32 {
    crate::sys::ignore_broken_pipes();
    out::fill_standard_descriptors();
    if let Some(problem) = misused_hook() {
        return problem.tell().into();
    }
    let arguments = match Arguments::try_parse() {
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

fn carry_out(command: &Command) -> Outcome {
    match command {
        Command::Status { json, place } => status::run(place.dir.as_deref(), *json),
        Command::Start { place } => start::run(place.dir.as_deref()),
        Command::Stop { place } => stop::run(place.dir.as_deref()),
        Command::Run { place } => run::run(place.dir.as_deref()),
        Command::Query(arguments) => query::run(arguments),
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
