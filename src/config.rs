//! Settings: git's own configuration, read through git, by the watcher only.
//!
//! | key | meaning | default |
//! |---|---|---|
//! | `treewatch.backend` | `inotify` or `notify` | the best for the system |
//! | `treewatch.idleTimeout` | end after so long without a query; `0`: never | `8h` |
//! | `treewatch.journalPaths` | paths the journal may hold | 250000 |
//! | `treewatch.journalBytes` | bytes of paths it may hold (`k`, `m`, `g`) | `32m` |
//! | `fsmonitor.allowRemote` | watch remote file systems too | `false` |
//! | `core.ignoreCase` | git's own: an answer with changes becomes "everything" | `false` |
//! | `core.untrackedCache`, `feature.manyFiles` | git's own: after "everything", git is made to list each directory anew once | |
//!
//! A value that cannot be read is as good as none: a repository's configuration can
//! tune the watcher, and nothing in it is ever run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};

use crate::watcher::journal::Limits;

/// Whoever wants to wait for so long wants to wait for ever: 100 years.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Which backend watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendChoice {
    /// inotify, on Linux.
    Inotify,
    /// The notify crate, on any system.
    Notify,
}

/// The watcher's settings. See the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `treewatch.backend`
    pub backend: BackendChoice,
    /// `treewatch.idleTimeout`; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// `treewatch.journalPaths` and `treewatch.journalBytes`
    pub journal: Limits,
    /// `fsmonitor.allowRemote`
    pub allow_remote: bool,
    /// `core.ignoreCase`
    pub ignore_case: bool,
    /// `core.untrackedCache`, or `feature.manyFiles` in its place.
    pub untracked_cache: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            backend: if cfg!(target_os = "linux") {
                BackendChoice::Inotify
            } else {
                BackendChoice::Notify
            },
            idle_timeout: Some(Duration::from_secs(8 * 3600)),
            journal: Limits::default(),
            allow_remote: false,
            ignore_case: false,
            untracked_cache: false,
        }
    }
}

impl Config {
    /// Asks git for the settings of a worktree. Where git cannot be asked, the defaults.
    pub fn read(git_dir: &Path) -> Self {
        let Some(git) = program("git", std::env::var_os("PATH").as_deref()) else {
            return Self::default();
        };
        // Not from the worktree: nobody is to be kept from unmounting it.
        let output = Command::new(git)
            .args(["--no-pager", "config", "--null", "--get-regexp"])
            .arg(r"^(treewatch\..*|fsmonitor\.allowremote|core\.ignorecase|core\.untrackedcache|feature\.manyfiles)$")
            .current_dir("/")
            .env("GIT_DIR", git_dir)
            .env_remove("GIT_WORK_TREE")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match output {
            Ok(output) => Self::parse(&output.stdout),
            Err(_) => Self::default(),
        }
    }

    /// Reads what `git config --null --get-regexp` prints: `key\nvalue\0`, the last one
    /// counts; a key without a value stands for `true` (git-config(1)).
    pub fn parse(output: &[u8]) -> Self {
        let mut config = Self::default();
        for record in output.split(|&byte| byte == 0) {
            let Ok(record) = std::str::from_utf8(record) else {
                continue;
            };
            let (key, value) = record.split_once('\n').unwrap_or((record, "true"));
            match key {
                "treewatch.backend" => match value {
                    "notify" => config.backend = BackendChoice::Notify,
                    "inotify" if cfg!(target_os = "linux") => {
                        config.backend = BackendChoice::Inotify;
                    }
                    _ => {}
                },
                "treewatch.idletimeout" => {
                    if let Some(timeout) = duration(value) {
                        // No clock can be set beyond the end of time.
                        config.idle_timeout =
                            (!timeout.is_zero() && timeout < FOR_EVER).then_some(timeout);
                    }
                }
                "treewatch.journalpaths" => {
                    if let Some(paths) = size(value) {
                        config.journal.paths = paths;
                    }
                }
                "treewatch.journalbytes" => {
                    if let Some(bytes) = size(value) {
                        config.journal.bytes = bytes;
                    }
                }
                "fsmonitor.allowremote" => config.allow_remote = truth(value),
                "core.untrackedcache" | "feature.manyfiles" => {
                    config.untracked_cache |= truth(value);
                }
                "core.ignorecase" => config.ignore_case = truth(value),
                _ => {}
            }
        }
        config
    }
}

/// A program by its name, from the absolute directories in `path` only: one that is
/// relative (`.`, or an empty entry) may be the worktree, where anybody's code may lie.
fn program(name: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    std::env::split_paths(path?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| access(file, AccessFlags::X_OK).is_ok() && file.is_file())
}

/// git's booleans (git-config(1)): words, or any number but 0 (git: parse.c,
/// `git_parse_maybe_bool`).
fn truth(value: &str) -> bool {
    ["true", "yes", "on"]
        .iter()
        .any(|yes| value.eq_ignore_ascii_case(yes))
        || value.parse::<i32>().is_ok_and(|number| number != 0)
}

/// Seconds, or a number with `s`, `m`, `h` or `d`.
fn duration(value: &str) -> Option<Duration> {
    let value = value.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(value).ok(),
    }
}

/// A number with git's units (git-config(1)): `k`, `m`, `g`.
fn size(value: &str) -> Option<usize> {
    let value = value.trim();
    let (number, factor) = match value.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&value[..value.len() - 1], 1usize << 10),
        b'm' => (&value[..value.len() - 1], 1 << 20),
        b'g' => (&value[..value.len() - 1], 1 << 30),
        _ => (value, 1),
    };
    number.parse::<usize>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_read_and_the_last_one_counts() {
        let config = Config::parse(
            b"treewatch.backend\nnotify\0treewatch.idletimeout\n90\0treewatch.idletimeout\n2h\0\
              treewatch.journalpaths\n10k\0treewatch.journalbytes\n1m\0fsmonitor.allowremote\0core.ignorecase\nYes\0",
        );
        assert_eq!(config.backend, BackendChoice::Notify);
        assert_eq!(config.idle_timeout, Some(Duration::from_secs(7200)));
        assert_eq!(
            config.journal,
            Limits {
                paths: 10 << 10,
                bytes: 1 << 20
            }
        );
        assert!(config.allow_remote);
        assert!(config.ignore_case);
    }

    #[test]
    fn a_boolean_is_what_it_is_to_git() {
        let ignores = |value: &str| {
            Config::parse(format!("core.ignorecase\n{value}\0").as_bytes()).ignore_case
        };
        for yes in ["true", "YES", "on", "1", "2", "-1"] {
            assert!(ignores(yes), "{yes}");
        }
        for no in ["false", "no", "off", "0", "00", "", "maybe"] {
            assert!(!ignores(no), "{no}");
        }
    }

    #[test]
    fn nonsense_leaves_the_defaults() {
        let nonsense = b"treewatch.backend\nrm -rf\0treewatch.idletimeout\nsoon\0\
              treewatch.journalpaths\n-1\0treewatch.journalbytes\n99999999999999999999g\0\xff\0";
        assert_eq!(Config::parse(nonsense), Config::default());
        assert_eq!(Config::parse(b""), Config::default());
    }

    #[test]
    fn no_timeout_at_all_is_zero_or_for_ever() {
        for value in ["0", "18446744073709551615", "500000000000d"] {
            let text = format!("treewatch.idletimeout\n{value}\0");
            assert_eq!(Config::parse(text.as_bytes()).idle_timeout, None, "{value}");
        }
    }

    #[test]
    fn git_is_never_looked_for_in_a_relative_directory() {
        let find = |path: &str| program("sh", Some(OsStr::new(path)));
        assert_eq!(find("/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(
            find(".::bin:/nonexistent:/bin"),
            Some(PathBuf::from("/bin/sh"))
        );
        assert_eq!(find("../../../../../../../../../bin:"), None);
        assert_eq!(program("sh", None), None);
    }
}
