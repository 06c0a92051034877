//! git's configuration, read and written through git.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::problem::Problem;
use super::worktree::{Worktree, last_words, no_git};

/// Which of git's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The repository's.
    Local,
    /// The user's.
    Global,
}

impl Scope {
    /// The option of `git config` for it, without its dashes: also git's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Global => "global",
        }
    }
}

/// A setting as it counts, wherever it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// git's name for where it comes from: `system`, `global`, `local`, `worktree`, `command`.
    pub scope: String,
    /// The value.
    pub value: OsString,
}

/// git's configuration as seen from a worktree, or from nowhere in particular.
pub struct Settings<'a> {
    worktree: Option<&'a Worktree>,
}

impl<'a> Settings<'a> {
    /// The settings that count in a worktree; without one, the user's.
    pub fn of(worktree: Option<&'a Worktree>) -> Self {
        Self { worktree }
    }

    /// Waits for whoever else changes these settings by a command of ours, and keeps others
    /// from it as long as what is returned lives. `None` where no lock can be had: git's own,
    /// for each single change, has to do then.
    pub fn lock(&self, scope: Scope) -> Option<File> {
        let dir = match (scope, self.worktree) {
            (Scope::Local, Some(worktree)) => worktree.common_dir(),
            _ => PathBuf::from(std::env::var_os("HOME")?),
        };
        let dir = File::open(dir).ok()?;
        dir.lock().ok()?;
        Some(dir)
    }

    fn git(&self) -> Command {
        let mut git = match self.worktree {
            Some(worktree) => worktree.git(),
            None => {
                let mut git = Command::new("git");
                git.stdin(Stdio::null());
                git
            }
        };
        git.arg("config");
        git
    }

    /// The value that counts.
    pub fn effective(&self, key: &str) -> Result<Option<Effective>, Problem> {
        let mut git = self.git();
        git.args(["--null", "--show-scope", "--get", key]);
        let Some(output) = run(git, ("read", key), &[1])? else {
            return Ok(None);
        };
        let mut parts = output.split(|&byte| byte == 0);
        let scope = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let value = OsStr::from_bytes(parts.next().unwrap_or_default()).to_owned();
        Ok(Some(Effective { scope, value }))
    }

    /// The value that counts, as one of git's booleans; `None` if there is none, or it is
    /// something else.
    pub fn truth(&self, key: &str) -> Option<bool> {
        let mut git = self.git();
        git.args(["--type=bool", "--get", key]);
        let output = git.stderr(Stdio::null()).output().ok()?;
        match output.stdout.trim_ascii() {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// All values in one file, in their order.
    pub fn all(&self, scope: Scope, key: &str) -> Result<Vec<OsString>, Problem> {
        let mut git = self.git();
        git.arg(format!("--{}", scope.name()));
        git.args(["--null", "--get-all", key]);
        let Some(output) = run(git, ("read", key), &[1])? else {
            return Ok(Vec::new());
        };
        let output = output.strip_suffix(b"\0").unwrap_or(&output);
        let values = output.split(|&byte| byte == 0);
        Ok(values
            .map(|value| OsString::from_vec(value.to_vec()))
            .collect())
    }

    /// Makes these the only values in one file. A single one takes the place of a single
    /// one, so that the file's order stays.
    pub fn put(&self, scope: Scope, key: &str, values: &[OsString]) -> Result<(), Problem> {
        let option = format!("--{}", scope.name());
        let Some((first, rest)) = values.split_first() else {
            let mut git = self.git();
            git.args([&*option, "--unset-all", key]);
            // 5: there was none.
            return run(git, ("change", key), &[5]).map(|_| ());
        };
        let mut git = self.git();
        git.args([&*option, "--replace-all", key]).arg(first);
        run(git, ("change", key), &[])?;
        for value in rest {
            let mut git = self.git();
            git.args([&*option, "--add", key]).arg(value);
            run(git, ("change", key), &[])?;
        }
        Ok(())
    }
}

/// What git prints; `None` if it ends with one of the codes that mean "there is none".
/// `what`: read or change, and which setting.
fn run(mut git: Command, what: (&str, &str), none: &[i32]) -> Result<Option<Vec<u8>>, Problem> {
    let output = git.output().map_err(|error| no_git(&error))?;
    match output.status.code() {
        Some(0) => Ok(Some(output.stdout)),
        Some(code) if none.contains(&code) => Ok(None),
        _ => Err(Problem::new(format_args!(
            "cannot {} the setting {}: git says: {}",
            what.0,
            what.1,
            last_words(&output)
        ))),
    }
}
