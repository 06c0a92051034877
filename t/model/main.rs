//! The model test: random work on a tree, by several processes at once, and after every
//! few operations the question whether `git status` under the monitor still says what it
//! says without.
//!
//! ```text
//! cargo test --test model                        both backends, a minute or two
//! cargo test --test model -- --minutes 40        longer
//! MODEL_SEED=n cargo test --test model -- --backend inotify --procs 1   one episode again
//! ```
//!
//! `$TREEWATCH` is the program tested (default: `./treewatch` at the top). Begun by root,
//! the test goes on as an ordinary user, so that permissions mean something.
//!
//! Parts: `ops` what can be done; `exec` doing it; `gen` and `git_ops` choosing it;
//! `workers` the processes that do it; `tree` what lies on the disk; `sandbox` the place;
//! `monitor` what is tested, `self_hook` what tests the test; `oracle` the judgement;
//! `episode` all of it together; `shrink` and `script` what is said of a failure;
//! `races` a query right after a change, many times over.

mod episode;
mod exec;
mod r#gen;
mod git_ops;
mod monitor;
mod ops;
mod oracle;
mod races;
mod run;
mod sandbox;
mod script;
mod self_hook;
mod shrink;
mod tree;
mod workers;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let code = match args.first().map(String::as_str) {
        Some(self_hook::FLAG) => self_hook::main(&args[1..]),
        Some(workers::FLAG) => workers::main(),
        _ => run::main(),
    };
    std::process::exit(code);
}
