//! How git sees a worktree: with the monitor, and without, from a copy of the index so that
//! neither look changes anything.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::problem::Problem;
use super::worktree::{Worktree, last_words, no_git};

/// Which untracked files git shows (`git status --untracked-files=...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untracked {
    /// Each of them.
    All,
    /// A directory that holds nothing else, as one.
    Normal,
}

impl Untracked {
    /// The word for git's option.
    pub fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Normal => "normal",
        }
    }
}

/// A copy of the index in a directory of its own, removed at the end.
pub struct IndexCopy {
    dir: tempfile::TempDir,
}

impl IndexCopy {
    /// Copies the index as it is now, with its time, by which git knows entries that may
    /// have changed right after it was written (git: Documentation/technical/racy-git).
    /// Without an index there is nothing to copy, and git takes that for an empty one.
    pub fn take(worktree: &Worktree) -> Result<Self, Problem> {
        let cannot = |error: io::Error| {
            Problem::new(format_args!(
                "cannot copy the index of {}: {error}",
                worktree.top.display()
            ))
        };
        let dir = tempfile::tempdir().map_err(cannot)?;
        let index = index_path(worktree)?;
        match std::fs::copy(&index, dir.path().join("index")) {
            Ok(_) => {
                let modified = index.metadata().and_then(|found| found.modified());
                let copy = std::fs::File::options()
                    .write(true)
                    .open(dir.path().join("index"));
                copy.and_then(|copy| copy.set_modified(modified?))
                    .map_err(cannot)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
        Ok(Self { dir })
    }

    /// Where the copy is.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("index")
    }
}

/// The index of a worktree.
pub fn index_path(worktree: &Worktree) -> Result<PathBuf, Problem> {
    let mut git = worktree.git();
    git.args(["rev-parse", "--git-path", "index"]);
    let output = run(git)?;
    let path = output.strip_suffix(b"\n").unwrap_or(&output);
    use std::os::unix::ffi::OsStringExt;
    Ok(worktree.top.join(OsString::from_vec(path.to_vec())))
}

/// git, set not to write anything, with another index if one is given.
pub fn quiet_git(worktree: &Worktree, index: Option<&Path>) -> Command {
    let mut git = worktree.git();
    git.env("GIT_OPTIONAL_LOCKS", "0");
    if let Some(index) = index {
        git.env("GIT_INDEX_FILE", index);
    }
    git
}

/// What git prints; an error if it fails.
pub fn run(mut git: Command) -> Result<Vec<u8>, Problem> {
    let output = git
        .stdin(Stdio::null())
        .output()
        .map_err(|error| no_git(&error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words: Vec<String> = git
        .get_args()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    Err(Problem::new(format_args!(
        "git {} failed: {}",
        words.join(" "),
        last_words(&output)
    )))
}

/// The records of `git status --porcelain=v1 -z`: two letters, a space and a path; a
/// renamed entry's other path is kept with it.
pub fn records(output: &[u8]) -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = Vec::new();
    let mut parts = output.split(|&byte| byte == 0);
    while let Some(part) = parts.next() {
        if part.is_empty() {
            continue;
        }
        let mut record = part.to_vec();
        let renamed = part[..part.len().min(2)]
            .iter()
            .any(|letter| matches!(letter, b'R' | b'C'));
        if renamed && let Some(from) = parts.next() {
            record.push(0);
            record.extend_from_slice(from);
        }
        records.push(record);
    }
    records.sort();
    records
}

/// How many entries of the index git would pass over, and how many there are: their tag in
/// `git ls-files -f` is a lower-case letter.
pub fn skippable(worktree: &Worktree) -> Result<(u64, u64), Problem> {
    let mut git = quiet_git(worktree, None);
    git.args(["ls-files", "-f", "-z"]);
    let output = run(git)?;
    let tags = output
        .split(|&byte| byte == 0)
        .filter_map(|record| record.first());
    let (mut lower, mut all) = (0, 0);
    for tag in tags {
        all += 1;
        lower += u64::from(tag.is_ascii_lowercase());
    }
    Ok((lower, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renames_keep_both_names() {
        let output = b"R  new\0old\0 M file\0?? R\0";
        assert_eq!(
            records(output),
            [
                b" M file".to_vec(),
                b"?? R".to_vec(),
                b"R  new\0old".to_vec()
            ]
        );
        assert!(records(b"").is_empty());
    }
}
