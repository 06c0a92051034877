//! `treewatch status`: is it watching, and if not, why not.

use std::path::Path;

use serde_json::Value;

use super::problem::Outcome;
use super::worktree::Worktree;
use super::{exit, out, state};

/// `treewatch status [--json] [DIR]`.
pub fn run(dir: Option<&Path>, json: bool) -> Outcome {
    let worktree = Worktree::enter(dir)?;
    let state = state::of(&worktree);
    if json {
        out::print_json(&state)?;
    } else {
        out::print(&screen(&state))?;
    }
    Ok(code(&state))
}

/// The exit code a state stands for.
pub fn code(state: &Value) -> u8 {
    match state["state"].as_str() {
        Some("watching" | "crawling") => exit::OK,
        Some("not-running") => exit::NOT_RUNNING,
        _ => exit::NO,
    }
}

fn screen(state: &Value) -> String {
    let mut text = String::new();
    for field in state::FIELDS {
        if !state[field].is_null() {
            text.push_str(&format!("{field}: {}\n", state[field]));
        }
    }
    text
}
