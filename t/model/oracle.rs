//! Is git's view under the monitor the one it has without?
//!
//! The oracle is `git status` without monitor and without untracked cache, on a copy of
//! the index made before. git's own untracked cache errs at times (an untracked directory
//! whose depths became empty stays listed under `-unormal`; `-unormal` and `-uall` in
//! turn; and, rarely, `-uall` alone when directories become unreadable). So with the cache
//! on, an entry that differs counts only if git without a monitor, from the same index and
//! with the same settings, does not get it wrong too: that git looks at every directory's
//! times, so it cannot believe a listing that the monitor failed to tell of.

use crate::monitor::{Backend, Monitor};
use crate::ops::{Bytes, Untracked};
use crate::sandbox::{Place, Settings};
use crate::tree::Picture;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a comparison found wrong.
#[derive(Clone, Debug)]
pub struct Mismatch {
    pub kind: &'static str,
    pub text: String,
}

/// How a comparison went that found nothing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// A difference that git has by itself.
    GitsOwn,
    /// The same, where every status was `-uall`: rare.
    GitsOwnAll,
    /// git could not tell, with and without the monitor.
    NoAnswer,
}

/// Compares; remembers the last token and picture for the direct question.
pub struct Oracle<'a> {
    place: &'a Place,
    settings: Settings,
    last: Option<(String, Picture)>,
    pub direct_exact: u64,
    pub direct_full: u64,
}

struct Answer {
    ok: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Answer {
    fn paths(&self) -> Result<(String, Vec<Bytes>), String> {
        paths_of(self.ok, &self.stdout, &self.stderr)
    }
}

fn run(mut command: Command) -> Answer {
    command.stdin(Stdio::null());
    match command.output() {
        Ok(out) => Answer {
            ok: out.status.success(),
            stdout: out.stdout,
            stderr: out.stderr,
        },
        Err(e) => Answer {
            ok: false,
            stdout: Vec::new(),
            stderr: e.to_string().into_bytes(),
        },
    }
}

impl<'a> Oracle<'a> {
    pub fn new(place: &'a Place, settings: Settings) -> Self {
        Self {
            place,
            settings,
            last: None,
            direct_exact: 0,
            direct_full: 0,
        }
    }

    /// A copy of the index at its time of change: git tells racy entries by that time.
    fn copy_index(&self, name: &str) -> PathBuf {
        let from = self.place.worktree().join(".git/index");
        let to = self.place.base.join(name);
        let _ = fs::remove_file(&to);
        if let Ok(meta) = fs::metadata(&from)
            && fs::copy(&from, &to).is_ok()
            && let (Ok(time), Ok(file)) =
                (meta.modified(), fs::File::options().write(true).open(&to))
        {
            let _ = file.set_modified(time);
        }
        to
    }

    fn unmonitored(&self, index: &PathBuf, untracked: Untracked, cache: bool) -> Answer {
        let mut git = self.place.git(&self.place.worktree());
        git.args(["-c", "core.fsmonitor=false"]);
        if !cache {
            git.args(["-c", "core.untrackedCache=false"]);
        }
        git.args(["status", "--porcelain=v1", "-z", untracked.flag()]);
        git.env("GIT_INDEX_FILE", index)
            .env("GIT_OPTIONAL_LOCKS", "0");
        run(git)
    }

    /// `git status` under the monitor against the oracle.
    pub fn compare(&self, untracked: Untracked, locks: bool) -> Result<Verdict, Mismatch> {
        let index = self.copy_index("index-before");
        let with = run(self.place.status(untracked, locks));
        let without = self.unmonitored(&index, untracked, false);
        let noise = noise(&with.stderr, &without.stderr);
        if self.settings.split_index && noise.starts_with("BUG: fsmonitor.c") {
            // git trips over what it saved itself: with a split index, its list of
            // entries to check can be longer than the part of the index it is for.
            return Ok(Verdict::NoAnswer);
        }
        if !noise.is_empty() {
            let text = format!("stderr of git status under the monitor only:\n{noise}");
            return Err(Mismatch {
                kind: "noise",
                text,
            });
        }
        if !with.ok && !without.ok {
            return Ok(Verdict::NoAnswer);
        }
        if with.ok && without.ok && with.stdout == without.stdout {
            return Ok(Verdict::Same);
        }
        let (ours, truth) = (entries(&with.stdout), entries(&without.stdout));
        if self.settings.untracked_cache && untracked != Untracked::No && with.ok && without.ok {
            let same_settings = self.unmonitored(&index, untracked, true);
            let gits = entries(&same_settings.stdout);
            let wrong = |view: &BTreeSet<Vec<u8>>| -> BTreeSet<Vec<u8>> {
                view.symmetric_difference(&truth).cloned().collect()
            };
            if same_settings.ok && wrong(&ours).is_subset(&wrong(&gits)) {
                return Ok(match self.settings.untracked {
                    Some(Untracked::All) => Verdict::GitsOwnAll,
                    _ => Verdict::GitsOwn,
                });
            }
        }
        let again = run(self.place.status(untracked, false));
        let mut text = format!(
            "git status {} {}, untracked cache {}\n",
            untracked.flag(),
            if locks {
                "(may write the index)"
            } else {
                "(optional locks off)"
            },
            if self.settings.untracked_cache {
                "on"
            } else {
                "off"
            },
        );
        for line in ours.difference(&truth) {
            let _ = writeln!(text, "  only under the monitor: {}", shown(line));
        }
        for line in truth.difference(&ours) {
            let _ = writeln!(text, "  missed:                 {}", shown(line));
        }
        if with.ok != without.ok {
            let error = String::from_utf8_lossy(if with.ok {
                &without.stderr
            } else {
                &with.stderr
            });
            let _ = writeln!(
                text,
                "  ok with {}, without {}: {error}",
                with.ok, without.ok
            );
        }
        let healed = again.stdout == without.stdout;
        let _ = writeln!(
            text,
            "  asked again: {}",
            if healed { "right" } else { "still wrong" }
        );
        Err(Mismatch {
            kind: "status",
            text,
        })
    }

    /// Ask the hook itself, and hold its answer against two pictures of the tree.
    pub fn query(&mut self, monitor: &Monitor) -> Result<(), Mismatch> {
        let picture = Picture::of(&self.place.worktree());
        let token = self.last.as_ref().map_or("none", |(token, _)| token);
        let Some(hook) = monitor.hook(token) else {
            return Ok(());
        };
        let answer = run(hook);
        let (new, paths) = answer.paths().map_err(|text| Mismatch {
            kind: "contract",
            text: format!(
                "{text}\n  token {token}\n  answer {}",
                shown(&answer.stdout)
            ),
        })?;
        let full = paths == [Bytes::of("/")];
        if full {
            self.direct_full += 1;
        } else {
            self.direct_exact += 1;
        }
        if let Some((token, old)) = &self.last
            && !full
        {
            let lacking = picture.lacking(old, &paths);
            if !lacking.is_empty() {
                let text = format!(
                    "the hook's answer to {token} lacks {lacking:?}\n  it is {}\n",
                    shown(&answer.stdout)
                );
                return Err(Mismatch {
                    kind: "query",
                    text,
                });
            }
        }
        // After "/" and with an untracked cache, each directory is named once more.
        if monitor.backend == Backend::Inotify && !full {
            // Nothing happens now, so nothing may be told but what is told each time:
            // directories that may not be read, or that lie below such.
            let again = monitor.hook(&new).map(run);
            let closed = |p: &Bytes| picture.hidden(p);
            let steady = again
                .as_ref()
                .and_then(|a| a.paths().ok())
                .is_some_and(|(token, paths)| token == new && paths.iter().all(closed));
            if !steady {
                let text = format!(
                    "asked again with {new}, nothing having changed, the hook answers {}\n\
                     closed directories: {:?}\n",
                    again.map(|a| shown(&a.stdout)).unwrap_or_default(),
                    picture
                        .dirs
                        .iter()
                        .filter(|d| d.is_closed())
                        .collect::<Vec<_>>(),
                );
                return Err(Mismatch {
                    kind: "unsteady",
                    text,
                });
            }
        }
        self.last = Some((new, picture));
        Ok(())
    }

    /// Index entries that git will not look at, and those that it need not look at as
    /// they are as the index says. Asked after a status that could write the index.
    pub fn valid_entries(&self) -> (usize, usize) {
        let mut git = self.place.git(&self.place.worktree());
        git.args(["ls-files", "-f", "-z"]);
        let out = run(git).stdout;
        let tagged = |tag: u8| {
            out.split(|&b| b == 0)
                .filter(|l| l.first() == Some(&tag))
                .count()
        };
        let status = run(self.place.status(Untracked::No, false)).stdout;
        let changed = entries(&status)
            .iter()
            .filter(|e| e.get(1) != Some(&b' '))
            .count();
        let valid = tagged(b'h');
        (valid, (valid + tagged(b'H')).saturating_sub(changed))
    }
}

/// The token and the paths of a hook's answer, if it keeps the contract.
pub fn paths_of(ok: bool, stdout: &[u8], stderr: &[u8]) -> Result<(String, Vec<Bytes>), String> {
    if !ok {
        let error = String::from_utf8_lossy(stderr);
        return Err(format!("the hook failed: {error}"));
    }
    let Some(body) = stdout.strip_suffix(b"\0") else {
        return Err("the answer does not end with NUL".to_owned());
    };
    let mut parts = body.split(|&b| b == 0);
    let token = String::from_utf8(parts.next().unwrap_or_default().to_vec())
        .map_err(|_| "the token is not text")?;
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err("the token is empty or holds white space".to_owned());
    }
    let paths: Vec<Bytes> = parts.map(|p| Bytes(p.to_vec())).collect();
    if paths != [Bytes::of("/")] {
        for path in &paths {
            let parts = path
                .0
                .strip_suffix(b"/")
                .unwrap_or(&path.0)
                .split(|&b| b == b'/');
            let bad = |part: &[u8]| matches!(part, b"" | b"." | b".." | b".git");
            if parts.clone().any(bad) {
                return Err(format!("a path no answer may hold: {path:?}"));
            }
        }
    }
    Ok((token, paths))
}

/// Lines of `with` that `without` has not and that speak of the monitor or of a failure.
/// git's own words on what it cannot read depend on what it has to look at.
fn noise(with: &[u8], without: &[u8]) -> String {
    let old: BTreeSet<_> = without.split(|&b| b == b'\n').collect();
    let words: [&[u8]; 5] = [b"treewatch", b"fsmonitor", b"panicked", b"fatal:", b"hook"];
    let says = |line: &[u8], word: &[u8]| line.windows(word.len()).any(|part| part == word);
    let lines = with
        .split(|&b| b == b'\n')
        .filter(|line| !old.contains(line) && words.iter().any(|word| says(line, word)));
    lines.map(|line| shown(line) + "\n").collect()
}

/// The entries of `git status --porcelain=v1 -z`; a rename keeps its two paths together.
fn entries(stdout: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut all = BTreeSet::new();
    let mut parts = stdout.split(|&b| b == 0);
    while let Some(part) = parts.next() {
        let mut entry = part.to_vec();
        if part.iter().take(2).any(|b| matches!(b, b'R' | b'C')) {
            entry.push(0);
            entry.extend_from_slice(parts.next().unwrap_or_default());
        }
        if !entry.is_empty() {
            all.insert(entry);
        }
    }
    all
}

/// Bytes for people; not too many.
fn shown(bytes: &[u8]) -> String {
    const MANY: usize = 1500;
    let short = bytes.get(..MANY).unwrap_or(bytes).escape_ascii();
    let more = bytes.len().saturating_sub(MANY);
    match more {
        0 => short.to_string(),
        _ => format!("{short}... and {more} bytes more"),
    }
}
