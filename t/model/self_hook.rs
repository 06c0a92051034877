//! Hooks made of this program itself, to judge the test and git:
//!
//! - `ideal` keeps a picture of the tree for each token and answers with what differs.
//!   It can miss nothing a quiet tree shows, so a difference under it is git's own.
//! - `lossy` is `ideal` with one path in fifty never told. The test must find that.
//! - `widened` asks treewatch, and where that says `/`, names everything that is there.
//!   git forgets what it cached of untracked files when told names, not when told `/`:
//!   a difference that this hook does not have comes from there.
//! - `slash` answers `/` to everything. The test must refuse that.

use crate::monitor::Answers;
use crate::ops::Bytes;
use crate::tree::Picture;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first argument that asks for a hook: FLAG KIND STATE-DIRECTORY 2 TOKEN.
pub const FLAG: &str = "--self-hook";

/// Run as a hook; the exit code.
pub fn main(args: &[String]) -> i32 {
    let [kind, state, version, token] = args else {
        return 2;
    };
    if version != "2" {
        return 1;
    }
    let answered = match kind.as_str() {
        "widened" => widened(token),
        _ => answer(kind, Path::new(state), token),
    };
    match answered {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn answer(kind: &str, state: &Path, token: &str) -> std::io::Result<()> {
    let now = Picture::of(Path::new("."));
    let old = token.strip_prefix("ideal:").and_then(|number| {
        let text = fs::read(state.join(number)).ok()?;
        serde_json::from_slice::<Picture>(&text).ok()
    });
    let mut out = Vec::new();
    let mut full = true;
    match old {
        Some(old) if kind != "slash" && old == now => {
            out.extend_from_slice(token.as_bytes());
            out.push(0);
            full = false;
            for path in closed(&now) {
                out.extend_from_slice(&path.0);
                out.push(0);
            }
        }
        Some(old) if kind != "slash" => {
            out.extend_from_slice(keep(state, &now)?.as_bytes());
            out.push(0);
            full = false;
            for path in changed(&old, &now) {
                if kind == "lossy" && is_lost(&path) {
                    continue;
                }
                out.extend_from_slice(&path.0);
                out.push(0);
            }
        }
        _ => {
            out.extend_from_slice(keep(state, &now)?.as_bytes());
            out.extend_from_slice(b"\0/\0");
        }
    }
    let mut counts = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(state.join("answers"))?;
    counts.write_all(if full { b"/" } else { b"e" })?;
    std::io::stdout().write_all(&out)
}

fn widened(token: &str) -> std::io::Result<()> {
    let treewatch = std::env::current_exe()?.with_file_name("treewatch");
    let mut out = Command::new(treewatch).args(["2", token]).output()?.stdout;
    if out.ends_with(b"\0/\0") {
        out.truncate(out.len() - 2);
        let now = Picture::of(Path::new("."));
        let known = Command::new("git")
            .args(["-c", "core.fsmonitor=false", "ls-files", "-z"])
            .output()?;
        out.extend_from_slice(&known.stdout);
        let files = now.files.into_iter().map(|(path, _)| path);
        let dirs = now.dirs.into_iter().map(|dir| dir.path.join(b"any"));
        for path in files.chain(dirs).chain([Bytes::of("any")]) {
            out.extend_from_slice(&path.0);
            out.push(0);
        }
    }
    std::io::stdout().write_all(&out)
}

/// What the hooks in `state` answered so far.
pub fn answers(state: &Path) -> Option<Answers> {
    let all = fs::read(state.join("answers")).ok()?;
    let exact = all.iter().filter(|&&b| b == b'e').count() as u64;
    Some(Answers {
        exact,
        full: all.len() as u64 - exact,
    })
}

/// Keep a picture; its token.
fn keep(state: &Path, now: &Picture) -> std::io::Result<String> {
    let text = serde_json::to_vec(now)?;
    for number in 1_u32.. {
        let path: PathBuf = state.join(number.to_string());
        let new = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path);
        match new {
            Ok(mut file) => {
                file.write_all(&text)?;
                return Ok(format!("ideal:{number}"));
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(std::io::Error::other("too many tokens"))
}

/// Directories that git cannot look into. git finds their tracked files unchanged, and
/// forgets about them what it cannot see, so they are told each time.
fn closed(now: &Picture) -> Vec<Bytes> {
    let shut = now.dirs.iter().filter(|dir| dir.is_closed());
    shut.map(|dir| dir.path.clone()).collect()
}

fn changed(old: &Picture, now: &Picture) -> BTreeSet<Bytes> {
    let (there, gone) = now.since(old);
    let mut all: BTreeSet<Bytes> = there.into_iter().chain(gone).collect();
    let before: BTreeSet<_> = old.dirs.iter().collect();
    let after: BTreeSet<_> = now.dirs.iter().collect();
    for dir in before.symmetric_difference(&after) {
        all.insert(dir.path.clone());
        // Any name in a directory makes git list it again, one that is not there too.
        all.insert(dir.path.join(b"any"));
    }
    all.extend(closed(now));
    all
}

/// One path in fifty, always the same ones.
fn is_lost(path: &Bytes) -> bool {
    let hash = path
        .0
        .iter()
        .fold(7_u32, |h, &b| h.wrapping_mul(31).wrapping_add(b.into()));
    hash.is_multiple_of(50)
}
