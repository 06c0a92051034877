//! `treewatch query`: what the hook would answer, in a form to read.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Deserialize;

use crate::client::{self, Failure};
use crate::start;
use crate::token;
use crate::wire::{BODY_MAX, Kind};

use super::answer::{Answer, quoted};
use super::problem::{Outcome, Problem};
use super::worktree::{Worktree, no_worktree};
use super::{exit, out, watcher};

/// `treewatch query [--since TOKEN] [--json [-]] [DIR]`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Ask for what changed since this token; without it, everything counts as changed
    #[arg(long, value_name = "TOKEN")]
    since: Option<OsString>,
    /// Print JSON: {"token": text, "everything": bool, "paths": [text or {"bytes": [..]}]}
    #[arg(long)]
    json: bool,
    /// A directory in the worktree [default: the current one]; with --json, "-" before it
    /// reads the request from standard input: {"version": 2, "token": text}
    #[arg(value_name = "[-] [DIR]", num_args = 0..=2)]
    places: Vec<OsString>,
}

#[derive(Deserialize)]
struct Request {
    version: u64,
    token: String,
}

/// Asks, and prints the answer.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut places = arguments.places.iter().map(OsString::as_os_str).peekable();
    let from_stdin = arguments.json && places.next_if_eq(&OsStr::new("-")).is_some();
    let dir = places.next();
    if places.next().is_some() || (from_stdin && arguments.since.is_some()) {
        return Err(Problem::new(
            "query takes one directory, and a token from --since or from standard input",
        )
        .advice("See: treewatch help query")
        .code(exit::USAGE));
    }
    let token = if from_stdin {
        read_request()?
    } else {
        let since = arguments.since.as_deref().unwrap_or_default();
        since.as_bytes().to_vec()
    };
    let mut worktree = Worktree::enter(dir.map(Path::new))?;
    let (bytes, trouble) = match ask(&mut worktree, &token)? {
        Ok(bytes) => (bytes, None),
        Err(why) => {
            let mut bytes = token::NOBODY.as_bytes().to_vec();
            bytes.extend_from_slice(b"\0/\0");
            (bytes, Some(why))
        }
    };
    let answer = Answer::parse(&bytes)
        .ok_or_else(|| Problem::new("the watcher's answer has not the form of one"))?;
    if arguments.json {
        out::print_bytes(format!("{}\n", answer.json()).as_bytes())?;
    } else {
        out::print_bytes(&text(&answer))?;
    }
    match trouble {
        None => Ok(exit::OK),
        Some(why) => Err(Problem::new(format_args!(
            "git would be told to look at everything: {why}"
        ))
        .advice("See: treewatch doctor")),
    }
}

/// As the hook does, but with the reason where it says "everything" for want of a watcher.
fn ask(worktree: &mut Worktree, token: &[u8]) -> Result<Result<Vec<u8>, String>, Problem> {
    let token = if token.len() > BODY_MAX { b"" } else { token };
    let place = &mut worktree.place;
    let asked = client::reach(place)
        .and_then(|socket| client::ask(&socket, place, Kind::Query, token).map(|()| socket))
        .and_then(|socket| client::answer(&socket, client::DEADLINE));
    match asked {
        Ok(answer) => return Ok(Ok(answer)),
        Err(Failure::Nobody) => {}
        Err(Failure::Protocol(theirs)) if start::replace_older(place, theirs) => {}
        Err(failure) => return Ok(Err(watcher::words(&failure))),
    }
    match start::start_and_ask(place, Kind::Query, token, client::DEADLINE) {
        Ok(answer) => Ok(Ok(answer)),
        Err(start::NotStarted::NoWorktree(error)) => Err(no_worktree(&worktree.top, &error)),
        Err(why) => Ok(Err(watcher::not_started(&why))),
    }
}

fn read_request() -> Result<Vec<u8>, Problem> {
    let bad = |why: String| {
        Problem::new(format_args!("cannot read the request: {why}"))
            .advice(r#"It is one JSON object on standard input: {"version":2,"token":"..."}"#)
            .code(exit::USAGE)
    };
    let mut text = Vec::new();
    std::io::stdin()
        .take(1 << 20)
        .read_to_end(&mut text)
        .map_err(|error| bad(error.to_string()))?;
    // serde would take an array for the object as well.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("it is no JSON object".to_owned()));
    }
    let request: Request = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
    if request.version != 2 {
        return Err(bad(format!(
            "version {} is not spoken here, only 2",
            request.version
        )));
    }
    Ok(request.token.into_bytes())
}

/// The token first, then a line for each path.
fn text(answer: &Answer<'_>) -> Vec<u8> {
    let mut text = b"token ".to_vec();
    text.extend_from_slice(&quoted_token(answer.token));
    text.push(b'\n');
    match &answer.paths {
        None => text.extend_from_slice(b"everything counts as changed\n"),
        Some(paths) if paths.is_empty() => text.extend_from_slice(b"nothing has changed\n"),
        Some(paths) => {
            for path in paths {
                text.extend_from_slice(b"changed ");
                text.extend_from_slice(&quoted(path));
                text.push(b'\n');
            }
        }
    }
    text
}

/// A token of ours holds quotes and is shown as it is.
fn quoted_token(token: &[u8]) -> Vec<u8> {
    if token.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        token.to_vec()
    } else {
        quoted(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_read_as_sentences() {
        let show = |bytes: &[u8]| String::from_utf8(text(&Answer::parse(bytes).unwrap())).unwrap();
        assert_eq!(
            show(b"{\"v\":2}\0/\0"),
            "token {\"v\":2}\neverything counts as changed\n"
        );
        assert_eq!(show(b"t\0"), "token t\nnothing has changed\n");
        assert_eq!(
            show(b"t\0a b\0c\nd\0"),
            "token t\nchanged a b\nchanged \"c\\nd\"\n"
        );
    }
}
