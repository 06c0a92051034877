//! The worktree a person means: found by git, so that every kind git has is found.
//!
//! Finding it makes its top the working directory, which is what the rest of the program
//! goes by (see [`crate::repo`]).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::unistd::geteuid;

use super::exit;
use super::problem::Problem;
use crate::repo::{self, NoWorktree, Whereabouts};

/// A worktree; its top is the working directory.
pub struct Worktree {
    /// The top, absolute.
    pub top: PathBuf,
    /// The git directory, absolute: of a linked worktree or a submodule, its own.
    pub git_dir: PathBuf,
    /// The same as the hook knows it.
    pub place: Whereabouts,
}

impl Worktree {
    /// The worktree that holds `dir`, or the working directory. `GIT_DIR` and
    /// `GIT_WORK_TREE` count, as they do for git.
    pub fn enter(dir: Option<&Path>) -> Result<Self, Problem> {
        let dir = dir.unwrap_or(Path::new("."));
        if let Err(error) = std::fs::metadata(dir) {
            let why = match error.raw_os_error() {
                Some(number) => nix::errno::Errno::from_raw(number).desc().to_owned(),
                None => error.to_string(),
            };
            return Err(
                Problem::new(format_args!("no worktree at {}: {why}", dir.display()))
                    .code(exit::NO_WORKTREE),
            );
        }
        let kind = ask(
            dir,
            &[
                "--is-bare-repository",
                "--is-inside-work-tree",
                "--absolute-git-dir",
            ],
        )?;
        let mut lines = kind.splitn(3, |&byte| byte == b'\n');
        let mut next = || lines.next().unwrap_or_default();
        let (bare, inside, git_dir) = (next(), next(), next());
        if inside != b"true" {
            let shown = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
            return Err(Problem::new(if bare == b"true" {
                format!(
                    "{} is a bare repository: there is no worktree to watch",
                    shown.display()
                )
            } else {
                format!(
                    "{} is inside a git directory, not inside a worktree",
                    shown.display()
                )
            })
            .code(exit::NO_WORKTREE));
        }
        let git_dir = PathBuf::from(OsStr::from_bytes(git_dir));
        let top = PathBuf::from(OsString::from_vec(ask(dir, &["--show-toplevel"])?));
        std::env::set_current_dir(&top).map_err(|error| {
            Problem::new(format_args!("cannot enter {}: {error}", top.display()))
                .code(exit::NO_WORKTREE)
        })?;
        let mut place = Whereabouts::here().map_err(|error| no_worktree(&top, &error))?;
        place.git_dir.clone_from(&git_dir);
        Ok(Self {
            top,
            git_dir,
            place,
        })
    }

    /// git, in this worktree, whatever the environment said before the working directory
    /// was changed.
    pub fn git(&self) -> Command {
        let mut git = Command::new("git");
        git.current_dir(&self.top).stdin(Stdio::null());
        if std::env::var_os("GIT_DIR").is_some() {
            git.env("GIT_DIR", &self.git_dir)
                .env("GIT_WORK_TREE", &self.top);
        }
        git
    }

    /// The git directory that all linked worktrees share: here the configuration is.
    pub fn common_dir(&self) -> PathBuf {
        repo::common_dir(&self.git_dir).unwrap_or_else(|| self.git_dir.clone())
    }

    /// Only its owner has a watcher: an error for everybody else.
    pub fn must_be_ours(&self, what: &str) -> Result<(), Problem> {
        if self.place.owner == geteuid().as_raw() {
            return Ok(());
        }
        Err(not_ours(what, &self.top, self.place.owner).code(exit::NO_WORKTREE))
    }
}

/// The worktree at `top`, or its watcher, is somebody else's.
pub fn not_ours(what: &str, top: &Path, owner: u32) -> Problem {
    Problem::new(format_args!(
        "{what} {}: it belongs to {}, and a watcher serves its own user only",
        top.display(),
        user(owner)
    ))
}

/// A user id with its name where /etc/passwd has one. (The C library's own look-up loads
/// code at run time, which a static program cannot rely on.)
pub fn user(id: u32) -> String {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match name_of(id, &known) {
        Some(name) => format!("user {name} ({id})"),
        None => format!("user {id}"),
    }
}

/// The name in the lines of passwd(5): name, password, user id, and more, by colons.
fn name_of(id: u32, known: &str) -> Option<&str> {
    known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    })
}

/// Why there is nothing to watch at `top`, for people.
pub fn no_worktree(top: &Path, error: &NoWorktree) -> Problem {
    let why = match error {
        NoWorktree::Outside => "there is no git directory".to_owned(),
        NoWorktree::Bare => "this is a bare repository".to_owned(),
        NoWorktree::Unreadable(error) => error.to_string(),
    };
    Problem::new(format_args!("no worktree at {}: {why}", top.display())).code(exit::NO_WORKTREE)
}

/// `git rev-parse`, less the newline at the end.
fn ask(dir: &Path, what: &[&str]) -> Result<Vec<u8>, Problem> {
    let output = Command::new("git")
        .arg("-C")
        .arg(dir)
        .arg("rev-parse")
        .args(what)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(mut output) if output.status.success() => {
            if output.stdout.last() == Some(&b'\n') {
                output.stdout.pop();
            }
            Ok(output.stdout)
        }
        Ok(output) => {
            let shown = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
            let problem = Problem::new(format_args!(
                "no worktree at {}: git says: {}",
                shown.display(),
                last_words(&output)
            ))
            .code(exit::NO_WORKTREE);
            Err(match advice_of(&output) {
                Some(advice) => problem.advice(advice),
                None => problem,
            })
        }
        Err(error) => Err(no_git(&error)),
    }
}

/// The program `git` cannot be run.
pub fn no_git(error: &std::io::Error) -> Problem {
    Problem::new(format_args!("cannot run git: {error}"))
        .advice("Install git, or put the directory it is in into PATH.")
}

/// What a failed git said, on one line, without its `fatal: ` or `error: `.
pub fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or("nothing");
    ["fatal: ", "error: "]
        .iter()
        .find_map(|prefix| line.strip_prefix(prefix))
        .unwrap_or(line)
        .to_owned()
}

/// What a failed git said to do about it, if it did: all after the first line.
fn advice_of(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().skip(1).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_where_they_are_known() {
        let known = "root:x:0:0:root:/root:/bin/bash\nnonsense\nme:x:1000:1000::/home/me:/bin/sh\n";
        assert_eq!(name_of(0, known), Some("root"));
        assert_eq!(name_of(1000, known), Some("me"));
        assert_eq!(name_of(7, known), None);
    }
}
