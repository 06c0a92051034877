//! treewatch: a file-system monitor for git, in the place of the `core.fsmonitor` hook.
//!
//! One program plays three parts, and the first argument says which:
//!
//! | first argument | part | module |
//! |---|---|---|
//! | `1`, `2` | the hook, called by git for nearly every command | [`hook`] |
//! | `serve` | the watcher, started by the hook | [`watcher`] |
//! | anything else | a person's command | [`cli`] |
//!
//! Who may use whom: [`wire`] and [`token`] are pure and use nobody. [`backend`] knows
//! nothing of sockets or git. [`watcher`] uses these three. [`client`] and [`start`]
//! reach a watcher over [`wire`]; [`hook`] and [`cli`] use those two. The hook's path never
//! goes through clap or serde.
#![cfg_attr(not(test), no_main)]

mod backend;
mod cli;
mod client;
mod config;
mod hook;
mod repo;
mod start;
mod sys;
mod token;
mod trace;
mod watcher;
mod wire;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Plays the part that the arguments ask for; returns the exit code.
pub fn run() -> i32 {
    let mut arguments = std::env::args_os().skip(1);
    let (first, second) = (arguments.next(), arguments.next());
    let only_two = arguments.len() == 0;
    match (first.as_deref().map(OsStrExt::as_bytes), second) {
        (Some(b"2"), Some(token)) if only_two => hook::version_2(&token),
        (Some(b"1"), Some(_)) if only_two => hook::version_1(),
        (Some(first), Some(second))
            if first == watcher::COMMAND.as_bytes() && arguments.len() == 3 =>
        {
            let rest: Vec<OsString> = std::iter::once(second).chain(arguments).collect();
            watcher::main(&rest)
        }
        _ => cli::main(),
    }
}

#[cfg(test)]
fn main() {}
